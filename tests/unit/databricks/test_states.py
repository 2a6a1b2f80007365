"""What each state and each error of the Jobs API means, and what the failure message says."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import (
    JobFailedError,
    ServiceThrottledError,
    StatusUnavailableError,
)
from airflow_provider_durable.services import databricks
from unit.databricks.jobs_api import (
    FAILED,
    HTML_404,
    LOST,
    RUNNING,
    SERVER_ERROR,
    SUCCEEDED,
    THROTTLED,
    context,
    error,
    operator,
)

if TYPE_CHECKING:
    from unit.databricks.jobs_api import (
        JobsApi,
    )
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store


def state(life_cycle: str, result: str | None = None) -> dict[str, Any]:
    return {"state": {"life_cycle_state": life_cycle, **({"result_state": result} if result else {})}}


def status(state: str, code: str | None = None) -> dict[str, Any]:
    details = {"termination_details": {"code": code, "type": "X", "message": "Why."}} if code else {}
    return {"status": {"state": state, **details}}


ACTIVE = [
    *[
        state(name)
        for name in ("BLOCKED", "PENDING", "QUEUED", "RUNNING", "TERMINATING", "WAITING_FOR_RETRY")
    ],
    *[status(name) for name in ("BLOCKED", "PENDING", "QUEUED", "RUNNING", "TERMINATING", "WAITING")],
    state("SOMETHING_NEW"),
    status("SOMETHING_NEW"),
]
SUCCESS = [
    state("TERMINATED", "SUCCESS"),
    state("TERMINATED", "SUCCESS_WITH_FAILURES"),
    status("TERMINATED", "SUCCESS"),
    status("TERMINATED", "SUCCESS_WITH_FAILURES"),
    {**state("TERMINATED", "SUCCESS"), **status("TERMINATED", "SUCCESS")},
]
RESULTS = [
    "FAILED",
    "TIMEDOUT",
    "CANCELED",
    "MAXIMUM_CONCURRENT_RUNS_REACHED",
    "EXCLUDED",
    "UPSTREAM_FAILED",
    "UPSTREAM_CANCELED",
    "DISABLED",
]
CODES = [
    "RUN_EXECUTION_ERROR",
    "USER_CANCELED",
    "CANCELED",
    "SKIPPED",
    "INTERNAL_ERROR",
    "DRIVER_ERROR",
    "CLUSTER_ERROR",
    "MAX_CONCURRENT_RUNS_EXCEEDED",
    "WORKSPACE_RUN_LIMIT_EXCEEDED",
    "A_CODE_OF_TOMORROW",
]
ENDED = [
    *[state("TERMINATED", result) for result in RESULTS],
    *[status("TERMINATED", code) for code in CODES],
    state("TERMINATED"),
    state("SKIPPED"),
    state("SKIPPED", "MAXIMUM_CONCURRENT_RUNS_REACHED"),
    state("INTERNAL_ERROR"),
    state("INTERNAL_ERROR", "FAILED"),
    {**state("SOMETHING_NEW"), **status("TERMINATED", "CANCELED")},
]


@pytest.mark.parametrize("run", ACTIVE, ids=str)
def test_a_run_that_goes_on_is_active(run: dict[str, Any]) -> None:
    said = databricks.status_of(run)
    assert databricks.is_active(said)
    assert not databricks.is_succeeded(said)


@pytest.mark.parametrize("run", SUCCESS, ids=str)
def test_a_run_that_the_service_counts_as_successful_has_succeeded(run: dict[str, Any]) -> None:
    said = databricks.status_of(run)
    assert databricks.is_succeeded(said)
    assert not databricks.is_active(said)


@pytest.mark.parametrize("run", ENDED, ids=str)
def test_a_run_that_ended_otherwise_has_failed(run: dict[str, Any], api: JobsApi, store: Store) -> None:
    said = databricks.status_of(run)
    assert not databricks.is_active(said)
    assert not databricks.is_succeeded(said)
    api.ends = lambda seen: seen.update({"state": {}, **run})
    result = said.strip(":").rpartition(":")[2]
    with pytest.raises(JobFailedError, match=f"run 1[0-9]+ ended as {result}"):
        operator().execute(context(store))


def test_an_answer_without_a_state_is_no_state() -> None:
    with pytest.raises(ValueError, match="without a state"):
        databricks.status_of({"run_id": 1})


@needs_store
@pytest.mark.parametrize("run", ENDED, ids=str)
def test_a_retry_after_a_run_that_ended_without_success_submits(
    run: dict[str, Any], api: JobsApi, store: Store
) -> None:
    old = store.values["databricks_run_id"] = api.start()
    api.runs[old].pop("state")
    api.runs[old].update(run)
    assert operator().execute(context(store, try_number=2)) != old


@needs_store
@pytest.mark.parametrize(
    "gone",
    [
        None,
        error(404, "RESOURCE_DOES_NOT_EXIST", "Run 1 does not exist."),
        error(404, "NOT_FOUND", "Run 1 not found"),
    ],
)
def test_a_retry_whose_run_is_gone_submits(gone: Any, api: JobsApi, store: Store) -> None:
    store.values["databricks_run_id"] = 1
    api.plans["runs/get"] = [gone]
    run_id = operator().execute(context(store, try_number=2))
    assert list(api.runs) == [run_id]


@needs_store
@pytest.mark.parametrize(
    "answer",
    [
        error(401, "UNAUTHENTICATED"),
        error(403, "PERMISSION_DENIED"),
        error(400, "INVALID_PARAMETER_VALUE", "run_id must be a number"),
        error(400, "BAD_REQUEST", "The workspace does not exist."),
        error(404, "ENDPOINT_NOT_FOUND", "No API found for 'GET /jobs/runs/get'"),
        HTML_404,
        SERVER_ERROR,
        error(503, "TEMPORARILY_UNAVAILABLE"),
        LOST,
    ],
    ids=str,
)
def test_a_retry_that_cannot_ask_fails_and_submits_nothing(answer: Any, api: JobsApi, store: Store) -> None:
    store.values["databricks_run_id"] = 1
    api.plans["runs/get"] = [answer] * 3
    with pytest.raises(Exception, match=r"\S") as failure:
        operator().execute(context(store, try_number=2))
    assert not isinstance(failure.value, JobFailedError)
    assert set(api.paths()) == {"runs/get"}


def test_throttling_is_told_apart_from_failing(api: JobsApi) -> None:
    api.plans["runs/get"] = [THROTTLED] * 3
    with pytest.raises(ServiceThrottledError):
        operator().get_job_status(1, context())


def test_the_wait_outlasts_failing_and_throttled_requests(api: JobsApi, store: Store) -> None:
    api.plans["runs/get"] = [THROTTLED, SERVER_ERROR, LOST, error(403, "PERMISSION_DENIED"), None, None]
    task = operator(attempts=1)
    assert [task.execute(context(store))] == list(api.runs)


def test_the_wait_ends_when_no_request_succeeds_for_too_long(api: JobsApi, store: Store) -> None:
    api.plans["runs/get"] = [SERVER_ERROR] * 10_000
    with pytest.raises(StatusUnavailableError, match="may still be running"):
        operator(attempts=1, poll_error_window=0.2).execute(context(store))


# -- messages ----------------------------------------------------------------------------------


def test_the_message_names_failed_tasks_and_their_errors(api: JobsApi, store: Store) -> None:
    tasks = [
        {"task_key": "extract", "run_id": 1, **SUCCEEDED},
        {"task_key": "load", "run_id": 2, "attempt_number": 0, **FAILED},
        {"task_key": "load", "run_id": 3, "attempt_number": 1, **FAILED},
        {"task_key": "flaky", "run_id": 4, "attempt_number": 0, **FAILED},
        {"task_key": "flaky", "run_id": 5, "attempt_number": 1, **SUCCEEDED},
        {"task_key": "slow", "run_id": 6, **state("TERMINATED", "TIMEDOUT")},
        {"task_key": "driver", "run_id": 7, **status("TERMINATED", "DRIVER_ERROR")},
        {"task_key": "after", "run_id": 8, **state("SKIPPED", "UPSTREAM_FAILED")},
        {"task_key": "branch", "run_id": 9, **state("TERMINATED", "EXCLUDED")},
    ]
    api.outputs[3] = {"error": "Table not found: sales"}
    api.ends = lambda run: run.update(FAILED, tasks=tasks)
    with pytest.raises(JobFailedError) as failure:
        operator().execute(context(store))
    run_id, url = next((run["run_id"], run["run_page_url"]) for run in api.runs.values())
    assert str(failure.value) == (
        f"Databricks run {run_id} ended as FAILED: Oh no; "
        "task 'load' FAILED: Table not found: sales; "
        "task 'slow' TIMEDOUT: no error message; "
        f"task 'driver' DRIVER_ERROR: Why; see {url}"
    )


def test_the_message_of_many_failed_tasks_is_bounded(api: JobsApi, store: Store) -> None:
    tasks = [{"task_key": f"t{n}", "run_id": n, **FAILED} for n in range(1, 31)]
    api.outputs = {n: {"error": "x" * 100_000} for n in range(1, 31)}
    api.ends = lambda run: run.update(FAILED, tasks=tasks)
    with pytest.raises(JobFailedError, match="and 20 more failed tasks") as failure:
        operator().execute(context(store))
    assert len(str(failure.value)) < 12_000
    assert len(api.sent("runs/get-output")) == 10


def test_a_run_without_tasks_has_its_own_error(api: JobsApi, store: Store) -> None:
    api.ends = lambda run: run.update(FAILED)
    api.outputs = {run_id: {"error": "boom"} for run_id in range(100, 10_000)}
    with pytest.raises(JobFailedError, match=r"Oh no; boom; see https://"):
        operator().execute(context(store))


@pytest.mark.parametrize("run", [state("SKIPPED", "MAXIMUM_CONCURRENT_RUNS_REACHED")])
def test_the_message_says_what_helps_against_too_many_runs(
    run: dict[str, Any], api: JobsApi, store: Store
) -> None:
    api.ends = lambda seen: seen.update(run)
    with pytest.raises(JobFailedError, match="Raise the job's max_concurrent_runs"):
        operator("run-now").execute(context(store))


def test_a_success_with_failures_is_a_success_that_warns(
    api: JobsApi, store: Store, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    task = {"task_key": "optional", "run_id": 1, **FAILED}
    api.ends = lambda run: run.update(state("TERMINATED", "SUCCESS_WITH_FAILURES"), tasks=[task])
    with caplog.at_level(logging.WARNING):
        assert operator().execute(context(store)) in api.runs
    printed = capfd.readouterr().out + caplog.text
    assert "tasks in it failed" in printed
    assert "optional" in printed


# -- stop --------------------------------------------------------------------------------------


def test_cancelling_is_safe_for_a_run_that_is_gone(api: JobsApi) -> None:
    run_id = api.start()
    task = operator()
    for target in (run_id, run_id, 1):
        task.cancel_job(target, context())
    assert [body["run_id"] for body in api.sent("runs/cancel")] == [run_id, run_id, 1]


def test_a_cancellation_that_fails_says_so(api: JobsApi) -> None:
    api.plans["runs/cancel"] = [error(403, "PERMISSION_DENIED")]
    with pytest.raises(Exception, match="403"):
        operator().cancel_job(1, context())


@needs_store
def test_a_reconnected_run_is_waited_for_and_links_again(api: JobsApi, store: Store) -> None:
    run_id = store.values["databricks_run_id"] = api.start(**RUNNING)
    ctx = context(store, try_number=2)
    assert operator().execute(ctx) == run_id
    assert ctx["ti"].xcoms["run_id"] == run_id
    assert "runs/submit" not in api.paths()
