"""RunNow: repairs, previous runs and job names, across crashes, reconnects and deferrals."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from airflow.providers.databricks.operators.databricks import (
    DatabricksRunNowOperator as ApacheRunNowOperator,
)

from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE, JobFailedError
from airflow_provider_durable.resumable.compat import AirflowException, AirflowRescheduleException
from unit.databricks.jobs_api import (
    CRASH,
    FAILED,
    LOST,
    RUNNING,
    SUCCEEDED,
    context,
    error,
    operator,
)
from unit.fakes import Crash

if TYPE_CHECKING:
    from unit.databricks.jobs_api import JobsApi
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store
KEY = "databricks_run_now_id"


class Deferred(BaseException):
    """The task left the worker."""


def deferring(**parameters: Any) -> Any:
    task = operator("run-now", deferrable=True, databricks_retry_args=None, **parameters)

    def defer(**_: Any) -> None:
        raise Deferred

    task.defer = defer
    return task


@pytest.fixture
def fails_once(api: JobsApi) -> JobsApi:
    """A workspace where a run succeeds only when it was repaired."""

    def ends(run: dict[str, Any]) -> None:
        run.update(SUCCEEDED if len(run["repair_history"]) > 1 else FAILED)

    api.ends = ends
    return api


# -- repair ------------------------------------------------------------------------------------


def test_a_failed_run_is_repaired_and_the_task_succeeds(fails_once: JobsApi, store: Store) -> None:
    task = operator("run-now", repair_run=True, job_parameters={"day": "1"})
    assert [task.execute(context(store))] == list(fails_once.runs)
    (request,) = fails_once.sent("runs/repair")
    (run_id,) = fails_once.runs
    assert request == {"run_id": run_id, "rerun_all_failed_tasks": True, "job_parameters": {"day": "1"}}


def test_a_run_is_repaired_once(api: JobsApi, store: Store) -> None:
    api.ends = lambda run: run.update(FAILED)
    with pytest.raises(JobFailedError, match="Oh no"):
        operator("run-now", repair_run=True).execute(context(store))
    assert len(api.sent("runs/repair")) == 1
    assert len(api.runs) == 1


@pytest.mark.parametrize("deferrable", [False, True])
def test_a_run_is_repaired_once_even_if_its_history_does_not_show_it(
    api: JobsApi, store: Store, monkeypatch: pytest.MonkeyPatch, deferrable: bool
) -> None:
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    monkeypatch.setattr(DatabricksHook, "get_latest_repair_id", lambda *_: None)
    api.ends = lambda run: run.update(FAILED)
    if not deferrable or not HAS_TASK_STATE_STORE:
        with pytest.raises(JobFailedError):
            operator("run-now", repair_run=True).execute(context(store))
    else:
        with pytest.raises(Deferred):
            deferring(repair_run=True).execute(context(store))
        for ends in (Deferred, JobFailedError):
            for run in api.runs.values():
                run.update(FAILED)
            with pytest.raises(ends):
                deferring(repair_run=True).execute_complete(context(store), {"status": "failed"})
    assert len(api.sent("runs/repair")) == 1


def test_without_repair_run_nothing_is_repaired(api: JobsApi, store: Store) -> None:
    api.ends = lambda run: run.update(FAILED)
    with pytest.raises(JobFailedError):
        operator("run-now").execute(context(store))
    assert api.sent("runs/repair") == []


@needs_store
def test_a_run_is_repaired_after_a_reconnect(fails_once: JobsApi, store: Store) -> None:
    run_id = store.values[KEY] = fails_once.start()
    task = operator("run-now", repair_run=True)
    assert task.execute(context(store, try_number=2)) == run_id
    assert list(fails_once.runs) == [run_id]
    assert len(fails_once.sent("runs/repair")) == 1


@needs_store
def test_a_run_that_failed_while_nobody_watched_is_repaired_by_the_next_try(
    fails_once: JobsApi, store: Store
) -> None:
    fails_once.plans["runs/get"] = [CRASH]
    with pytest.raises(Crash):
        operator("run-now", repair_run=True).execute(context(store))
    assert operator("run-now", repair_run=True).execute(context(store, try_number=2)) == store.values[KEY]
    assert len(fails_once.sent("runs/repair")) == len(fails_once.runs) == 1


@needs_store
@pytest.mark.parametrize("loss", [CRASH, LOST])
def test_a_repair_whose_answer_is_lost_is_not_requested_again(
    api: JobsApi, store: Store, loss: BaseException
) -> None:
    api.ends = lambda run: run.update(FAILED)
    api.plans["runs/repair"] = [loss]
    with pytest.raises((Crash, JobFailedError)):
        operator("run-now", repair_run=True, attempts=1).execute(context(store))
    if loss is CRASH:
        with pytest.raises(JobFailedError):
            operator("run-now", repair_run=True).execute(context(store, try_number=2))
    assert len(api.sent("runs/repair")) == len(api.runs) == 1


@needs_store
def test_a_run_that_apaches_operator_submitted_and_repaired_is_not_repaired_again(
    api: JobsApi, store: Store
) -> None:
    history = [{"type": "ORIGINAL"}, {"type": "REPAIR", "id": 901}]
    old = store.values[KEY] = api.start(**FAILED, repair_history=history)
    assert operator("run-now", repair_run=True).execute(context(store, try_number=2)) != old
    assert api.sent("runs/repair") == []


@needs_store
def test_an_earlier_repair_by_a_person_is_named_in_the_request(fails_once: JobsApi, store: Store) -> None:
    def ends(run: dict[str, Any]) -> None:
        # A person repairs the run while it goes on; it fails, and succeeds when it was repaired again.
        if len(run["repair_history"]) == 1:
            run["repair_history"].append({"type": "REPAIR", "id": 100})
        run.update(SUCCEEDED if len(run["repair_history"]) > 2 else FAILED)

    fails_once.ends = ends
    operator("run-now", repair_run=True).execute(context(store))
    assert fails_once.sent("runs/repair")[0]["latest_repair_id"] == 100


def test_a_repair_for_certain_reasons_changes_the_job_first(fails_once: JobsApi, store: Store) -> None:
    reasons = {"Other": {"a": 1}, "Oh no": {"new_cluster": {"num_workers": 2}}}
    task = operator("run-now", repair_run=True, databricks_repair_reason_new_settings=reasons)
    task.execute(context(store))
    (change,) = fails_once.sent("update")
    assert change == {"job_id": 7, "new_settings": {"new_cluster": {"num_workers": "2"}}}
    assert fails_once.paths().index("update") < fails_once.paths().index("runs/repair")


def test_a_failure_for_other_reasons_is_not_repaired(api: JobsApi, store: Store) -> None:
    api.ends = lambda run: run.update(FAILED)
    task = operator("run-now", repair_run=True, databricks_repair_reason_new_settings={"Other": {}})
    with pytest.raises(JobFailedError):
        task.execute(context(store))
    assert api.sent("runs/repair") == []


def test_a_repair_that_is_refused_leaves_the_failure(api: JobsApi, store: Store) -> None:
    api.ends = lambda run: run.update(FAILED)
    api.plans["runs/repair"] = [error(400, "INVALID_STATE", "cannot be repaired")]
    with pytest.raises(JobFailedError, match="Oh no"):
        operator("run-now", repair_run=True).execute(context(store))


@needs_store
def test_after_a_clear_the_old_run_is_not_repaired(api: JobsApi, store: Store) -> None:
    api.ends = lambda run: run.update(FAILED)
    with pytest.raises(JobFailedError):
        operator("run-now").execute(context(store))
    api.ends = lambda run: run.update(SUCCEEDED)
    operator("run-now", repair_run=True).execute(context(store, try_number=2, max_tries=1))
    assert api.sent("runs/repair") == []
    assert len(api.runs) == 2


@needs_store
def test_a_run_that_was_stopped_is_not_repaired(api: JobsApi, store: Store) -> None:
    with pytest.raises(Deferred):
        deferring().execute(context(store))
    api.runs[store.values[KEY]].update(FAILED)
    store.values[f"{KEY}_submission"]["cancelled_at"] = store.values[f"{KEY}_submission"]["submitted_at"]
    operator("run-now", repair_run=True).execute(context(store, try_number=2))
    assert api.sent("runs/repair") == []


def test_a_deferred_run_is_repaired_and_waited_for_again(fails_once: JobsApi, store: Store) -> None:
    with pytest.raises(Deferred):
        deferring(repair_run=True).execute(context(store))
    (run_id,) = fails_once.runs
    fails_once.runs[run_id].update(FAILED)
    event, resume = {"status": "failed", "external_id": run_id}, {"external_id": run_id}
    kwargs: dict[str, Any] = {} if HAS_TASK_STATE_STORE else resume
    with pytest.raises(Deferred):
        deferring(repair_run=True).execute_complete(context(store), event, **kwargs)
    fails_once.runs[run_id].update(SUCCEEDED)
    assert deferring(repair_run=True).execute_complete(context(store), event, **kwargs) == run_id
    assert len(fails_once.sent("runs/repair")) == len(fails_once.runs) == 1


@pytest.mark.parametrize("is_second", [False, True])
def test_apaches_operator_repairs_a_run_that_ours_had_deferred_if_ours_has_not(
    fails_once: JobsApi, store: Store, is_second: bool
) -> None:
    triggers: list[Any] = []

    def defer(trigger: Any, **_: Any) -> None:
        triggers.append(trigger)
        raise Deferred

    task = deferring(repair_run=True)
    task.defer = defer
    with pytest.raises(Deferred):
        task.execute(context(store))
    (run_id,) = fails_once.runs
    fails_once.runs[run_id].update(FAILED)
    if is_second:
        with pytest.raises(Deferred):
            task.execute_complete(context(store), triggers[-1].event("failed", "Oh no."))
        fails_once.runs[run_id].update(FAILED)
    load = ApacheRunNowOperator(task_id="load", job_id=7, repair_run=True, deferrable=True)
    load.defer = defer
    event = triggers[-1].event("failed", "Oh no.")
    # Whether it defers then, or sees the end at once, is Apache's affair.
    with pytest.raises(AirflowException) if is_second else suppress(Deferred):
        load.execute_complete(context(), event)
    assert len(fails_once.sent("runs/repair")) == len(fails_once.runs) == 1


def test_a_deferred_run_is_repaired_once(fails_once: JobsApi, store: Store) -> None:
    with pytest.raises(Deferred):
        deferring(repair_run=True).execute(context(store))
    (run_id,) = fails_once.runs
    kwargs: dict[str, Any] = {} if HAS_TASK_STATE_STORE else {"external_id": run_id}
    for ends in (Deferred, JobFailedError):
        fails_once.runs[run_id].update(FAILED)
        with pytest.raises(ends):
            deferring(repair_run=True).execute_complete(context(store), {"status": "failed"}, **kwargs)
    assert len(fails_once.sent("runs/repair")) == 1


@needs_store
def test_a_rescheduled_run_is_repaired(fails_once: JobsApi, store: Store) -> None:
    task = {"repair_run": True, "mode": "reschedule"}
    for _ in range(2):
        with pytest.raises(AirflowRescheduleException):
            operator("run-now", **task).execute(context(store))
        for run in fails_once.runs.values():
            run.update(FAILED if run["state"] == RUNNING["state"] and len(run["repair_history"]) == 1 else {})
    for run in fails_once.runs.values():
        run.update(SUCCEEDED)
    assert operator("run-now", **task).execute(context(store)) == store.values[KEY]
    assert len(fails_once.sent("runs/repair")) == len(fails_once.runs) == 1


# -- previous runs -----------------------------------------------------------------------------


def test_previous_runs_are_cancelled_before_the_submission(api: JobsApi, store: Store) -> None:
    previous = api.start()
    operator("run-now", cancel_previous_runs=True).execute(context(store))
    assert api.runs[previous]["state"]["result_state"] == "CANCELED"
    assert api.paths()[:2] == ["runs/cancel-all", "run-now"]


@needs_store
def test_a_run_that_is_reconnected_to_is_never_cancelled(api: JobsApi, store: Store) -> None:
    run_id = store.values[KEY] = api.start()
    task = operator("run-now", cancel_previous_runs=True)
    assert task.execute(context(store, try_number=2)) == run_id
    assert api.sent("runs/cancel-all") == []


@needs_store
@pytest.mark.parametrize("loss", [CRASH, LOST])
def test_a_run_that_is_recovered_is_never_cancelled(api: JobsApi, store: Store, loss: BaseException) -> None:
    api.plans["run-now"] = [loss]
    task = {"cancel_previous_runs": True, "attempts": 1}
    try:
        run_id = operator("run-now", **task).execute(context(store))
    except Crash:
        run_id = operator("run-now", **task).execute(context(store, try_number=2))
    assert list(api.runs) == [run_id]
    assert len(api.sent("runs/cancel-all")) == 1
    assert api.paths().index("runs/cancel-all") < api.paths().index("run-now")


# -- names -------------------------------------------------------------------------------------


@needs_store
def test_a_job_name_is_looked_up_once_and_remembered(api: JobsApi, store: Store) -> None:
    api.jobs = {"nightly": 7}
    api.plans["run-now"] = [CRASH]
    task = {"job_id": None, "job_name": "nightly"}
    with pytest.raises(Crash):
        operator("run-now", **task).execute(context(store))
    assert store.values[f"{KEY}_submission"]["details"]["job_id"] == 7
    # Renamed meanwhile: the submission at hand still is one of the same job.
    api.jobs = {"nightly": 8}
    operator("run-now", **task).execute(context(store, try_number=2))
    assert [body["job_id"] for body in api.sent("run-now")] == [7, 7]
    assert len(api.sent("list")) == 1


def test_a_task_that_runs_twice_in_one_process_still_knows_the_name(api: JobsApi) -> None:
    task = operator("run-now", job_id=None, job_name="nightly", durable=False)
    for job_id in (7, 8):
        api.jobs = {"nightly": job_id}
        task.execute(context())
    assert [body["job_id"] for body in api.sent("run-now")] == [7, 8]


@needs_store
def test_a_new_submission_looks_the_name_up_again(api: JobsApi, store: Store) -> None:
    api.jobs = {"nightly": 7}
    task = {"job_id": None, "job_name": "nightly"}
    api.ends = lambda run: run.update(FAILED)
    with pytest.raises(JobFailedError):
        operator("run-now", **task).execute(context(store))
    api.jobs = {"nightly": 8}
    api.ends = lambda run: run.update(SUCCEEDED)
    operator("run-now", **task).execute(context(store, try_number=2))
    assert [body["job_id"] for body in api.sent("run-now")] == [7, 8]


def test_a_job_name_that_nothing_has_is_a_clear_error(api: JobsApi, store: Store) -> None:
    with pytest.raises(ValueError, match="no job named 'nightly'"):
        operator("run-now", job_id=None, job_name="nightly").execute(context(store))
    assert api.sent("run-now") == []
    assert store.values == {}
