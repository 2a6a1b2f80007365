"""Why a try is stopped, and what becomes of its job: the stop table, and carrying it out."""

from __future__ import annotations

import signal
import threading
import time
from typing import Any

import pytest

from airflow_provider_durable.resumable import TaskStoppedError, stopper
from airflow_provider_durable.resumable.compat import BaseOperator
from airflow_provider_durable.resumable.stop import StopAction, StopReason, choose, classify, has_try_left
from unit.fakes import Durable, Service, SixHooks, Store, context, kill_soon, make, waiting

durable_only = pytest.mark.task_state_store
CANCEL, LEAVE = StopAction.CANCEL, StopAction.LEAVE


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        ("running", StopReason.EVICTION),
        ("failed", StopReason.PERSON),
        ("success", StopReason.PERSON),
        ("skipped", StopReason.PERSON),
        ("removed", StopReason.PERSON),
        ("restarting", StopReason.PERSON),
        (None, StopReason.PERSON),
        ("queued", StopReason.ANOTHER_TRY),
        ("up_for_retry", StopReason.ANOTHER_TRY),
    ],
)
def test_the_state_on_the_server_says_why(state: str | None, reason: StopReason) -> None:
    assert classify(state) is reason


@pytest.mark.parametrize(
    ("reason", "try_left", "action"),
    [
        (StopReason.PERSON, True, CANCEL),
        (StopReason.PERSON, False, CANCEL),
        (StopReason.TIMEOUT, True, CANCEL),
        (StopReason.EVICTION, True, LEAVE),
        (StopReason.EVICTION, False, CANCEL),
        (StopReason.UNKNOWN, True, LEAVE),
        (StopReason.UNKNOWN, False, LEAVE),
        (StopReason.ANOTHER_TRY, False, LEAVE),
        (StopReason.NOT_DURABLE, True, CANCEL),
    ],
)
def test_the_stop_table(reason: StopReason, try_left: bool, action: StopAction) -> None:
    assert choose(reason, try_left=try_left, cancel_on_kill=True) is action
    assert choose(reason, try_left=try_left, cancel_on_kill=False) is LEAVE


@pytest.mark.parametrize(("number", "max_tries", "left"), [(1, 0, False), (1, 1, True), (2, 1, False)])
def test_a_try_is_left(number: int, max_tries: int, left: bool) -> None:
    assert has_try_left(number, max_tries) is left


# -- carried out -------------------------------------------------------------------------------


@durable_only
def test_an_eviction_leaves_the_job_running_and_ends_the_wait_at_once(sigterm: Any) -> None:
    service, store, begin = Service(), Store(), time.monotonic()
    sigterm(task := waiting(service))
    kill_soon()
    with pytest.raises(TaskStoppedError, match="the worker is going away: job job-1 is left running"):
        task.execute(context(store, max_tries=1))
    assert time.monotonic() - begin < 5
    assert service.jobs["job-1"].cancels == 0
    service.jobs["job-1"].status = "SUCCEEDED"
    assert waiting(service).execute(context(store, try_number=2, max_tries=1)) == "result of job-1"


@durable_only
def test_an_eviction_of_the_last_try_cancels(sigterm: Any) -> None:
    service = Service()
    sigterm(task := waiting(service))
    kill_soon()
    with pytest.raises(TaskStoppedError, match="was cancelled"):
        task.execute(context(Store(), try_number=2, max_tries=1))
    assert service.jobs["job-1"].cancels == 1


@durable_only
@pytest.mark.parametrize("state", ["failed", "success", "restarting", None])
def test_a_person_cancels_and_the_intent_is_stored_first(sigterm: Any, state: str | None) -> None:
    service, store = Service(), Store()
    sigterm(task := waiting(service))
    order: list[str] = []
    plain = service.cancel
    store.before_call = order.append  # type: ignore[assignment]
    service.cancel = lambda job_id: order.append("cancel") or plain(job_id)  # type: ignore[method-assign,func-returns-value]
    kill_soon()
    with pytest.raises(TaskStoppedError, match="a person ended the task or cleared it"):
        task.execute(context(store, max_tries=1, state=state))
    assert order[-2:] == ["set", "cancel"]
    assert service.jobs["job-1"].cancels == 1
    assert "cancelled_at" in store.values["job_id_submission"]


@durable_only
def test_a_job_that_was_told_to_stop_is_told_again_and_followed_by_a_new_one(sigterm: Any) -> None:
    """The process may die between the note and the request."""
    service, store = Service(), Store()
    sigterm(task := waiting(service))
    kill_soon()
    with pytest.raises(TaskStoppedError):
        task.execute(context(store, max_tries=1, state="failed"))
    service.jobs["job-1"].status, service.jobs["job-1"].cancels = "RUNNING", 0
    plain = service.submit

    def submit(token: str = "") -> str:
        assert not service.active, "two jobs at once"
        job_id = plain(token)
        service.jobs[job_id].status = "SUCCEEDED"
        return job_id

    service.submit = submit  # type: ignore[method-assign]
    assert make(Durable, service).execute(context(store, try_number=2, max_tries=1)) == "result of job-2"
    assert service.jobs["job-1"].cancels == 1


@durable_only
def test_an_unreachable_server_leaves_the_job_running(sigterm: Any) -> None:
    service = Service()
    sigterm(task := waiting(service))
    kill_soon()
    with pytest.raises(TaskStoppedError, match="could not say why"):
        task.execute(context(Store(), try_number=2, max_tries=1, state=ConnectionError("down")))
    assert service.jobs["job-1"].cancels == 0


