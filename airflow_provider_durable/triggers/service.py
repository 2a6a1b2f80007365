"""What the shared poller has to know of a service: how to ask about many jobs in one request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from airflow_provider_durable.resumable.compat import AirflowException

if TYPE_CHECKING:
    from pydantic import JsonValue


class RequestRejectedError(AirflowException):
    """
    The service refused a request for what is in it.

    Raise it from ``JobService.ask``. One of the ids may be to blame, so the poller asks again in halves
    until the others have their answer.
    """


class JobService(ABC):
    """
    One service, asked with one connection.

    Cheap to make: clients are created in ``ask`` and ``cancel``, which may block, run in threads, several
    at a time, and are never called on the event loop.
    """

    #: How many jobs one request can ask about.
    ids_per_request: ClassVar[int] = 1
    #: Requests under way at a time. Where each asks about one job, it takes more of them to be in time.
    concurrent_requests: ClassVar[int] = 4
    #: Seconds for which a job that was accepted may not be visible yet. One that stays out of all answers
    #: for as long is unknown to the service.
    visible_after: ClassVar[float] = 0.0

    @property
    @abstractmethod
    def key(self) -> Hashable:
        """What it has in common with the services that can be asked together with it."""

    @abstractmethod
    def ask(self, external_ids: Sequence[JsonValue]) -> Mapping[JsonValue, str]:
        """
        Return the status of each job; a job that the service does not know is left out.

        :param external_ids: up to ``ids_per_request`` of them
        :raises ServiceThrottledError: the service wants fewer requests; never ends a wait
        :raises RequestRejectedError: one of the ids may be what the service does not accept
        :raises Exception: the request failed, which says nothing about the jobs
        """

    @abstractmethod
    def is_active(self, status: str) -> bool:
        """Return whether a job of this status has not ended."""

    @abstractmethod
    def is_succeeded(self, status: str) -> bool:
        """Return whether a job of this status has succeeded."""

    @abstractmethod
    def cancel(self, external_id: JsonValue, reason: str) -> None:
        """
        Stop a job; safe to call twice, and for a job that has ended.

        :param external_id: the job's external id
        :param reason: for the service's records, where it keeps them
        """
