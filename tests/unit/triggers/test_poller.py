"""The shared poller: few requests, nobody late, nobody harmed by another."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_durable.triggers import poller as poller_module
from airflow_provider_durable.triggers.poller import shared_poller
from unit.triggers.virtual import FOREVER, FakeService, run, running, subscribe, virtual_requests

# -- few requests --------------------------------------------------------------------------------


@pytest.mark.parametrize("jobs", [1, 99, 100, 101, 250, 1000])
def test_jobs_are_asked_for_together(jobs: int) -> None:
    service = running(jobs)

    async def main() -> None:
        subscribe(service)
        await asyncio.sleep(100)

    run(main)
    whole, interval = math.ceil(jobs / 100), 10.0
    for start in range(0, 90, 10):
        # An interval is 9 to 10 seconds long.
        assert whole <= service.between(start + 1.0, start + 1.0 + interval) <= 2 * whole
    assert service.between(0, 100) <= math.ceil(99 / 9) * whole


def test_pollers_that_began_together_come_to_ask_apart() -> None:
    services = [running(1, name=str(number)) for number in range(20)]

    async def main() -> None:
        for service in services:
            subscribe(service)
        await asyncio.sleep(100)

    run(main)
    last = [service.asked("job-0")[-1] for service in services]
    assert max(last) - min(last) > 1.0


@pytest.mark.parametrize("jobs", [70, 350])
def test_triggers_that_began_apart_come_to_ask_together(jobs: int) -> None:
    service = running(jobs)

    async def main() -> None:
        shared = shared_poller(service)
        for job in service.ends:
            shared.subscribe(job, 10.0, 600.0)
            await asyncio.sleep(0.1)
        await asyncio.sleep(100)

    run(main)
    end = jobs * 0.1 + 100
    assert service.between(end - 50, end) <= math.ceil(50 / 9) * math.ceil(jobs / 100)


def test_a_job_with_a_long_interval_is_not_asked_for_all_the_time() -> None:
    service = running(2)

    async def main() -> None:
        shared_poller(service).subscribe("job-0", 10.0, 600.0)
        shared_poller(service).subscribe("job-1", 300.0, 600.0)
        await asyncio.sleep(3000)

    run(main)
    assert 300 <= len(service.asked("job-0")) <= 340
    assert 10 <= len(service.asked("job-1")) <= 22


def test_two_triggers_for_one_job_both_hear_of_its_end() -> None:
    service = FakeService(ends={"job": 5.0})

    async def main() -> list[str | None]:
        shared = shared_poller(service)
        return await asyncio.gather(*(shared.subscribe("job", 10.0, 600.0).ended for _ in range(2)))

    assert run(main) == ["SUCCEEDED", "SUCCEEDED"]
    assert [ids for _, ids in service.requests] == [["job"], ["job"]]


def test_services_that_differ_are_asked_apart() -> None:
    services = [FakeService(name=name, ends={name: 5.0}) for name in ("here", "there")]

    async def main() -> None:
        subscriptions = [shared_poller(service).subscribe(service.name, 1.0, 9.0) for service in services]
        await asyncio.gather(*(subscription.ended for subscription in subscriptions))

    run(main)
    assert [{job for _, ids in service.requests for job in ids} for service in services] == [
        {"here"},
        {"there"},
    ]


# -- nobody late ---------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(
            st.floats(0, 60),  # subscribed at
            st.floats(0, 120),  # ended at
            st.sampled_from([1.0, 5.0, 10.0, 60.0]),  # interval
        ),
        min_size=1,
        max_size=250,
    ),
    latency=st.floats(0, 0.5),
)
def test_an_end_is_reported_within_an_interval(
    jobs: list[tuple[float, float, float]], latency: float
) -> None:
    service = FakeService(ends={str(n): end for n, (_, end, _) in enumerate(jobs)}, latency=latency)
    reported: dict[int, float] = {}

    async def wait(number: int, start: float, interval: float) -> None:
        await asyncio.sleep(start)
        await shared_poller(service).subscribe(str(number), interval, 600.0).ended
        reported[number] = asyncio.get_running_loop().time()

    async def main() -> None:
        waits = (wait(number, start, interval) for number, (start, _, interval) in enumerate(jobs))
        await asyncio.gather(*waits)

    run(main)
    # A request that had just left, and the one that brings the news.
    requests = 2 * latency
    for number, (start, end, interval) in enumerate(jobs):
        assert reported[number] <= max(start, end) + interval + requests + 1e-6
        asked = [start, *service.asked(str(number))]
        assert all(after - before <= interval + requests + 1e-6 for before, after in pairwise(asked))


def test_a_slow_service_is_asked_no_less_often() -> None:
    service = running(1, latency=3.0)

    async def main() -> None:
        subscribe(service)
        await asyncio.sleep(100)

    run(main)
    assert all(after - before <= 10.0 for before, after in pairwise(service.asked("job-0")))


def test_a_slow_request_delays_no_other() -> None:
    service = running(100)
    service.ends["late"] = 20.0

    async def main() -> float:
        poller = shared_poller(service)
        for job in list(service.ends)[:100]:
            poller.subscribe(job, 10.0, 600.0)
        await asyncio.sleep(0.5)
        service.latency = 300.0
        await asyncio.sleep(1)
        service.latency = 0.0
        await poller.subscribe("late", 10.0, 600.0).ended
        return asyncio.get_running_loop().time()

    assert run(main) <= 30.0


def test_the_loop_does_not_stall_while_the_service_thinks() -> None:
    service = FakeService(ends={"job": FOREVER})
    thought = []

    def think(external_ids: Sequence[Any]) -> dict[Any, str]:
        time.sleep(0.5)
        thought.append(external_ids)
        return dict.fromkeys(external_ids, "SUCCEEDED")

    service.ask = think  # type: ignore[method-assign]

    async def main() -> float:
        subscription = shared_poller(service).subscribe("job", 0.01, 600.0)
        longest, before = 0.0, time.monotonic()
        while not subscription.ended.done():
            await asyncio.sleep(0.01)
            longest, before = max(longest, time.monotonic() - before), time.monotonic()
        return longest

    assert asyncio.run(main()) < 0.3
    assert thought == [["job"]]


# -- who waits -----------------------------------------------------------------------------------


def test_nobody_is_asked_for_after_the_trigger_has_gone() -> None:
    service = running(2)

    async def main() -> None:
        shared = shared_poller(service)
        stays, goes = subscribe(service)
        await asyncio.sleep(15)
        shared.unsubscribe(goes)
        await asyncio.sleep(30)
        shared.unsubscribe(stays)
        shared.unsubscribe(stays)
        await asyncio.sleep(30)

    run(main)
    assert max(service.asked("job-1")) <= 15
    assert 35 <= max(service.asked("job-0")) <= 45


def test_the_poller_stops_by_itself_and_is_kept_for_who_comes_back_soon() -> None:
    service = running(1)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        first = shared_poller(service)
        first.unsubscribe(subscribe(service)[0])
        await asyncio.sleep(poller_module.LINGER_SECONDS - 1)
        subscription = shared_poller(service).subscribe("job-0", 10.0, 600.0)
        await asyncio.sleep(2 * poller_module.LINGER_SECONDS)
        assert shared_poller(service) is first
        first.unsubscribe(subscription)
        await asyncio.sleep(poller_module.LINGER_SECONDS + 1)
        assert not poller_module._pollers[loop]
        assert first._executor._shutdown
        assert shared_poller(service) is not first

    run(main)


def test_each_loop_has_its_own_poller_and_a_closed_loop_none() -> None:
    service = FakeService(ends={"job": FOREVER})
    seen = []

    async def main() -> None:
        subscription = shared_poller(service).subscribe("job", 1.0, 600.0)
        seen.append(shared_poller(service))
        await asyncio.sleep(5)
        assert not subscription.ended.done()

    for _ in range(2):
        with virtual_requests():
            run(main)  # goes without unsubscribing
    assert seen[0] is not seen[1]
    assert len(service.requests) == 10
    assert seen[0]._executor._shutdown
    assert [loop for loop in poller_module._pollers if loop.is_closed()] in ([], [seen[1]._loop])


def test_two_loops_in_two_threads_wait_at_the_same_time() -> None:
    import threading

    service = FakeService(ends={"job": FOREVER})
    service.ask = lambda ids: dict.fromkeys(ids, "SUCCEEDED")  # type: ignore[method-assign]
    answers: list[str | None] = []

    async def main() -> None:
        answers.append(await shared_poller(service).subscribe("job", 0.05, 600.0).ended)

    threads = [threading.Thread(target=asyncio.run, args=(main(),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert answers == ["SUCCEEDED"] * 2


def test_a_loop_that_is_closed_in_mid_request_closes_quietly(capfd: pytest.CaptureFixture[str]) -> None:
    service = FakeService(ends={"job": FOREVER})
    asked = []

    def think(external_ids: Sequence[Any]) -> dict[Any, str]:
        asked.append(external_ids)
        time.sleep(0.3)
        return {}

    service.ask = think  # type: ignore[method-assign]

    async def main() -> None:
        shared_poller(service).subscribe("job", 0.01, 600.0)
        await asyncio.sleep(0.1)

    asyncio.run(main())
    time.sleep(0.4)
    assert asked
    assert "Traceback" not in capfd.readouterr().err
