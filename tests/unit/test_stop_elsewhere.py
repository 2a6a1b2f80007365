"""Stops by ``execution_timeout``, without a store, before there is a run, and after it left the worker."""

from __future__ import annotations

import signal
import threading
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_durable.resumable import TaskStoppedError, run
from airflow_provider_durable.resumable.compat import AirflowTaskTimeout, BaseOperator
from airflow_provider_durable.resumable.stop import StopAction
from unit.fakes import Crash, Durable, Service, Store, context, kill_soon, make, waiting

durable_only = pytest.mark.task_state_store
CANCEL, LEAVE = StopAction.CANCEL, StopAction.LEAVE


# -- timeouts, and where there is no store -----------------------------------------------------


def time_out(task: Any, given: Any, **resume: Any) -> None:
    """Run as Airflow's task runner does when ``execution_timeout`` passes."""
    try:
        task.resume_job(given, **resume) if resume else task.execute(given)
    except AirflowTaskTimeout:
        task.on_kill()
        raise


def test_a_timeout_cancels() -> None:
    service, store = Service(), Store()
    task = waiting(service, execution_timeout=timedelta(milliseconds=50))
    with pytest.raises(AirflowTaskTimeout):
        time_out(task, context(store, max_tries=1))
    assert service.jobs["job-1"].cancels == 1


@durable_only
def test_a_timeout_that_interrupts_the_submission_cancels_the_job_it_started() -> None:
    service = Service()
    service.failures["submit-answer"] = [AirflowTaskTimeout("now")]  # type: ignore[list-item]
    task = waiting(service)
    with pytest.raises(AirflowTaskTimeout):
        time_out(task, context(Store(), max_tries=1))
    assert service.jobs["job-1"].cancels == 1


@durable_only
def test_after_a_timeout_the_next_try_waits_for_the_end_and_submits() -> None:
    service, store = Service(), Store()
    plain = service.cancel
    service.cancel = lambda job_id: plain(job_id) or setattr(service.jobs[job_id], "status", "RUNNING")  # type: ignore[method-assign,func-returns-value]
    task = waiting(service, execution_timeout=timedelta(milliseconds=50))
    with pytest.raises(AirflowTaskTimeout):
        time_out(task, context(store, max_tries=1))
    threading.Timer(0.2, lambda: setattr(service.jobs["job-1"], "status", "CANCELLED")).start()
    again = make(Durable, service, execution_timeout=timedelta(seconds=20))
    threading.Timer(0.6, lambda: setattr(service.jobs["job-2"], "status", "SUCCEEDED")).start()
    assert again.execute(context(store, try_number=2, max_tries=1)) == "result of job-2"


def test_without_a_store_a_stopped_try_cancels_its_job(sigterm: Any) -> None:
    service = Service()
    task = make(Durable, service, durable=False, poll_interval=0.05)
    sigterm(task)
    kill_soon()
    plain = service.status

    def status(job_id: Any) -> str:
        return plain(job_id)

    service.status = status  # type: ignore[method-assign]
    with pytest.raises(Exception, match="CANCELLED"):
        task.execute(context(max_tries=3))
    assert service.jobs["job-1"].cancels == 1


def test_on_kill_after_a_run_does_no_harm() -> None:
    service = Service()
    task = make(Durable, service)
    service.status = lambda job_id: "SUCCEEDED"  # type: ignore[method-assign]
    task.execute(context(Store()))
    task.on_kill()
    assert "cancel" not in service.calls


# -- before the run, and after it -------------------------------------------------------------------


@pytest.mark.parametrize("durable", [True, False])
def test_a_stop_before_the_run_starts_nothing(durable: bool) -> None:
    service = Service()
    task = make(Durable, service, durable=durable)
    task.on_kill()
    with pytest.raises(TaskStoppedError):
        task.execute(context(Store(), max_tries=1))
    assert not service.jobs


@durable_only
@pytest.mark.parametrize(("state", "cancels"), [("failed", 1), ("running", 0)])
def test_a_stop_before_the_run_reaches_the_job_of_the_try_before(state: str, cancels: int) -> None:
    service, store = Service(), Store()
    service.failures["status"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        make(Durable, service).execute(context(store, max_tries=2))
    task = make(Durable, service)
    task.on_kill()
    with pytest.raises(TaskStoppedError):
        task.execute(context(store, try_number=2, max_tries=2, state=state))
    assert service.jobs["job-1"].cancels == cancels


def test_what_the_next_class_does_on_an_early_kill_ends_nothing() -> None:
    class NeedsJob(BaseOperator):
        def on_kill(self) -> None:
            raise ValueError("there is no job id")

    class Operator(Durable, NeedsJob):
        pass

    make(Operator, Service()).on_kill()


def leave(way: str, task: Any, given: Any) -> None:
    """Run a task until it is about to wait elsewhere."""
    leaving = "TaskDeferred" if way == "defer" else "AirflowRescheduleException"
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - its home differs between Airflow's versions
        task.execute(given)
    assert raised.type.__name__ == leaving


ways = pytest.mark.parametrize(
    ("way", "parameters"),
    [("defer", {"deferrable": True}), ("reschedule", {"mode": "reschedule"})],
    ids=["defer", "reschedule"],
)


@durable_only
@ways
@pytest.mark.parametrize(
    ("state", "cancels"),
    [("failed", 1), (None, 1), ("running", 0), ("deferred", 0), ("up_for_reschedule", 0)],
)
def test_only_a_person_stops_the_job_of_a_task_that_is_about_to_wait_elsewhere(
    way: str, parameters: dict[str, Any], state: str | None, cancels: int
) -> None:
    service = Service()
    task = make(Durable, service, **parameters)
    given = context(Store())
    leave(way, task, given)
    given["ti"].state = state
    task.on_kill()
    assert service.jobs["job-1"].cancels == cancels


@durable_only
@ways
def test_a_task_that_was_told_to_stop_does_not_leave_for_another_wait(
    sigterm: Any, way: str, parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    service, store = Service(), Store()
    sigterm(task := make(Durable, service, **parameters))

    def stop_during(last: Any) -> Any:
        def stopped(*arguments: Any) -> Any:
            signal.raise_signal(signal.SIGTERM)
            return last(*arguments)

        return stopped

    # The last thing that happens before it leaves: in one way of waiting a trigger is made, else a date.
    task.make_trigger = stop_during(task.make_trigger)
    monkeypatch.setattr(run, "utcnow", stop_during(run.utcnow))
    with pytest.raises(TaskStoppedError, match="was cancelled"):
        task.execute(context(store))
