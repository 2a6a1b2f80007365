"""
The shared poller: all triggers of one event loop that wait for jobs of one service, reached with one
connection, ask together, in requests as large as the service allows. It knows no service.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import random
import threading
from collections import deque
from collections.abc import Container, Hashable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from asgiref.sync import sync_to_async

from airflow_provider_durable.resumable.compat import log_event
from airflow_provider_durable.resumable.exceptions import ServiceThrottledError, StatusUnavailableError
from airflow_provider_durable.triggers.service import RequestRejectedError
from airflow_provider_durable.triggers.subscriptions import Queue, Subscription

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.triggers.service import JobService

log = logging.getLogger(__name__)

#: Longest pause, in seconds, while the service throttles.
MAX_PAUSE = 60.0
#: Seconds after the last subscription for which the connection is kept, for the next one.
LINGER_SECONDS = 60.0
#: So many parts of one request refused, or failed otherwise, and none answered: it is not about its ids.
MAX_REFUSED_PARTS = 15
MAX_FAILED_PARTS = 3


def _jitter(least: float = 0.9) -> float:
    """Return a share of a pause. It makes pollers that began together ask apart, and nobody wait longer."""
    return random.uniform(least, 1.0)  # noqa: S311 - no secret


@dataclass
class _Parts:
    """What became of the parts of one request that failed."""

    failed: int = 0
    answered: int = 0


@dataclass
class _Request:
    """Jobs that are asked for together."""

    subscriptions: list[Subscription]
    parts: _Parts = field(default_factory=_Parts)
    started: float = 0.0

    def halves(self) -> Iterable[_Request]:
        middle = len(self.subscriptions) // 2
        for half in (self.subscriptions[:middle], self.subscriptions[middle:]):
            yield _Request(half, self.parts)


class Poller:
    """
    Asks one service about the jobs of all its subscriptions.

    Nobody is asked for later than its own interval after the last time; requests are filled up with jobs
    that would be due soon, so that subscriptions which began apart come to ask together: N jobs of one
    interval take N divided by ``ids_per_request`` requests, rounded up. A failing request is repeated
    after 1, 2, 4, … seconds, up to the interval of its jobs. One that is refused, or fails again, is
    taken apart until the jobs it is not about have their answer. Throttling makes everyone wait. Driven
    by callbacks on the loop: there is no task that could be lost.

    :param service: what to ask
    """

    def __init__(self, service: JobService) -> None:
        self.service = service
        self._loop = asyncio.get_running_loop()
        # Not the context of whichever trigger comes first: it would get everybody's log lines.
        self._context = contextvars.Context()
        self._executor = ThreadPoolExecutor(service.concurrent_requests, "durable-poll")
        self._subscriptions: set[Subscription] = set()
        #: Of these, those who are in no request.
        self._queue = Queue()
        self._parts: deque[_Request] = deque()
        self._under_way: set[asyncio.Task[Mapping[JsonValue, str]]] = set()
        self._throttled = 0
        self._throttled_at = self._quiet_until = float("-inf")
        self._timer: asyncio.TimerHandle | None = None
        self._idle_timer: asyncio.TimerHandle | None = None
        self._rest()

    # -- who waits -----------------------------------------------------------------------------

    def subscribe(self, external_id: JsonValue, interval: float, error_window: float) -> Subscription:
        """
        Begin to ask for a job, and return the subscription; its ``ended`` is to be awaited.

        :param external_id: the job's external id
        :param interval: seconds between two requests for it, at most
        :param error_window: seconds for which these may fail in a row
        """
        subscription = Subscription(external_id, interval, error_window)
        self._subscriptions.add(subscription)
        self._queue.add(subscription)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
            self._idle_timer = None
        self._wake_at(max(subscription.due, self._quiet_until))
        return subscription

    def unsubscribe(self, subscription: Subscription) -> None:
        """Ask for it no more."""
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            if not subscription.in_flight:
                self._queue.remove(subscription)
        if not self._subscriptions:
            self._rest()

    async def cancel(self, external_id: JsonValue, reason: str) -> None:
        """Have the service stop a job. Not among the status requests' threads: it is not to wait."""
        await sync_to_async(self.service.cancel, thread_sensitive=False)(external_id, reason)

    def _rest(self) -> None:
        """Stop asking; let go of threads and connection if nobody comes back soon."""
        self._parts.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._idle_timer is None:
            self._idle_timer = self._loop.call_later(LINGER_SECONDS, self.close, context=self._context)

    def close(self) -> None:
        """Let go of threads and connection. Requests under way end in their own time."""
        with _lock:
            of_loop = _pollers.get(self._loop, {})
            if of_loop.get(self.service.key) is self:
                del of_loop[self.service.key]
        self._executor.shutdown(wait=False, cancel_futures=True)

    # -- when to ask ---------------------------------------------------------------------------

    def _wake_at(self, when: float) -> None:
        if self._timer is not None:
            if self._timer.when() <= when:
                return
            self._timer.cancel()
        self._timer = self._loop.call_at(when, self._wake, context=self._context)

    def _wake(self) -> None:
        """Send what is due, as far as that is allowed, and come back when the next one is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._loop.time()
        while now >= self._quiet_until and len(self._under_way) < self._allowed():
            if self._parts:
                part = self._parts.popleft()
                part.subscriptions = [s for s in part.subscriptions if s in self._subscriptions]
                if part.subscriptions:
                    self._send(part, now)
            elif self._queue.next_due <= now:
                batch = self._queue.take(now, self.service.ids_per_request)
                for subscription in batch:
                    subscription.in_flight = True
                self._send(_Request(batch), now)
            else:
                break
        # With all requests under way, the next answer wakes us.
        if len(self._under_way) < self._allowed():
            due = now if self._parts else self._queue.next_due
            if due < float("inf"):
                self._wake_at(max(due, self._quiet_until))

    def _allowed(self) -> int:
        """While the service throttles, one request finds out whether it still does."""
        return 1 if self._throttled else self.service.concurrent_requests

    def _send(self, request: _Request, now: float) -> None:
        request.started = now
        ids = list(dict.fromkeys(subscription.external_id for subscription in request.subscriptions))
        # asgiref's threads, because on Airflow 3.1 only from these a connection can be looked up.
        ask = sync_to_async(self.service.ask, thread_sensitive=False, executor=self._executor)
        task = self._loop.create_task(ask(ids))
        self._under_way.add(task)
        task.add_done_callback(partial(self._answered, request), context=self._context)

    # -- what was answered ---------------------------------------------------------------------

    def _answered(self, request: _Request, task: asyncio.Task[Mapping[JsonValue, str]]) -> None:
        self._under_way.discard(task)
        if task.cancelled():
            return  # the loop is being closed
        now = self._loop.time()
        error = task.exception()
        if error is None:
            try:
                ended = {status for status in task.result().values() if not self.service.is_active(status)}
            except Exception as unread:  # noqa: BLE001 - an author's code: nobody else may wait for ever
                error = unread
        if error is None:
            request.parts.answered += 1
            self._on_success(request, task.result(), ended)
        elif isinstance(error, ServiceThrottledError):
            self._on_throttled(request, error, now)
        else:
            self._on_failure(request, error, now)
        if self._subscriptions:
            self._wake()
        else:
            self._rest()

    def _on_success(
        self, request: _Request, statuses: Mapping[JsonValue, str], ended: Container[str]
    ) -> None:
        self._throttled = 0
        jitter = _jitter()
        for subscription in self._of(request):
            if subscription.failing_since is not None:
                subscription.report("info", "The job's status can be read again")
            subscription.failing_since, subscription.failures = None, 0
            subscription.alone = False
            subscription.asked = request.started
            status = statuses.get(subscription.external_id)
            if status is not None and status in ended:
                self._end(subscription, status)
                continue
            pause = subscription.interval
            if status is None:
                if subscription.missing_since is None:
                    subscription.missing_since = request.started
                missing_for = request.started - subscription.missing_since
                if missing_for >= self.service.visible_after:
                    self._end(subscription, None)
                    continue
                pause = min(pause, self.service.visible_after - missing_for)
            else:
                subscription.missing_since = None
                pause *= jitter
            self._ask_at(subscription, request.started + pause)

    def _on_throttled(self, request: _Request, error: BaseException, now: float) -> None:
        # Requests that left together are throttled together: that counts once.
        if request.started > self._throttled_at:
            self._throttled += 1
            self._throttled_at = now
            self._quiet_until = now + _jitter(0.5) * min(2.0**self._throttled, MAX_PAUSE)
            fields = {"cause": str(error), "pause_seconds": round(self._quiet_until - now, 1)}
            log_event(log, "info", "The service asks for fewer requests", **fields)
        for subscription in self._of(request):
            # The service is evidently alive.
            subscription.failing_since, subscription.failures = None, 0
            self._ask_at(subscription, subscription.due)

    def _on_failure(self, request: _Request, error: BaseException, now: float) -> None:
        parts, jobs = request.parts, request.subscriptions
        parts.failed += 1
        rejected = isinstance(error, RequestRejectedError)
        enough = MAX_REFUSED_PARTS if rejected else MAX_FAILED_PARTS
        may_be_its_ids = rejected or any(subscription.failures for subscription in jobs)
        if may_be_its_ids and len(jobs) > 1 and (parts.answered or parts.failed < enough):
            self._parts.extend(request.halves())
            return
        # From now on, nobody else is to suffer from it.
        alone = len(jobs) == 1 and (rejected or parts.answered > 0)
        cause = f"{type(error).__name__}: {error}"
        jitter = _jitter()
        for subscription in self._of(request):
            subscription.alone |= alone
            if subscription.failing_since is None:
                subscription.failing_since = now
                subscription.report("warning", "Asking for the job's status failed", cause=cause)
            failing_for = now - subscription.failing_since
            if failing_for > subscription.error_window:
                since, window = (
                    timedelta(seconds=round(s)) for s in (failing_for, subscription.error_window)
                )
                self._end(
                    subscription,
                    StatusUnavailableError(
                        f"The job's status could not be read for {since}, longer than "
                        f"poll_error_window={window}. The job may still be running. Last error: {cause}"
                    ),
                )
                continue
            pause = min(subscription.interval, 2.0 ** min(subscription.failures, 16))
            subscription.failures += 1
            self._ask_at(subscription, now + pause * jitter)

    def _of(self, request: _Request) -> list[Subscription]:
        """Return who still waits for an answer to the request; each is to be asked for again, or ended."""
        for subscription in request.subscriptions:
            subscription.in_flight = False
        return [s for s in request.subscriptions if s in self._subscriptions]

    def _ask_at(self, subscription: Subscription, due: float) -> None:
        subscription.due = due
        self._queue.add(subscription)

    def _end(self, subscription: Subscription, result: str | StatusUnavailableError | None) -> None:
        self._subscriptions.discard(subscription)
        if not subscription.ended.done():
            subscription.ended.set_result(result)


#: By loop and key. A loop may be closed without a word; its pollers go when the next one is asked for.
_pollers: dict[asyncio.AbstractEventLoop, dict[Hashable, Poller]] = {}
_lock = threading.RLock()


def shared_poller(service: JobService) -> Poller:
    """Return the poller of the running loop for ``service``, or for the one with the same ``key``."""
    loop = asyncio.get_running_loop()
    with _lock:
        for other in [other for other in _pollers if other.is_closed()]:
            for poller in list(_pollers.pop(other).values()):
                poller.close()
        of_loop = _pollers.setdefault(loop, {})
        if service.key not in of_loop:
            of_loop[service.key] = Poller(service)
        return of_loop[service.key]
