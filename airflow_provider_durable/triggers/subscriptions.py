"""Those who wait for the shared poller's answers, and the order in which they are asked for."""

from __future__ import annotations

import asyncio
import contextvars
import logging
from bisect import bisect_left, insort
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING

from airflow_provider_durable.resumable.compat import log_event

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.exceptions import StatusUnavailableError

log = logging.getLogger(__name__)

#: Seconds in which new subscriptions gather for a first request.
GATHER_SECONDS = 1.0
_due = attrgetter("due")


class Subscription:
    """
    One trigger's wait for the end of one job.

    :param external_id: the job's external id
    :param interval: seconds between two requests for it, at most
    :param error_window: seconds for which these may fail in a row
    """

    __slots__ = (
        "alone",
        "asked",
        "context",
        "due",
        "ended",
        "error_window",
        "external_id",
        "failing_since",
        "failures",
        "in_flight",
        "interval",
        "missing_since",
    )

    def __init__(self, external_id: JsonValue, interval: float, error_window: float) -> None:
        loop = asyncio.get_running_loop()
        self.external_id = external_id
        self.interval = interval
        self.error_window = error_window
        #: The job's last status; None if the service does not know it; why nobody can say.
        self.ended: asyncio.Future[str | StatusUnavailableError | None] = loop.create_future()
        self.asked = float("-inf")
        self.due = loop.time() + min(interval, GATHER_SECONDS)
        self.in_flight = False
        self.alone = False
        self.failures = 0
        self.failing_since: float | None = None
        self.missing_since: float | None = None
        #: Airflow's logging finds the trigger's own log by it.
        self.context = contextvars.copy_context()

    def joins(self, now: float) -> bool:
        """Return whether it is worth asking for this job in a request that leaves anyway."""
        return not self.alone and (self.due <= now or now - self.asked >= self.interval / 2)

    def report(self, level: str, event: str, **fields: object) -> None:
        """Log in the trigger's own log."""
        self.context.run(partial(log_event, log, level, event, external_id=self.external_id, **fields))


class Queue:
    """
    Those who are to be asked for, by when they are due.

    It stays in order, so that a request costs what it asks for and not what waits: sorting for each would
    make a service that is asked for one job at a time cost the square of the jobs. ``due`` must not change
    while a subscription is in here.
    """

    def __init__(self) -> None:
        self._by_due: list[Subscription] = []

    @property
    def next_due(self) -> float:
        """When the first one is due, on the loop's clock; infinity if nobody waits."""
        return self._by_due[0].due if self._by_due else float("inf")

    def add(self, subscription: Subscription) -> None:
        """Have it asked for when it is due."""
        insort(self._by_due, subscription, key=_due)

    def remove(self, subscription: Subscription) -> None:
        """Take it out again."""
        index = bisect_left(self._by_due, subscription.due, key=_due)
        del self._by_due[self._by_due.index(subscription, index)]

    def take(self, now: float, most: int) -> list[Subscription]:
        """
        Take out who is asked for next: the first one, and who may join it, in the order of when they are due.

        :param now: the time of the loop's clock
        :param most: how many one request can ask for
        """
        batch = self._by_due[:1]
        if not batch[0].alone:
            joining = (other for other in islice(self._by_due, 1, None) if other.joins(now))
            batch.extend(islice(joining, most - 1))
        if batch[-1] is self._by_due[len(batch) - 1]:
            del self._by_due[: len(batch)]
        else:
            taken = set(batch)
            self._by_due = [other for other in self._by_due if other not in taken]
        return batch
