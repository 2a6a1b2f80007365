"""The order in which jobs are asked for, and what keeping it costs."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_durable.triggers.poller import shared_poller
from airflow_provider_durable.triggers.subscriptions import Queue, Subscription
from unit.triggers.virtual import FakeService, run

NOW = 1000.0


def plain_take(waiting: list[Subscription], now: float, most: int) -> list[Subscription]:
    """What ``Queue.take`` is to return, by sorting everybody each time."""
    first, *others = sorted(waiting, key=lambda one: one.due)
    joining = [] if first.alone else [one for one in others if one.joins(now)]
    return [first, *joining][:most]


@settings(max_examples=200, deadline=None)
@given(
    jobs=st.lists(
        st.tuples(
            st.integers(-20, 20),  # asked so long ago, in relation to when it is due
            st.sampled_from([1.0, 10.0, 60.0]),  # interval
            st.booleans(),  # alone
        ),
        max_size=40,
    ),
    gone=st.sets(st.integers(0, 39)),
    most=st.sampled_from([1, 3, 100]),
)
def test_jobs_are_asked_for_in_the_order_in_which_they_are_due(
    jobs: list[tuple[int, float, bool]], gone: set[int], most: int
) -> None:
    async def main() -> None:
        queue, waiting = Queue(), []
        for number, (due, interval, alone) in enumerate(jobs):
            one = Subscription(f"job-{number}", interval, 600.0)
            one.due, one.asked, one.alone = NOW + due, NOW + due - interval, alone
            queue.add(one)
            waiting.append(one)
        for one in [one for number, one in enumerate(waiting) if number in gone]:
            queue.remove(one)
            waiting.remove(one)
        while waiting:
            assert queue.next_due == min(one.due for one in waiting)
            batch = queue.take(NOW, most)
            assert batch == plain_take(waiting, NOW, most)
            waiting = [one for one in waiting if one not in batch]
        assert queue.next_due == math.inf

    run(main)


@contextmanager
def reads_of_due() -> Iterator[list[int]]:
    """Count how often anybody looks when a subscription is due."""
    slot: Any = Subscription.due
    reads = [0]

    def read(one: Subscription) -> float:
        reads[0] += 1
        due: float = slot.__get__(one)
        return due

    with mock.patch.object(Subscription, "due", property(read, slot.__set__)):
        yield reads


class OneByOne(FakeService):
    """A service that is asked for one job at a time."""

    ids_per_request: ClassVar[int] = 1


@pytest.mark.parametrize("service_class", [OneByOne, FakeService])
def test_asking_for_a_job_costs_the_same_however_many_wait(service_class: type[FakeService]) -> None:
    jobs = 2000
    service = service_class(ends=dict.fromkeys((f"job-{n}" for n in range(jobs)), math.inf))

    async def main() -> None:
        shared = shared_poller(service)
        for job in service.ends:
            shared.subscribe(job, 10.0, 600.0)
        await asyncio.sleep(100)

    with reads_of_due() as reads:
        run(main)
    asked = sum(len(ids) for _, ids in service.requests)
    assert asked >= 10 * jobs
    assert reads[0] <= asked * 2 * math.log2(jobs)
