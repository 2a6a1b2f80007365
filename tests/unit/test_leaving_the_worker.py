"""``mode="reschedule"`` and deferrals: the worker is free between two looks, and the job is found again."""

from __future__ import annotations

import time
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_durable.resumable import (
    JobFailedError,
    StatusUnavailableError,
    TriggerFailedError,
)
from airflow_provider_durable.resumable.compat import (
    AirflowRescheduleException,
    AirflowTaskTimeout,
)
from unit.fakes import Durable, QuickService, SixHooks, Store, context, make

pytestmark = pytest.mark.task_state_store


@pytest.fixture
def service() -> QuickService:
    return QuickService()


def rescheduling(service: QuickService, **parameters: Any) -> Any:
    return make(Durable, service, mode="reschedule", **parameters)


def test_reschedule_leaves_the_worker_and_comes_back_to_the_same_job(service: QuickService) -> None:
    store = Store()
    with pytest.raises(AirflowRescheduleException) as away:
        rescheduling(service).execute(context(store))
    seconds = (away.value.reschedule_date - datetime.now(timezone.utc)).total_seconds()
    assert 25 < seconds <= 30  # no less, whatever the poll interval
    assert rescheduling(service).execute(context(store)) == "result of job-1"
    assert len(service.jobs) == 1


def test_reschedule_comes_back_at_the_deadline(service: QuickService) -> None:
    task = rescheduling(service, poll_interval=300, execution_timeout=timedelta(seconds=60))
    with pytest.raises(AirflowRescheduleException) as away:
        task.execute(context(Store()))
    assert 50 < (away.value.reschedule_date - datetime.now(timezone.utc)).total_seconds() <= 60


def test_reschedule_never_comes_back_sooner_than_airflow_can_tell(service: QuickService) -> None:
    task = rescheduling(service, execution_timeout=timedelta(seconds=2))
    with pytest.raises(AirflowRescheduleException) as away:
        task.execute(context(Store()))
    assert (away.value.reschedule_date - datetime.now(timezone.utc)).total_seconds() > 25


def test_reschedule_a_job_that_failed_fails_the_try(service: QuickService) -> None:
    store = Store()
    with pytest.raises(AirflowRescheduleException):
        rescheduling(service).execute(context(store))
    service.ends_as = "FAILED"
    with pytest.raises(JobFailedError):
        rescheduling(service).execute(context(store))
    assert len(service.jobs) == 1


def test_reschedule_of_a_reconnected_job_that_failed_fails_that_try(service: QuickService) -> None:
    store = Store()
    with pytest.raises(AirflowRescheduleException):
        rescheduling(service).execute(context(store))
    service.ends_as = "RUNNING"
    with pytest.raises(AirflowRescheduleException):
        rescheduling(service).execute(context(store, try_number=2))
    service.ends_as = "FAILED"
    with pytest.raises(JobFailedError):
        rescheduling(service).execute(context(store, try_number=2))
    assert len(service.jobs) == 1


def test_reschedule_tolerates_failing_requests_across_processes(service: QuickService) -> None:
    store = Store()
    window = {"poll_error_window": timedelta(milliseconds=50)}
    with pytest.raises(AirflowRescheduleException):
        rescheduling(service, **window).execute(context(store))
    service.failures["status"] = [ConnectionError("reset"), ConnectionError("reset")]
    with pytest.raises(AirflowRescheduleException):
        rescheduling(service, **window).execute(context(store))
    assert "unreachable_since" in store.values["job_id_submission"]
    time.sleep(0.06)
    with pytest.raises(StatusUnavailableError):
        rescheduling(service, **window).execute(context(store))
    # The next try asks anew, and reconnects or returns.
    assert rescheduling(service, **window).execute(context(store, try_number=2)) == "result of job-1"


def test_six_hooks_alone_can_reschedule_and_never_submit_twice_in_one_try(service: QuickService) -> None:
    store = Store()
    with pytest.raises(AirflowRescheduleException):
        make(SixHooks, service, mode="reschedule").execute(context(store))
    service.ends_as = "FAILED"
    with pytest.raises(JobFailedError):
        make(SixHooks, service, mode="reschedule").execute(context(store))
    assert len(service.jobs) == 1


class Deferred(BaseException):
    """What ``defer`` raises."""


def deferring(service: QuickService, **parameters: Any) -> Any:
    task = make(Durable, service, deferrable=True, **parameters)
    task.deferred = []

    def defer(**how: Any) -> None:
        task.deferred.append(how)
        raise Deferred

    task.defer = defer
    return task


def test_deferring_stores_first_and_resumes_to_the_jobs_result(service: QuickService) -> None:
    task, store = deferring(service), Store()
    with pytest.raises(Deferred):
        task.execute(context(store))
    assert store.sets() == ["job_id_submission", "job_id"]
    (how,) = task.deferred
    assert (how["trigger"].external_id, how["method_name"], how["kwargs"]) == ("job-1", "resume_job", None)
    assert deferring(service).resume_job(context(store), {"status": "success"}) == "result of job-1"


