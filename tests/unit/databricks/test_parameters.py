"""A drop-in: Apache's parameters, request, link and template fields; and bad input is a clear error."""

from __future__ import annotations

import copy
import inspect
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.databricks.operators.databricks import (
    DatabricksRunNowOperator as ApacheRunNowOperator,
)
from airflow.providers.databricks.operators.databricks import (
    DatabricksSubmitRunOperator as ApacheSubmitRunOperator,
)

from airflow_provider_durable.operators.databricks import (
    DatabricksRunNowOperator,
    DatabricksSubmitRunOperator,
)
from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE
from unit.databricks.jobs_api import SUCCEEDED, TASK, context, operator

if TYPE_CHECKING:
    from unit.databricks.jobs_api import JobsApi
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store
PAIRS = pytest.mark.parametrize(
    ("durable", "apache"),
    [
        (DatabricksSubmitRunOperator, ApacheSubmitRunOperator),
        (DatabricksRunNowOperator, ApacheRunNowOperator),
    ],
)
#: Parameters of both kinds, named and inside ``json``, on every version since the floor.
SUBMITS: list[dict[str, Any]] = [
    {"notebook_task": TASK, "new_cluster": {"num_workers": 2, "spark_version": "15"}, "run_name": "a run"},
    {"tasks": [{"task_key": "a", "notebook_task": TASK}], "access_control_list": [{"user_name": "u"}]},
    {"json": {"spark_jar_task": {"main_class_name": "M"}, "libraries": [{"jar": "j"}]}, "timeout_seconds": 9},
    {"dbt_task": {"commands": ["dbt run"]}, "git_source": {"git_url": "u"}, "existing_cluster_id": "c"},
    {"pipeline_task": {"pipeline_id": "p"}, "params": {"day": 1}},
    {"json": {"notebook_task": TASK, "a_field_of_tomorrow": {"x": [1, True, "y"]}}, "params": {"day": 1}},
]
RUNS: list[dict[str, Any]] = [
    {"job_id": 7, "notebook_params": {"a": 1}},
    {"job_id": 7, "job_parameters": {"a": "1"}},
    {"json": {"job_id": 7, "python_params": ["x"], "a_field_of_tomorrow": 3}},
    {"job_id": 7, "params": {"day": 1}},
    {"job_id": 7, "jar_params": ["x"], "spark_submit_params": ["y"], "dbt_commands": ["dbt run"]},
]


@pytest.mark.parametrize(
    ("path", "apache", "parameters"),
    [
        *[("runs/submit", ApacheSubmitRunOperator, parameters) for parameters in SUBMITS],
        *[("run-now", ApacheRunNowOperator, parameters) for parameters in RUNS],
    ],
    ids=str,
)
def test_the_request_is_apaches_with_a_token(
    api: JobsApi, store: Store, path: str, apache: type[Any], parameters: dict[str, Any]
) -> None:
    api.start = lambda token=None, **run: type(api).start(api, token, **{**run, **SUCCEEDED})  # type: ignore[method-assign]
    theirs = apache(task_id="load", **copy.deepcopy(parameters))
    theirs.execute(context(store) if HAS_TASK_STATE_STORE else context())
    store.values.clear()
    ours = (
        operator(path, **{"notebook_task": None, **parameters})
        if path != "run-now"
        else operator(path, **{"job_id": None, **parameters})
    )
    ours.execute(context(store))
    expected, sent = api.sent(path)
    assert sent.pop("idempotency_token")
    assert sent == expected


def test_the_authors_json_is_left_alone(api: JobsApi, store: Store) -> None:
    shared = {"new_cluster": {"num_workers": 2}}
    before = copy.deepcopy(shared)
    for name in ("a", "b"):
        task = operator(json=shared, notebook_task={"notebook_path": name}, task_id=name)
        task.execute(context(store))
        task.execute(context())
        store.values.clear()
    assert shared == before
    names = [body["run_name"] for body in api.sent("runs/submit")]
    assert names == ["a", "a", "b", "b"]