@durable_only
def test_cancel_on_kill_false_never_cancels(sigterm: Any) -> None:
    service = Service()
    sigterm(task := waiting(service, cancel_on_kill=False))
    kill_soon()
    with pytest.raises(TaskStoppedError):
        task.execute(context(Store(), state="failed"))
    assert service.jobs["job-1"].cancels == 0


@durable_only
def test_a_busy_channel_is_not_guessed_about(sigterm: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The signal comes while the task's own thread holds the channel's lock."""
    monkeypatch.setattr(stopper, "ASK_SECONDS", 0.2)
    service, store, channel = Service(), Store(), threading.Lock()
    sigterm(task := make(Durable, service, poll_interval=0.05))
    given = context(store, max_tries=1, state="failed")
    answer = given["ti"].get_task_states

    def get_task_states(**question: Any) -> Any:
        with channel:
            return answer(**question)

    given["ti"].get_task_states = get_task_states
    plain, cancels_while_held = service.status, []

    def status(job_id: Any) -> str:
        with channel:
            signal.raise_signal(signal.SIGTERM)
            cancels_while_held.append(service.jobs[job_id].cancels)
        return plain(job_id)

    service.status = status  # type: ignore[method-assign]
    with pytest.raises(TaskStoppedError, match="was cancelled"):
        task.execute(given)
    assert cancels_while_held == [0]
    assert service.jobs["job-1"].cancels == 1


@durable_only
def test_a_stop_during_the_submission_waits_for_the_answer(sigterm: Any) -> None:
    service, store = Service(), Store()
    sigterm(task := waiting(service))
    plain = service.submit

    def submit(token: str = "") -> str:
        signal.raise_signal(signal.SIGTERM)
        return plain(token)

    service.submit = submit  # type: ignore[method-assign]
    with pytest.raises(TaskStoppedError, match="job-1 is left running"):
        task.execute(context(store, max_tries=1))
    assert store.values["job_id"] == "job-1"


@durable_only
def test_a_person_who_stops_during_the_submission_gets_the_job_cancelled(sigterm: Any) -> None:
    service = Service()
    sigterm(task := waiting(service))
    plain = service.submit
    service.submit = lambda token="": signal.raise_signal(signal.SIGTERM) or plain(token)  # type: ignore[method-assign,func-returns-value]
    with pytest.raises(TaskStoppedError, match="was cancelled"):
        task.execute(context(Store(), max_tries=1, state="failed"))
    assert service.jobs["job-1"].cancels == 1


@durable_only
def test_a_run_that_is_deleted_during_the_submission_gets_the_job_cancelled(sigterm: Any) -> None:
    service, store = Service(), Store()
    sigterm(task := waiting(service))
    plain = service.submit

    def submit(token: str = "") -> str:
        signal.raise_signal(signal.SIGTERM)

        def gone(name: str) -> None:
            raise RuntimeError("404: no such task instance")

        store.before_call = gone  # type: ignore[assignment]
        return plain(token)

    service.submit = submit  # type: ignore[method-assign]
    with pytest.raises(TaskStoppedError, match="was cancelled"):
        task.execute(context(store, max_tries=1, state=None))
    assert service.jobs["job-1"].cancels == 1


@durable_only
def test_a_stop_before_the_submission_starts_nothing(sigterm: Any) -> None:
    service, store = Service(), Store()
    sigterm(task := waiting(service))
    store.before_call = lambda name: store.calls or signal.raise_signal(signal.SIGTERM)  # type: ignore[assignment]
    with pytest.raises(TaskStoppedError, match="no job was started"):
        task.execute(context(store, max_tries=1))
    assert not service.jobs


@durable_only
def test_a_cancellation_that_fails_is_tried_again_and_still_ends_the_try(sigterm: Any) -> None:
    service = Service()
    service.failures["cancel"] = [ConnectionError("reset")]
    sigterm(task := waiting(service))
    kill_soon()
    with pytest.raises(TaskStoppedError, match="was cancelled"):
        task.execute(context(Store(), state="failed"))
    assert service.calls.count("cancel") == 2


@durable_only
def test_a_custom_wait_is_interrupted_too(sigterm: Any) -> None:
    service = Service()
    task = make(SixHooks, service)
    task.poll_until_complete = lambda external_id, context: time.sleep(60)
    sigterm(task)
    kill_soon()
    begin = time.monotonic()
    with pytest.raises(TaskStoppedError, match="is left running"):
        task.execute(context(Store(), max_tries=1))
    assert time.monotonic() - begin < 30


@durable_only
def test_cancelling_six_hooks_is_what_the_next_class_does_on_kill(sigterm: Any) -> None:
    from airflow_provider_durable import ResumableJobMixin

    killed: list[str] = []

    class Apache(BaseOperator):
        def on_kill(self) -> None:
            killed.append("on_kill")

    class Op(ResumableJobMixin, Apache):
        execute = SixHooks.execute
        submit_job = SixHooks.submit_job
        get_job_status = SixHooks.get_job_status
        is_job_active = SixHooks.is_job_active
        is_job_succeeded = SixHooks.is_job_succeeded
        get_job_result = SixHooks.get_job_result

        def poll_until_complete(self, external_id: Any, context: Any) -> None:
            time.sleep(60)

    task: Any = Op(task_id="job")
    task.service = Service()
    sigterm(task)
    kill_soon()
    with pytest.raises(TaskStoppedError, match="was cancelled"):
        task.execute(context(Store(), state="failed"))
    assert killed == ["on_kill"]
