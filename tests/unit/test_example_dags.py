"""The examples load on every Airflow that has what they use; tests/e2e/test_examples.py runs them.

A Dag file of Airflow 3 is one of Airflow 2.11 with other imports, as docs/older-airflow.md says.
"""

from __future__ import annotations

import ast
import re
import warnings
from pathlib import Path

import pytest

from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE
from airflow_provider_durable.resumable.hooks import JobHooks
from airflow_provider_durable.review.engine import Selection, review_text
from airflow_provider_durable.review.findings import Level
from airflow_provider_durable.review.versions import target

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Airflow below 3.2
    from airflow.models.dagbag import DagBag

try:
    import airflow.sdk  # noqa: F401

    HAS_SDK = True
except ImportError:  # Airflow 2
    HAS_SDK = False

EXAMPLES = Path(__file__).parents[2] / "example_dags"
#: Where Airflow 2 has what Dag files take from the SDK, as the page's table says.
AIRFLOW_2 = dict(
    re.findall(
        r"^\| `from airflow\.sdk import (\w+)` \| `from ([\w.]+) import \1` \|$",
        (EXAMPLES.parent / "docs" / "older-airflow.md").read_text(),
        re.MULTILINE,
    )
)


def needs_the_stores(path: Path) -> bool:
    """Whether the first line says so."""
    first = (ast.get_docstring(ast.parse(path.read_text())) or "").splitlines()[0]
    return first.endswith("Needs Airflow 3.3.")


ALL = sorted(EXAMPLES.rglob("*.py"))
DAGS = sorted(EXAMPLES.glob("*.py"))
LOADABLE = [path for path in DAGS if HAS_TASK_STATE_STORE or not needs_the_stores(path)]


def for_airflow_2(source: str) -> str:
    def imports(found: re.Match[str]) -> str:
        return "\n".join(f"from {AIRFLOW_2[name]} import {name}" for name in found[1].split(", "))

    return re.sub(r"^from airflow\.sdk import (.*)$", imports, source, flags=re.MULTILINE)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Load Dag files as Airflow does; the folder of a user's own modules is on the path."""
    modules = EXAMPLES / "modules"
    if not HAS_SDK:
        for path in modules.glob("step_*.py"):
            (tmp_path / path.name).write_text(for_airflow_2(path.read_text()))
        modules = tmp_path
    monkeypatch.syspath_prepend(modules)

    def load_one(path: Path):
        folder = tmp_path / "dags"
        folder.mkdir()
        source = path.read_text()
        (folder / path.name).write_text(source if HAS_SDK else for_airflow_2(source))
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # of mode="reschedule" below 3.3, and of providers about themselves
            bag = DagBag(folder)
        assert bag.import_errors == {}
        return bag.dags

    return load_one


@pytest.mark.parametrize("path", LOADABLE, ids=lambda path: path.stem)
def test_it_loads_and_a_dag_is_named_as_its_file(load, path: Path) -> None:
    dags = load(path)
    assert path.stem in dags
    assert all(dag.tasks for dag in dags.values())


@pytest.mark.parametrize("path", LOADABLE, ids=lambda path: path.stem)
def test_a_durable_task_has_retries(load, path: Path) -> None:
    for dag in load(path).values():
        durable = [task for task in dag.tasks if isinstance(task, JobHooks)]
        assert [task.task_id for task in durable if task.retries < 1] == []
        if not HAS_TASK_STATE_STORE:
            assert [task.task_id for task in durable if task.durable] == []


@pytest.mark.parametrize("path", DAGS, ids=lambda path: path.stem)
def test_what_needs_3_3_says_so_in_its_first_line(path: Path) -> None:
    findings = review_text(path.read_text(), str(path), Selection(), target("3.2.0"))
    assert ("DUR601" in {finding.code for finding in findings}) is needs_the_stores(path)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_the_review_has_nothing_to_say_of_it(path: Path) -> None:
    findings = review_text(path.read_text(), str(path), Selection(), target("3.3.0"))
    assert [finding.code for finding in findings if finding.level is not Level.NOTE] == []


def test_there_is_one_for_each_operator_and_way_of_waiting() -> None:
    ways = {path.stem.rpartition("_")[0]: set() for path in DAGS if path.stem.endswith("_poke")}
    for path in DAGS:
        operator, _, way = path.stem.rpartition("_")
        if operator in ways:
            ways[operator].add(way)
    assert set(ways) >= {"batch", "bigquery", "databricks_submit_run", "databricks_run_now"}
    assert all(each == {"poke", "deferrable", "reschedule"} for each in ways.values())


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_it_opens_with_what_it_shows(path: Path) -> None:
    assert len(ast.get_docstring(ast.parse(path.read_text())) or "") > 80