def test_a_pipeline_is_looked_up_by_its_name(api: JobsApi, store: Store, monkeypatch: Any) -> None:
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    asked: list[str] = []
    monkeypatch.setattr(
        DatabricksHook, "find_pipeline_id_by_name", lambda _, name: asked.append(name) or f"id of {name}"
    )
    operator(notebook_task=None, pipeline_task={"pipeline_name": "etl"}).execute(context(store))
    assert api.sent("runs/submit")[0]["pipeline_task"]["pipeline_id"] == "id of etl"
    assert asked == ["etl"]


# -- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "parameters", "message"),
    [
        ("runs/submit", {"notebook_task": None}, r"task_id='load'\): there is nothing to run"),
        ("runs/submit", {"notebook_task": None, "tasks": []}, "there is nothing to run"),
        ("runs/submit", {"json": [1], "notebook_task": None}, "must be a dictionary"),
        ("runs/submit", {"idempotency_token": "x" * 65}, r"idempotency_token='x+' \(65 characters\)"),
        ("runs/submit", {"json": {"idempotency_token": "x" * 65}}, r"\(65 characters\)"),
        ("runs/submit", {"poll_interval": 5}, "polling_period_seconds"),
        ("runs/submit", {"dbt_task": {"commands": []}}, "git_source is required"),
        ("run-now", {"job_id": None}, "neither job_id nor job_name is given"),
        ("run-now", {"job_id": 1, "job_name": "a"}, "job_name"),
        ("run-now", {"job_id": None, "json": {"job_id": 1, "job_name": "a"}}, "job_name"),
        ("run-now", {"idempotency_token": "x" * 65}, r"\(65 characters\)"),
        ("run-now", {"job_id": None, "job_name": "a", "json": {"idempotency_token": "x" * 65}}, "65 char"),
        ("run-now", {"json": 1}, "must be a dictionary"),
    ],
    ids=str,
)
def test_bad_input_is_a_clear_error_before_any_request(
    api: JobsApi, store: Store, path: str, parameters: dict[str, Any], message: str
) -> None:
    with pytest.raises(Exception, match=message):
        operator(path, **parameters).execute(context(store))
    assert api.calls == []
    assert store.values == {}


def test_a_token_of_64_characters_is_taken(api: JobsApi, store: Store) -> None:
    operator(idempotency_token="x" * 64).execute(context(store))
    assert list(api.tokens) == ["x" * 64]


@pytest.mark.parametrize("parameter", ["idempotency_token", "json"])
def test_a_rendered_token_is_checked_before_any_request(api: JobsApi, store: Store, parameter: str) -> None:
    task = operator(json={"idempotency_token": "{{ name }}"})
    task.render_template_fields({"name": "x" * 65, "ti": None, "dag": None})
    with pytest.raises(ValueError, match=r"\(65 characters\)"):
        task.execute(context(store))
    assert api.calls == []


# -- Airflow -----------------------------------------------------------------------------------


@PAIRS
def test_parameters_come_from_default_args(durable: type[Any], apache: type[Any]) -> None:
    arguments = {
        "durable": False,
        "polling_period_seconds": 3,
        "wait_for_termination": False,
        "idempotency_token": "mine",
        "databricks_conn_id": "other",
        "on_clear": "resume",
        "cancel_on_kill": False,
        "poll_interval": 99,
    }
    task = durable(task_id="load", default_args=arguments)
    assert task.durable is False
    assert (task.polling_period_seconds, task.databricks_conn_id) == (3, "other")
    assert (task.wait_for_termination, task.cancel_on_kill, task.on_clear) == (False, False, "resume")
    own = getattr(task, "idempotency_token", None) or task.json["idempotency_token"]
    assert own == "mine"


def test_a_mapped_task_has_its_own_values(api: JobsApi) -> None:
    mapped = DatabricksSubmitRunOperator.partial(
        task_id="load", json={"run_name": "x"}, polling_period_seconds=timedelta(milliseconds=1)
    ).expand(notebook_task=[{"notebook_path": "/a"}])
    task = mapped.unmap({"notebook_task": {"notebook_path": "/a"}})
    task.execute(context(durable_store()))
    assert api.sent("runs/submit")[0]["notebook_task"] == {"notebook_path": "/a"}


