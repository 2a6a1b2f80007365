"""
Base class of the triggers of this package: wait for the end of one job, and say that it has ended.

What became of the job is for the worker to find out, which asks the service again when it resumes.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, TypedDict

from airflow.triggers.base import BaseTrigger, TriggerEvent

from airflow_provider_durable.resumable.compat import log_event
from airflow_provider_durable.resumable.exceptions import StatusUnavailableError
from airflow_provider_durable.resumable.parameters import seconds_of
from airflow_provider_durable.resumable.record import utcnow
from airflow_provider_durable.triggers.kill import TRIGGERER_CALLS_ON_KILL, is_still_deferred
from airflow_provider_durable.triggers.poller import shared_poller

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.triggers.service import JobService

    class WaitOptions(TypedDict, total=False):
        """How to wait: what a trigger hands through to ``JobTrigger``."""

        poll_interval: float | timedelta
        deadline: datetime | str | None
        cancel_on_kill: bool
        poll_error_window: float | timedelta


#: Cancellations under way. The loop itself only holds weak references to its tasks.
_cancelling: set[asyncio.Future[None]] = set()
#: Seconds before each attempt to cancel a job; Airflow gives ``on_kill`` 30 seconds in all.
_CANCEL_PAUSES = (0.0, 1.0, 3.0)


class JobTrigger(BaseTrigger):
    """
    Waits for the end of one job.

    **Purpose:** a deferred task costs its triggerer next to nothing, and its job outlives the triggerer.

    **How it works:** all triggers of one event loop whose ``service`` has the same key share one poller.
    The event is a dictionary with ``external_id``, ``message``, ``deadline`` and ``status``:

    - ``success``, ``failed``, ``unknown``: the job has ended so, or the service does not know it
    - ``timeout``: the deadline has passed, the job goes on
    - ``error``: the job cannot be watched any longer; the next try reconnects

    A failing status request is repeated until none has succeeded for ``poll_error_window``; throttling
    ends no wait. The job is cancelled when a person marks or clears the task, never because a triggerer
    stops or restarts: the next one begins where this one was, with the same deadline.

    **What it does not do:** it reads no result and no log.

    **Known limitation:** below Airflow 3.3, the state of the task tells a person's action from a
    shutdown. If it cannot be read in time, the job is left running.

    :param external_id: the job's external id
    :param poll_interval: seconds, or a timedelta, between two requests; a finished job is reported no
        later than this after its end
    :param deadline: when to stop waiting, aware, or as ``isoformat()``; None waits without end
    :param cancel_on_kill: whether a person's kill cancels the job
    :param poll_error_window: for how long requests may fail in a row; seconds or a timedelta
    """

    #: The task learns from the event which job it is about, and needs no store for that.
    event_names_job: ClassVar[bool] = True

    def __init__(
        self,
        *,
        external_id: JsonValue,
        poll_interval: float | timedelta = 30,
        deadline: datetime | str | None = None,
        cancel_on_kill: bool = True,
        poll_error_window: float | timedelta = 600,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        if isinstance(external_id, (dict, list)):
            raise TypeError(
                f"{type(self).__name__}: external_id={external_id!r} cannot be the name of a status in an "
                "answer for many jobs. Make it text, or a number."
            )
        self.external_id = external_id
        self.poll_interval = seconds_of(poll_interval)
        self.deadline = datetime.fromisoformat(deadline) if isinstance(deadline, str) else deadline
        self.cancel_on_kill = cancel_on_kill
        self.poll_error_window = seconds_of(poll_error_window)

    @abstractmethod
    def service(self) -> JobService:
        """Return what to ask. Called on the event loop: it must not block."""

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class and the JSON parameters that make this trigger anew on any triggerer."""
        cls = type(self)
        return f"{cls.__module__}.{cls.__qualname__}", self.parameters()

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON: ids and numbers, never a credential."""
        return {
            "external_id": self.external_id,
            "poll_interval": self.poll_interval,
            "deadline": self._deadline_text,
            "cancel_on_kill": self.cancel_on_kill,
            "poll_error_window": self.poll_error_window,
        }

    @property
    def _deadline_text(self) -> str | None:
        return self.deadline.isoformat() if self.deadline else None

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield one event, as described on the class."""
        try:
            status, message = await self._wait()
        except asyncio.CancelledError:
            if not TRIGGERER_CALLS_ON_KILL and not await is_still_deferred(self.task_instance):
                await self.on_kill()
            raise
        yield TriggerEvent(self.event(status, message))  # type: ignore[no-untyped-call]

    def event(self, status: str, message: str) -> dict[str, Any]:
        """Return what the event says."""
        return {
            "status": status,
            "external_id": self.external_id,
            "message": message,
            "deadline": self._deadline_text,
        }

    async def _wait(self) -> tuple[str, str]:
        """Return the event's status and message."""
        left = None if self.deadline is None else (self.deadline - utcnow()).total_seconds()
        poller = shared_poller(self.service())
        subscription = poller.subscribe(self.external_id, self.poll_interval, self.poll_error_window)
        try:
            await asyncio.wait({subscription.ended}, timeout=left)
        finally:
            poller.unsubscribe(subscription)
        if not subscription.ended.done():
            return "timeout", f"The deadline, {self.deadline}, has passed"
        status = subscription.ended.result()
        if isinstance(status, StatusUnavailableError):
            return "error", str(status)
        if status is None:
            return "unknown", f"Job {self.external_id} is not known to the service"
        succeeded = poller.service.is_succeeded(status)
        return "success" if succeeded else "failed", f"Job {self.external_id} has ended: {status}"

    async def on_kill(self) -> None:
        """Cancel the job: a person ended or cleared the task. Airflow 3.3 calls it for nothing else."""
        if not self.cancel_on_kill:
            log_event(self.log, "warning", "The job is left running", external_id=self.external_id)
            return
        # A task of its own, which goes on: Airflow 3.3's triggerer cancels a killed trigger again, also in
        # the middle of on_kill, at every round until it is gone.
        cancelling = asyncio.ensure_future(self._cancel_job())
        _cancelling.add(cancelling)
        cancelling.add_done_callback(_cancelling.discard)
        await asyncio.shield(cancelling)

    async def _cancel_job(self) -> None:
        log_event(self.log, "info", "Cancelling the job", external_id=self.external_id)
        poller = shared_poller(self.service())
        for attempt, pause in enumerate(_CANCEL_PAUSES, start=1):
            await asyncio.sleep(pause)
            try:
                await poller.cancel(self.external_id, self._reason())
            except Exception as error:
                if attempt == len(_CANCEL_PAUSES):
                    raise
                cause = f"{type(error).__name__}: {error}"
                log_event(self.log, "warning", "Cancelling the job failed, trying again", cause=cause)
            else:
                return

    def _reason(self) -> str:
        ti: Any = self.task_instance
        return "Task stopped by Airflow" + (f": {ti.dag_id}.{ti.task_id}, run {ti.run_id}" if ti else "")
