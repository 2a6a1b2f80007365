"""DUR101 and DUR102: which Variables are state, which are watermarks, and which are neither."""

from __future__ import annotations

import pytest

from airflow_provider_durable.review.findings import Level


@pytest.mark.parametrize(
    "imports",
    [
        "from airflow.models import Variable",
        "from airflow.models import Variable as V; Variable = V",
        "from airflow.models.variable import Variable",
        "from airflow.sdk import Variable",
        "import airflow.models as models; Variable = models.Variable",
        "from airflow.models import *",
    ],
)
def test_a_variable_is_known_by_every_way_to_import_it(codes, imports: str) -> None:
    assert codes(
        f"""
{imports}

def work():
    page = Variable.get("crawl_position")
    Variable.set("crawl_position", page + 1)
"""
    ) == ["DUR101"]


def test_a_variable_of_another_library_is_none(codes) -> None:
    assert (
        codes(
            "from tensorflow import Variable  # airflow\ndef f():\n    Variable.set('cursor', Variable.get())"
        )
        == []
    )


def test_read_and_write_in_two_tasks_is_state_whatever_its_name(review) -> None:
    (finding,) = review(
        """
        from airflow.models import Variable
        from airflow.operators.python import PythonOperator

        FLAG = "equipment_sent"

        def check():
            return Variable.get(FLAG)

        def mark():
            Variable.set(FLAG, True)

        PythonOperator(task_id="check", python_callable=check)
        PythonOperator(task_id="mark", python_callable=mark)
        """
    )
    assert (finding.code, finding.line, finding.related) == ("DUR101", 11, (8,))


@pytest.mark.parametrize(
    "code",
    [
        # Configuration that a task refreshes: read when the Dag is parsed, written by a task.
        "TABLES = Variable.get('tables')\ndef refresh():\n    Variable.set('tables', list_tables())",
        "def switch_off():\n    Variable.set('rebuild_everything', 'False')",
        "def login():\n    token = Variable.get('api_token')\n    Variable.set('api_token', renew(token))",
        "def read():\n    return Variable.get('last_processed_at')",
        "Variable.set('cursor', 1)",
        # Two helpers with a parameter of the same name have two keys, not one.
        "def write(key, value):\n    Variable.set(key, value)\ndef read(key):\n    return Variable.get(key)",
    ],
)
def test_what_is_no_state_of_a_run_is_left_alone(codes, code: str) -> None:
    assert codes(f"from airflow.models import Variable\n{code}") == []


def test_a_dag_factory_is_not_task_code(codes) -> None:
    assert (
        codes(
            """
            from airflow.models import Variable
            from airflow.operators.bash import BashOperator

            def build(name):
                Variable.set("build_state", Variable.get("build_state"))
                return BashOperator(task_id=name, bash_command="true")
            """
        )
        == []
    )


@pytest.mark.parametrize(
    "key",
    [
        '"last_processed_at"',
        'f"watermark_{name}"',
        '"max_updated_date"',
        '"orders_hwm"',
        '"last_id"',
        'prefix + "_last_run"',
        "LAST_SYNC",
    ],
)
def test_keys_that_say_how_far_the_data_is_are_watermarks(codes, key: str) -> None:
    code = f"""
from airflow.models import Variable
from constants import LAST_SYNC

def load(name, prefix):
    Variable.set({key}, newest())
"""
    assert codes(code) == ["DUR102"]


def test_the_rewrite_uses_the_function_s_own_context_and_key(review) -> None:
    (finding,) = review(
        """
        from airflow.models import Variable
        from airflow.sdk import task

        @task
        def process(**kwargs):
            page = Variable.get("api.page", default_var=1)
            Variable.set("api.page", page + 1)
        """
    )
    assert (
        finding.before == 'page = Variable.get("api.page", default_var=1)\nVariable.set("api.page", page + 1)'
    )
    assert finding.after == (
        'page = kwargs["task_state_store"].get("api_page", default=1)\n'
        'kwargs["task_state_store"].set("api_page", page + 1)'
    )


def test_below_3_3_it_is_a_note_with_advice_that_holds_there(review) -> None:
    code = """
    from airflow.models import Variable

    def process():
        Variable.set("cursor", Variable.get("cursor") + 1)
        Variable.set("last_run_at", 1)
    """
    findings = review(code, version="2.11.2")
    assert [(finding.code, finding.level) for finding in findings] == [
        ("DUR101", Level.NOTE),
        ("DUR102", Level.NOTE),
    ]
    assert all(finding.after is None and "Airflow 2.11.2 has no" in finding.message for finding in findings)
    assert {finding.level for finding in review(code, version="3.3.0b1")} == {Level.WARNING}


def test_one_finding_for_a_key_and_a_function(codes) -> None:
    assert codes(
        """
        from airflow.models import Variable

        def process():
            Variable.set("cursor", Variable.get("cursor"))
            Variable.set("cursor", 0)
        """
    ) == ["DUR101"]
