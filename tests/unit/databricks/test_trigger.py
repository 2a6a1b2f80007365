"""The trigger: what it asks, what it makes of the answers, and whom it leaves alone."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.triggers.databricks import DatabricksRuns, DatabricksRunTrigger
from unit.databricks.jobs_api import FAILED, LOST, RUNNING, SERVER_ERROR, SUCCEEDED, THROTTLED, error

if TYPE_CHECKING:
    from unit.databricks.jobs_api import JobsApi

CONNECTION = "databricks_default"


def trigger(run_id: int, **parameters: Any) -> DatabricksRunTrigger:
    return DatabricksRunTrigger(run_id=run_id, **{"poll_interval": 0.05, **parameters})


async def event_of(waiting: DatabricksRunTrigger) -> dict[str, Any]:
    event = await asyncio.wait_for(waiting.run().__anext__(), 20)
    return event.payload


@pytest.mark.parametrize(("end", "status"), [(SUCCEEDED, "success"), (FAILED, "failed")])
async def test_it_waits_for_the_end(api: JobsApi, end: dict[str, Any], status: str) -> None:
    api.ends = lambda run: run.update(end)
    run_id = api.start()
    event = await event_of(trigger(run_id, run_page_url="https://x"))
    assert (event["status"], event["external_id"], event["run_id"]) == (status, run_id, run_id)
    assert event["run_page_url"] == "https://x"
    assert api.paths() == ["runs/get", "runs/get"]


async def test_a_run_that_is_gone_ends_the_wait(api: JobsApi) -> None:
    assert (await event_of(trigger(1)))["status"] == "unknown"


async def test_failing_and_throttled_requests_are_tolerated(api: JobsApi) -> None:
    api.plans["runs/get"] = [SERVER_ERROR, LOST, error(403, "PERMISSION_DENIED"), THROTTLED]
    assert (await event_of(trigger(api.start())))["status"] == "success"


async def test_requests_that_fail_for_too_long_are_an_error(api: JobsApi) -> None:
    api.plans["runs/get"] = [error(403, "PERMISSION_DENIED")] * 1000
    event = await event_of(trigger(api.start(), poll_error_window=0.2))
    assert event["status"] == "error"
    assert "403" in event["message"]


async def test_the_deadline_ends_the_wait_and_not_the_run(api: JobsApi) -> None:
    api.ends = lambda run: None
    late = datetime.now(tz=timezone.utc) + timedelta(seconds=0.2)
    assert (await event_of(trigger(api.start(), deadline=late)))["status"] == "timeout"
    assert api.sent("runs/cancel") == []


async def test_a_persons_kill_cancels_the_run(api: JobsApi) -> None:
    run_id = api.start()
    await trigger(run_id).on_kill()
    await trigger(run_id, cancel_on_kill=False).on_kill()
    assert [body["run_id"] for body in api.sent("runs/cancel")] == [run_id]


async def test_requests_leave_from_threads_and_not_from_the_event_loop(
    api: JobsApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[int] = set()
    answer = type(api).runs_get

    def note(self: Any, body: Any) -> Any:
        threads.add(threading.get_ident())
        return answer(self, body)

    monkeypatch.setattr(type(api), "runs_get", note)
    await event_of(trigger(api.start()))
    assert threads
    assert threading.get_ident() not in threads


def test_each_request_is_sent_once_because_the_poller_repeats(api: JobsApi) -> None:
    api.plans["runs/get"] = [SERVER_ERROR, THROTTLED]
    runs = DatabricksRuns(CONNECTION)
    with pytest.raises(Exception, match="1 times"):
        runs.ask([1])
    with pytest.raises(ServiceThrottledError):
        runs.ask([1])
    assert len(api.calls) == 2


def test_credentials_are_read_again_after_a_refusal(api: JobsApi) -> None:
    runs = DatabricksRuns(CONNECTION)
    run_id = api.start(**RUNNING)
    runs.ask([run_id])
    hook = runs.hook()
    api.plans["runs/get"] = [error(401, "UNAUTHENTICATED")]
    with pytest.raises(Exception, match="401"):
        runs.ask([run_id])
    assert runs.hook() is not hook


def test_triggers_of_one_connection_share_a_poller() -> None:
    assert trigger(1).service().key == trigger(2).service().key
    assert trigger(1).service().key != trigger(1, databricks_conn_id="other").service().key


def test_cancelling_a_run_that_is_gone_is_no_error(api: JobsApi) -> None:
    DatabricksRuns(CONNECTION).cancel(1, "stopped")
    assert api.sent("runs/cancel") == [{"run_id": 1}]
