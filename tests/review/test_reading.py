"""Files of all kinds: what cannot be read is one finding, what is hostile is survived, comments silence."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_durable.review.engine import Selection, review_text
from airflow_provider_durable.review.findings import Level
from airflow_provider_durable.review.rules import ALL_RULES
from airflow_provider_durable.review.versions import target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.findings import Report

TARGET = target("3.3.2")


@pytest.mark.parametrize(
    "data",
    [
        b"def (:\n",
        b"import airflow\n\x00",
        b"# -*- coding: nonsense -*-\nimport airflow",
        b"# -*- coding: ascii -*-\n# \xc3\xa9 airflow",
        b"import airflow\nname = '\xff\xfe'",
        b"x = " + b"(" * 5000 + b")" * 5000,
        b"x = " + b"-" * 100_000 + b"1",
        b"print 'airflow'",
    ],
)
def test_what_cannot_be_parsed_is_one_finding(data: bytes) -> None:
    (finding,) = review_text(data, "dags/x.py", Selection(), TARGET)
    assert (finding.code, finding.level) == ("DUR001", Level.ERROR)


def test_the_finding_names_the_line_and_the_python_that_read_it() -> None:
    (finding,) = review_text("import airflow\n\nif True\n    pass\n", "x.py", Selection(), TARGET)
    assert finding.line == 3
    assert f"Python {sys.version_info[0]}.{sys.version_info[1]}" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeffimport airflow\n",
        "import airflow\r\nx = 1\r\n",
        "# airflow\n" + "x = " + " + ".join(["'a'"] * 500),
        "import airflow\n" + "a >> " * 300 + "a",
        "import airflow\nx = x\ny = z\nz = y\ny.set('a', y)",
        "from airflow.models import Variable\nVariable.set(*args)\nVariable.get()",
        "import airflow\nclass A(A): pass\nclass B(C): pass\nclass C(B): pass\nB(task_id='x')",
        "from airflow.sdk import task\n@task\ndef f():\n    return f()\nf(f(f()))",
        "import airflow\nd = {**d}\nOp(task_id='x', **d)",
        "import airflow\nx = y.output\ny = x.output\nOperator(task_id='a', z=x)",
    ],
)
def test_odd_files_are_survived(text: str) -> None:
    assert review_text(text, "x.py", Selection(), TARGET) == []


def test_deep_code_that_parses_is_survived() -> None:
    nested = (
        "airflow = 1\n"
        + "".join("    " * depth + f"if x{depth}:\n" for depth in range(90))
        + "    " * 90
        + "pass\n"
    )
    assert [finding.code for finding in review_text(nested, "x.py", Selection(), TARGET)] in ([], ["DUR001"])


WORDS = st.sampled_from(
    [
        "Variable",
        "task",
        "DAG",
        "store",
        "None",
        "x",
        "'k'",
        "Op",
        "load",
        "context",
        "submit",
        "wait_for_termination",
    ]
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    name, other, third = draw(WORDS), draw(WORDS), draw(WORDS)
    return draw(
        st.sampled_from(
            [
                f"v = {name}",
                f"v = v.output[{other}]",
                f"a >> {name} >> [b, {other}]",
                f"v = GlueJobOperator(task_id={name}, wait_for_completion=False, **{other})",
                f"GlueJobSensor(task_id='w', run_id={name}, timeout={other})",
                f"Variable.set({name}, Variable.get({other}))",
                f"context['task_state_store'].set({name}, {other})",
                f"if Variable.get({name}): submit({other})",
                f"class Op(ResumableJobMixin, {name}): external_id_key = {other}",
                f"def load(a, *b, c={name}, **context): return {other}",
                f"@task\ndef f(): ti.xcom_push(key={name}, value={other})",
                f"f.expand({third}=[{name}])",
                f"with {name} as {third}: Op(task_id={other})",
                f"v = {name} if {other} else {third}",
                f"chain({name}, [a, {other}], {third})",
            ]
        )
    )


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(st.lists(statements(), max_size=8), st.sampled_from(["3.3.2", "2.11.2"]))
def test_no_code_that_parses_makes_the_review_fail(lines: list[str], version: str) -> None:
    head = "from airflow.models import Variable\nfrom airflow.sdk import task, DAG, ResumableJobMixin\n"
    head += "from airflow.providers.amazon.aws.operators.glue import GlueJobOperator\n"
    head += "from airflow.providers.amazon.aws.sensors.glue import GlueJobSensor\n"
    text = head + "\n".join(lines)
    try:
        ast.parse(text)
    except SyntaxError:
        return
    for finding in review_text(text, "x.py", Selection(), target(version)):
        assert finding.code != "DUR001"
        assert 1 <= finding.line <= finding.end_line <= text.count("\n") + 1


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200))
def test_no_bytes_make_the_review_fail(data: bytes) -> None:
    review_text(b"airflow=1\n" + data, "x.py", Selection(), TARGET)


BAD = 'from airflow.models import Variable\ndef f():\n    Variable.set("cursor", Variable.get("cursor"))'


@pytest.mark.parametrize(
    ("comment", "silenced"),
    [
        ("# noqa", True),
        ("# NOQA", True),
        ("# noqa: DUR101", True),
        ("# noqa: E501, DUR101", True),
        ("# noqa:DUR1", True),
        ("# noqa: dur101 the cursor is shared on purpose", True),
        ("# noqa: DUR102", False),
        ("# noqa: E501", False),
        ("# noqa: because", False),
        ("# no", False),
    ],
)
def test_noqa(comment: str, silenced: bool) -> None:
    found = review_text(f"{BAD}  {comment}", "x.py", Selection(), TARGET)
    assert [finding.code for finding in found] == ([] if silenced else ["DUR101"])


def test_noqa_holds_on_the_first_and_last_line_of_a_statement() -> None:
    head = "from airflow.models import Variable\n"
    code = head + 'def f():\n    Variable.set({}\n        "cursor",\n        1,\n    ){}'
    assert review_text(code.format("", "  # noqa: DUR101"), "x.py", Selection(), TARGET) == []
    assert review_text(code.format("  # noqa: DUR101", ""), "x.py", Selection(), TARGET) == []
    assert len(review_text(code.format("", ""), "x.py", Selection(), TARGET)) == 1


def test_columns_count_characters() -> None:
    (finding,) = review_text(BAD.replace("    V", '    "é"; V'), "x.py", Selection(), TARGET)
    assert (finding.line, finding.column) == (3, 10)


@pytest.mark.parametrize(
    ("selection", "found"),
    [
        (Selection(), True),
        (Selection(select=("ALL",)), True),
        (Selection(select=("DUR2",)), False),
        (Selection(ignore=("DUR1",)), False),
        (Selection(select=("DUR101",), ignore=("DUR1",)), True),
        (Selection(select=("DUR1",), ignore=("DUR101",)), False),
        (Selection(per_file_ignores=(("dags/*", ("DUR1",)),)), False),
        (Selection(per_file_ignores=(("x.py", ("DUR1",)),)), False),
        (Selection(per_file_ignores=(("other/*", ("DUR1",)),)), True),
    ],
)
def test_selection(selection: Selection, found: bool) -> None:
    assert bool(review_text(BAD, "dags/x.py", selection, TARGET)) is found


def test_what_a_unit_test_does_is_not_what_a_task_does() -> None:
    code = """
from airflow.models import Variable
from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator

def setup():
    Variable.set("cursor", Variable.get("cursor"))

class TestRun:
    def test_it_defers(self):
        DatabricksRunNowOperator(task_id="x", deferrable=True, wait_for_termination=False)
"""
    only = Selection(select=("DUR1", "DUR2"))
    assert [found.code for found in review_text(code, "dags/x.py", only, TARGET)] == ["DUR101", "DUR210"]
    assert review_text(code, "tests/test_run.py", only, TARGET) == []


def test_a_fault_in_a_rule_is_one_finding_for_that_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(dag_file: object) -> Iterator[Report]:
        raise KeyError("no such thing")
        yield

    monkeypatch.setitem(ALL_RULES, "DUR101", replace(ALL_RULES["DUR101"], check=broken))
    (finding,) = review_text("import airflow", "x.py", Selection(), TARGET)
    assert finding.code == "DUR001"
    assert "a fault of the review: KeyError(" in finding.message