def durable_store() -> Any:
    from unit.fakes import Store

    return Store()


def test_the_trigger_has_what_it_needs_and_no_credentials(api: JobsApi, store: Store) -> None:
    caught: dict[str, Any] = {}

    def defer(**arguments: Any) -> None:
        caught.update(arguments)
        raise InterruptedError

    task = operator(deferrable=True, databricks_retry_args=None, polling_period_seconds=4)
    task.defer = defer
    ctx = context(store)
    with pytest.raises(InterruptedError):
        task.execute(ctx)
    (run_id,) = api.runs
    assert caught["method_name"] == "execute_complete"
    assert ctx["ti"].xcoms["run_page_url"] == api.runs[run_id]["run_page_url"]
    path, parameters = caught["trigger"].serialize()
    assert path == "airflow_provider_durable.triggers.databricks.DatabricksRunTrigger"
    assert json.loads(json.dumps(parameters)) == parameters
    assert parameters["run_id"] == run_id
    assert parameters["poll_interval"] == 4
    assert "dapi" not in json.dumps(parameters)


def test_a_task_that_apaches_operator_deferred_is_taken_up(api: JobsApi, store: Store) -> None:
    run_id = api.start(**SUCCEEDED)
    event = {"run_id": run_id, "run_page_url": "x", "run_state": json.dumps(SUCCEEDED["state"]), "errors": []}
    assert operator().execute_complete(context(store), event) == run_id


# -- what only newer versions of the provider have ---------------------------------------------


def since(operator_class: type[Any], parameter: str) -> pytest.MarkDecorator:
    known = parameter in inspect.signature(operator_class.__init__).parameters
    return pytest.mark.skipif(not known, reason=f"this version of the provider has no {parameter}")


@since(ApacheRunNowOperator, "openlineage_inject_parent_job_info")
@pytest.mark.parametrize("path", ["runs/submit", "run-now"])
def test_openlineage_is_injected_as_apache_does(
    api: JobsApi, store: Store, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    from airflow.providers.databricks.utils import openlineage

    def inject_job(job: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {**job, "new_cluster": {"spark_conf": {"spark.openlineage.parentJobName": "dag.load"}}}

    def inject_parameters(job_parameters: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {**job_parameters, "ol_parent": "dag.load"}

    monkeypatch.setattr(openlineage, "inject_openlineage_properties_into_databricks_job", inject_job)
    monkeypatch.setattr(
        openlineage, "inject_openlineage_context_into_databricks_job_parameters", inject_parameters
    )
    operator(path, openlineage_inject_parent_job_info=True).execute(context(store))
    (sent,) = api.sent(path)
    assert "dag.load" in json.dumps(sent)


@since(ApacheRunNowOperator, "forward_dag_params")
@pytest.mark.parametrize(("forward", "expected"), [(True, {"day": "1"}), (False, None)])
def test_dag_params_are_forwarded_as_apache_does(
    api: JobsApi, store: Store, forward: bool, expected: dict[str, str] | None
) -> None:
    operator("run-now", params={"day": "1"}, forward_dag_params=forward).execute(context(store))
    assert api.sent("run-now")[0].get("job_parameters") == expected


@since(ApacheSubmitRunOperator, "environments")
def test_json_may_be_a_string(api: JobsApi, store: Store) -> None:
    body = {"notebook_task": TASK, "idempotency_token": "mine"}
    operator(notebook_task=None, json=json.dumps(body)).execute(context(store))
    assert api.sent("runs/submit") == [{**body, "run_name": "load"}]


@since(ApacheSubmitRunOperator, "environments")
def test_a_string_that_is_no_object_is_a_clear_error(api: JobsApi, store: Store) -> None:
    with pytest.raises(Exception, match="must resolve to a mapping"):
        operator(json="[1, 2]").execute(context(store))
    assert api.calls == []
