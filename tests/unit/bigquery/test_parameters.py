"""A drop-in: parameters, fields and labels as Apache's; what cannot be meant is said before any request."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from unit.bigquery.jobs_api import QUERY, context, make

if TYPE_CHECKING:
    from pathlib import Path

    from unit.bigquery.jobs_api import FakeBigQuery
    from unit.fakes import Store


def test_default_args_reach_the_parameters_of_both() -> None:
    task = make(
        default_args={"location": "EU", "on_clear": "resume", "durable": False, "poll_interval": 11.0},
        poll_interval=12.0,
    )
    assert (task.location, task.on_clear, task.durable, task.poll_interval) == ("EU", "resume", False, 12.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"configuration": None}, "no job configuration"),
        ({"configuration": {}}, "no job configuration"),
        ({"configuration": {"labels": {}}}, "names no job type"),
        ({"configuration": {"querry": {}}}, r"its keys are \['querry'\]"),
        ({"configuration": {**QUERY, "load": {}}}, r"names 2 job types \(query, load\)"),
        ({"job_id": "a b"}, "is no job id"),
        ({"job_id": "a.b"}, "letters, digits, underscores and dashes"),
        ({"job_id": "été"}, "is no job id"),
        ({"job_id": "a" * 992}, r"\(992 characters\).*1 to 991"),
    ],
)
def test_bad_input_is_an_error_when_the_dag_is_parsed(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        make(**parameters)
    assert "BigQueryInsertJobOperator(task_id='load.visits')" in str(error.value)


@pytest.mark.parametrize(
    ("parameters", "rendered", "message"),
    [
        ({"job_id": "{{ ds }}"}, {"job_id": "2026/03/01"}, "is no job id"),
        ({"job_id": "{{ ds }}"}, {"job_id": "x" * 1000}, "1000 characters"),
        ({}, {"configuration": {"query": {"query": "  "}}}, "is empty"),
        ({}, {"configuration": {"query": {}}}, "is empty"),
        ({}, {"configuration": ["query"]}, "no job configuration"),
        ({}, {"configuration": {"query": "SELECT 1"}}, "is no dictionary"),
        ({"configuration": "{{ x }}"}, {"configuration": "nonsense"}, "is no JSON"),
        ({"configuration": "{{ x }}"}, {"configuration": "[]"}, "no job configuration"),
    ],
)
def test_what_a_template_renders_to_is_checked_before_any_request(
    bigquery: FakeBigQuery, store: Store, parameters: dict[str, Any], rendered: dict[str, Any], message: str
) -> None:
    task = make(**parameters)
    for name, value in rendered.items():
        setattr(task, name, value)
    with pytest.raises(ValueError, match=message):
        task.execute(context(store))
    assert bigquery.requests == []
    assert store.values == {}


def test_the_longest_id_is_taken(bigquery: FakeBigQuery, store: Store) -> None:
    assert len(make(job_id="a" * 991).execute(context(store))) == 1024


def test_a_task_id_may_have_letters_that_a_job_id_may_not(bigquery: FakeBigQuery, store: Store) -> None:
    task = make()
    task.task_id = "été"
    assert "_t__" in task.execute(context(store))


def test_a_configuration_may_be_rendered_json(bigquery: FakeBigQuery, store: Store) -> None:
    task = make(configuration="{{ params.job }}")
    task.configuration = json.dumps(QUERY)
    assert task.execute(context(store)) == bigquery.only_id


def test_a_configuration_may_be_a_file(bigquery: FakeBigQuery, store: Store, tmp_path: Path) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(QUERY))
    task = make(configuration=str(file))
    task.prepare_template()
    assert task.execute(context(store)) == bigquery.only_id


@pytest.mark.parametrize(
    ("configured", "of_connection", "expected"),
    [
        ({"team": "a"}, {}, {"team": "a"}),
        ({"team": "a"}, {"team": "b", "cost": "c"}, {"team": "a", "cost": "c"}),
        (None, {"cost": "c"}, {"cost": "c"}),
    ],
)
def test_labels_of_author_and_connection_are_kept(
    bigquery: FakeBigQuery,
    monkeypatch: pytest.MonkeyPatch,
    configured: Any,
    of_connection: Any,
    expected: Any,
) -> None:
    extra = {"project": "a-project", "is_anonymous": True, "labels": of_connection}
    connection = {"conn_type": "google_cloud_platform", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(connection))
    configuration = {**QUERY, "labels": configured} if configured else dict(QUERY)
    make(configuration=configuration).execute(context())
    ours = {"airflow-dag": "adhoc_airflow", "airflow-task": "load-visits"}
    assert bigquery.jobs[bigquery.only_id]["configuration"]["labels"] == {**expected, **ours}
    assert configuration == ({**QUERY, "labels": configured} if configured else QUERY)


def test_poll_interval_takes_a_timedelta_in_every_way_of_waiting(
    bigquery: FakeBigQuery, store: Store
) -> None:
    assert make(poll_interval=timedelta(milliseconds=1)).execute(context(store))


def test_a_dag_that_imports_the_operator_imports_nothing_beyond_apaches_module() -> None:
    program = (
        "import sys\n"
        "import airflow.providers.google.cloud.operators.bigquery\n"
        "from airflow_provider_durable import ResumableJobMixin\n"
        "before = set(sys.modules)\n"
        "import airflow_provider_durable.operators.bigquery\n"
        "new = set(sys.modules) - before\n"
        "print(sorted(name for name in new if not name.startswith('airflow_provider_durable.')))\n"
        "print(sorted(name for name in new if '.triggers' in name))\n"
    )
    output = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    ).stdout
    assert output.splitlines()[-2:] == ["[]", "[]"]