def test_on_resume_the_jobs_outcome_decides_whatever_the_event_says(service: QuickService) -> None:
    store = Store()
    with pytest.raises(Deferred):
        deferring(service).execute(context(store))
    service.ends_as = "FAILED"
    with pytest.raises(JobFailedError):
        deferring(service).resume_job(context(store), {"status": "success"})


def test_a_job_that_is_still_active_is_waited_for_again(service: QuickService) -> None:
    store = Store()
    with pytest.raises(Deferred):
        deferring(service).execute(context(store))
    service.ends_as = "RUNNING"
    with pytest.raises(Deferred):
        deferring(service).resume_job(context(store), {"status": "success"})
    assert len(service.jobs) == 1


def test_a_triggers_error_is_not_the_jobs_failure(service: QuickService) -> None:
    store = Store()
    with pytest.raises(Deferred):
        deferring(service).execute(context(store))
    service.ends_as = "RUNNING"
    with pytest.raises(TriggerFailedError, match="the next try reconnects"):
        deferring(service).resume_job(context(store), {"status": "error", "message": "boom"})
    with pytest.raises(Deferred):
        deferring(service).execute(context(store, try_number=2))
    assert len(service.jobs) == 1
    # Had the job ended by then, the trigger's error would not matter.
    service.ends_as = "SUCCEEDED"
    assert (
        deferring(service).resume_job(context(store, try_number=2), {"status": "error"}) == "result of job-1"
    )


def test_a_triggers_timeout_is_the_tasks(service: QuickService) -> None:
    store = Store()
    with pytest.raises(Deferred):
        deferring(service).execute(context(store))
    service.ends_as = "RUNNING"
    with pytest.raises(AirflowTaskTimeout):
        deferring(service).resume_job(context(store), {"status": "timeout"})


def test_a_retry_of_a_task_that_died_while_it_resumed_starts_at_execute(service: QuickService) -> None:
    store = Store()
    with pytest.raises(Deferred):
        deferring(service).execute(context(store))
    assert deferring(service).execute(context(store, try_number=2)) == "result of job-1"


def test_deferring_without_a_store_takes_the_job_along(service: QuickService) -> None:
    task = deferring(service, durable=False)
    with pytest.raises(Deferred):
        task.execute(context(Store()))
    kwargs = task.deferred[0]["kwargs"]
    assert kwargs["external_id"] == "job-1"
    assert datetime.fromisoformat(kwargs["submitted_at"]).tzinfo is not None
    resumed = deferring(service, durable=False)
    assert resumed.resume_job(context(Store()), {"status": "success"}, **kwargs) == "result of job-1"


def test_a_trigger_whose_event_names_the_job_takes_nothing_else_along(service: QuickService) -> None:
    task = deferring(service, durable=False, execution_timeout=timedelta(hours=1))
    task.make_trigger = lambda external_id, context: SimpleNamespace(event_names_job=True)
    with pytest.raises(Deferred):
        task.execute(context(Store()))
    assert task.deferred[0]["kwargs"] is None
    event = {"status": "success", "external_id": "job-1", "deadline": task.job_deadline.isoformat()}
    resumed = deferring(service, durable=False, execution_timeout=timedelta(hours=1))
    assert resumed.resume_job(context(Store()), event) == "result of job-1"
    assert resumed.job_deadline == task.job_deadline


def test_the_trigger_can_be_told_the_deadline(service: QuickService) -> None:
    task = deferring(service, execution_timeout=timedelta(hours=1))
    seen: list[Any] = []
    task.make_trigger = lambda external_id, context: seen.append(task.job_deadline) or SimpleNamespace()
    with pytest.raises(Deferred):
        task.execute(context(Store()))
    assert timedelta(minutes=59) < seen[0] - datetime.now(timezone.utc) <= timedelta(hours=1)


def test_a_deferral_that_apaches_operator_began_is_taken_up_and_remembered(service: QuickService) -> None:
    store, job_id = Store(), service.submit()
    service.ends_as = "RUNNING"
    with pytest.raises(TriggerFailedError):
        deferring(service).resume_job(context(store), {"status": "error", "external_id": job_id})
    assert store.values["job_id"] == job_id
    service.ends_as = "SUCCEEDED"
    assert deferring(service).execute(context(store, try_number=2)) == "result of job-1"
    assert len(service.jobs) == 1


def test_a_job_of_such_a_deferral_that_failed_fails_the_try(service: QuickService) -> None:
    service.ends_as = "FAILED"
    event = {"status": "error", "external_id": service.submit()}
    with pytest.raises(JobFailedError):
        deferring(service).resume_job(context(Store()), event)
    assert len(service.jobs) == 1
