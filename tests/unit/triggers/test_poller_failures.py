"""What one bad id, one failed request or an outage does to all others that wait: nothing."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import ServiceThrottledError, StatusUnavailableError
from airflow_provider_durable.triggers import poller as poller_module
from airflow_provider_durable.triggers import subscriptions
from airflow_provider_durable.triggers.poller import shared_poller
from airflow_provider_durable.triggers.service import RequestRejectedError
from unit.triggers.virtual import FOREVER, FakeService, run, running, subscribe

if TYPE_CHECKING:
    from airflow_provider_durable.triggers.subscriptions import Subscription


# -- nobody harmed -------------------------------------------------------------------------------


def refuse(*bad: str) -> Any:
    def plan(_: int, ids: Sequence[str]) -> None:
        if set(bad) & set(ids):
            raise RequestRejectedError(f"one of {len(ids)} ids is bad")

    return plan


async def end_of(service: FakeService, job: str) -> tuple[float, list[Subscription]]:
    """Return when the end of ``job`` was reported, and which others have ended once their window is over."""
    subscriptions = {s.external_id: s for s in subscribe(service, window=60.0)}
    await subscriptions.pop(job).ended
    reported = asyncio.get_running_loop().time()
    await asyncio.sleep(90)
    return reported, [s for s in subscriptions.values() if s.ended.done()]


def test_a_status_that_an_author_did_not_expect_harms_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    service = running(3)
    service.ends["job-1"] = 30.0
    states = {"RUNNING": True, "SUCCEEDED": False}
    ask = service.ask
    monkeypatch.setattr(
        service, "ask", lambda ids: {job: "ODD" if job == "job-0" else s for job, s in ask(ids).items()}
    )
    monkeypatch.setattr(service, "is_active", lambda status: states[status])

    reported, (odd,) = run(lambda: end_of(service, "job-1"))
    assert reported <= 45.0
    assert odd.external_id == "job-0"
    assert "ODD" in str(odd.ended.result())


@pytest.mark.parametrize("bad", [["job-0"], ["job-57"], ["job-99"], ["job-3", "job-42", "job-77"]])
def test_a_bad_id_harms_no_other(bad: list[str]) -> None:
    service = running(100, plan=refuse(*bad))
    service.ends["job-50"] = 30.0

    reported, failed = run(lambda: end_of(service, "job-50"))
    assert reported <= 40.0
    assert [s.external_id for s in failed] == bad
    assert all(isinstance(s.ended.result(), Exception) for s in failed)
    # Once they are found out, they are asked for alone.
    later = [ids for at, ids in service.requests if at > 2.0]
    assert all(len(ids) == 1 for ids in later if set(ids) & set(bad))
    assert service.between(0, 2.0) <= 2 * 8 * len(bad) + 1


def test_ids_are_not_blamed_for_a_service_that_refuses_everything() -> None:
    service = running(100, plan=refuse(*(f"job-{n}" for n in range(100))))

    async def main() -> None:
        subscribe(service)
        await asyncio.sleep(100)
        service.plan = lambda number, ids: None
        await asyncio.sleep(15)

    run(main)
    assert service.between(0, 100) <= 15 * (4 + 100 / 9) * 2
    assert [len(ids) for _, ids in service.requests[-1:]] == [100]


def test_a_job_whose_requests_always_fail_harms_no_other() -> None:
    def plan(_: int, ids: Sequence[str]) -> None:
        if "job-7" in ids:
            raise ConnectionError("reset")

    service = running(250, plan=plan)
    service.ends["job-8"] = 30.0

    reported, ended = run(lambda: end_of(service, "job-8"))
    assert reported <= 40.0
    assert [subscription.external_id for subscription in ended] == ["job-7"]
    later = [ids for at, ids in service.requests if at > 15.0]
    assert all(ids == ["job-7"] for ids in later if "job-7" in ids)


def test_an_outage_is_no_reason_to_ask_for_each_job() -> None:
    def plan(_: int, ids: Sequence[str]) -> None:
        raise ConnectionError("no route")

    service = running(1000, plan=plan)

    async def main() -> None:
        subscriptions = subscribe(service)
        await asyncio.sleep(100)
        assert not any(subscription.ended.done() for subscription in subscriptions)
        service.plan = lambda number, ids: None
        await asyncio.sleep(12)

    run(main)
    # 4 repeats before the pause is an interval, then one an interval; each takes 5 requests at most.
    assert service.between(10, 100) <= 10 * 5 * (90 / 9 + 1)
    assert {job for at, ids in service.requests if at > 100 for job in ids} == set(service.ends)
    assert service.between(100, 112) <= 25


def test_failing_requests_back_off_up_to_the_interval() -> None:
    def plan(_: int, ids: Sequence[str]) -> None:
        raise ConnectionError("reset")

    service = running(1, plan=plan)

    async def main() -> None:
        subscribe(service, interval=10.0)
        await asyncio.sleep(60)

    run(main)
    pauses = [b - a for (a, _), (b, _) in pairwise(service.requests)]
    for pause, most in zip(pauses[:6], [1, 2, 4, 8, 10, 10], strict=True):
        assert 0.9 * most <= pause <= most


def test_a_request_that_failed_once_costs_a_second() -> None:
    def plan(number: int, _: Sequence[str]) -> None:
        if number == 2:
            raise ConnectionError("reset")

    service = FakeService(ends={"job": 5.0}, plan=plan)

    async def main() -> float:
        await shared_poller(service).subscribe("job", 10.0, 600.0).ended
        return asyncio.get_running_loop().time()

    assert run(main) <= 12.0


def test_the_wait_ends_when_requests_have_failed_for_the_whole_window() -> None:
    def plan(_: int, ids: Sequence[str]) -> None:
        raise ConnectionError("reset")

    service = running(1, plan=plan)

    async def main() -> tuple[float, Any]:
        error = await subscribe(service, window=60.0)[0].ended
        return asyncio.get_running_loop().time(), error

    at, error = run(main)
    assert isinstance(error, StatusUnavailableError)
    assert "ConnectionError: reset" in str(error)
    assert 60 < at <= 72


def test_one_good_answer_begins_the_window_anew() -> None:
    def plan(number: int, _: Sequence[str]) -> None:
        if number % 8:
            raise ConnectionError("reset")

    service = running(1, plan=plan)

    async def main() -> bool:
        subscription = subscribe(service, window=60.0)[0]
        await asyncio.sleep(3600)
        return subscription.ended.done()

    assert run(main) is False


def test_each_trigger_logs_the_failure_once_and_in_its_own_log(caplog: pytest.LogCaptureFixture) -> None:
    def plan(number: int, _: Sequence[str]) -> None:
        if number < 4:
            raise ConnectionError("reset")

    service = running(2, plan=plan)
    task: ContextVar[str] = ContextVar("task", default="nobody")
    logs: list[tuple[str, str]] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            logs.append((task.get(), record.getMessage()))

    async def trigger(job: str) -> None:
        task.set(job)
        await shared_poller(service).subscribe(job, 10.0, 600.0).ended

    async def main() -> None:
        tasks = [asyncio.ensure_future(trigger(job)) for job in service.ends]
        await asyncio.sleep(30)
        assert not any(task.done() for task in tasks)

    with caplog.at_level(logging.INFO, logger=subscriptions.__name__):
        subscriptions.log.addHandler(handler := Handler())
        run(main)
        subscriptions.log.removeHandler(handler)
    failed = [(whose, text) for whose, text in logs if "ConnectionError: reset" in text]
    again = [(whose, text) for whose, text in logs if "can be read again" in text]
    for lines in (failed, again):
        assert sorted(whose for whose, _ in lines) == ["job-0", "job-1"]
        assert all(f"external_id={whose!r}" in text for whose, text in lines)


# -- throttling ----------------------------------------------------------------------------------


def test_throttling_makes_everybody_wait_and_ends_no_wait() -> None:
    def plan(_: int, ids: Sequence[str]) -> None:
        raise ServiceThrottledError("rate exceeded")

    service = running(1000, plan=plan)

    async def main() -> list[Subscription]:
        subscriptions = subscribe(service, window=60.0)
        await asyncio.sleep(3600)
        assert not any(subscription.ended.done() for subscription in subscriptions)
        service.plan = lambda number, ids: None
        await asyncio.sleep(poller_module.MAX_PAUSE + 10)
        return subscriptions

    run(main)
    # Four at first, then one at a time: an hour has 60 pauses of a minute, or 120 of half a minute.
    assert 60 <= service.between(0, 3600) <= 130
    pauses = [b - a for (a, _), (b, _) in pairwise(service.requests[3:9])]
    for pause, most in zip(pauses, [2, 4, 8, 16, 32], strict=True):
        assert 0.5 * most <= pause <= most + 0.1
    # All are asked for again as soon as the service takes requests.
    last = {job for at, ids in service.requests if at > 3600 for job in ids}
    assert len(last) == 1000


# -- unknown jobs --------------------------------------------------------------------------------


@pytest.mark.parametrize("interval", [1.0, 10.0, 300.0])
def test_a_job_that_no_answer_names_is_unknown_after_a_while(interval: float) -> None:
    service = FakeService()

    async def main() -> tuple[str | None, float]:
        status = await shared_poller(service).subscribe("gone", interval, 600.0).ended
        return status, asyncio.get_running_loop().time()

    status, at = run(main)
    assert status is None
    assert 15.0 <= at <= 15.0 + 1.0 + min(interval, 15.0)


def test_a_job_that_becomes_visible_late_is_waited_for() -> None:
    service = FakeService()

    async def main() -> str | None:
        subscription = shared_poller(service).subscribe("late", 5.0, 600.0)
        await asyncio.sleep(14)
        service.ends["late"] = 60.0
        return await subscription.ended

    assert run(main) == "SUCCEEDED"


def test_a_job_that_is_left_out_now_and_then_is_known() -> None:
    service = FakeService()

    async def main() -> bool:
        subscription = shared_poller(service).subscribe("job", 10.0, 600.0)
        for _ in range(50):
            service.ends = {}
            await asyncio.sleep(8)
            service.ends = {"job": FOREVER}
            await asyncio.sleep(12)
        return subscription.ended.done()

    assert run(main) is False
