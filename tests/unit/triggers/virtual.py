"""A service that exists in numbers only, and a loop on which an hour of waiting takes no time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar
from unittest import mock

from airflow_provider_durable.triggers import poller
from airflow_provider_durable.triggers.base import JobTrigger
from airflow_provider_durable.triggers.poller import shared_poller
from airflow_provider_durable.triggers.service import JobService

if TYPE_CHECKING:
    from airflow_provider_durable.triggers.subscriptions import Subscription

T = TypeVar("T")
FOREVER = 1e9


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose clock jumps to the next thing to do."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        select = self._selector.select

        def jump(timeout: float | None = None) -> Any:
            events = select(0)
            if not events:
                if timeout is None:
                    raise AssertionError("everybody waits for something that will never happen")
                self._now += timeout
            return events

        self._selector.select = jump

    def time(self) -> float:
        return self._now


@dataclass
class FakeService(JobService):
    """
    Jobs by id and the moment of their end; requests take ``latency`` seconds of the loop's time.

    ``plan`` is asked before each request, with its number and ids, and may raise.
    """

    name: str = "service"
    ends: dict[str, float] = field(default_factory=dict)
    latency: float = 0.0
    plan: Callable[[int, Sequence[Any]], None] = lambda number, ids: None
    requests: list[tuple[float, list[str]]] = field(default_factory=list)
    cancelled: list[tuple[str, str]] = field(default_factory=list)
    refusals: list[Exception] = field(default_factory=list)

    ids_per_request = 100
    visible_after = 15.0

    @property
    def key(self) -> Hashable:
        return self.name

    def ask(self, external_ids: Sequence[Any]) -> Mapping[Any, str]:
        now = asyncio.get_running_loop().time()
        assert len(external_ids) <= self.ids_per_request
        self.requests.append((now, list(external_ids)))
        self.plan(len(self.requests), external_ids)
        return {
            job: "SUCCEEDED" if now >= self.ends[job] else "RUNNING"
            for job in external_ids
            if job in self.ends
        }

    def is_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def cancel(self, external_id: Any, reason: str) -> None:
        if self.refusals:
            raise self.refusals.pop(0)
        self.cancelled.append((external_id, reason))

    def asked(self, job: str) -> list[float]:
        """Return when there was a request for ``job``."""
        return [at for at, ids in self.requests if job in ids]

    def between(self, start: float, end: float) -> int:
        """Return the number of requests from ``start`` up to ``end``."""
        return sum(start <= at < end for at, _ in self.requests)


class FakeTrigger(JobTrigger):
    """A trigger on a ``FakeService``."""

    services: ClassVar[dict[str, FakeService]] = {}

    def __init__(self, service: str = "service", **parameters: Any) -> None:
        super().__init__(**parameters)
        self.service_name = service

    def parameters(self) -> dict[str, Any]:
        return {"service": self.service_name, **super().parameters()}

    def service(self) -> FakeService:
        return self.services[self.service_name]


@contextmanager
def virtual_requests() -> Iterator[None]:
    """Have requests take virtual time, on the loop, instead of real time in a thread."""

    def in_no_thread(function: Callable[..., T], **_: Any) -> Callable[..., Coroutine[Any, Any, T]]:
        async def call(*arguments: Any) -> T:
            latency = getattr(getattr(function, "__self__", None), "latency", 0.0)
            await asyncio.sleep(latency / 2)
            try:
                return function(*arguments)
            finally:
                await asyncio.sleep(latency / 2)

        return call

    with mock.patch.object(poller, "sync_to_async", in_no_thread):
        yield


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``main()`` in virtual time; as ``asyncio.run``, it ends what is left."""
    loop = VirtualLoop()
    try:
        with virtual_requests():
            return loop.run_until_complete(main())
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.wait({task}))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()


async def event_of(trigger: JobTrigger) -> dict[str, Any]:
    """Return what the trigger's only event says."""
    events = [event.payload async for event in trigger.run()]
    assert len(events) == 1
    return events[0]


def running(count: int, **options: Any) -> FakeService:
    """A service with ``count`` jobs that do not end."""
    return FakeService(ends={f"job-{n}": FOREVER for n in range(count)}, **options)


def subscribe(service: FakeService, interval: float = 10.0, window: float = 600.0) -> list[Subscription]:
    return [shared_poller(service).subscribe(job, interval, window) for job in service.ends]
