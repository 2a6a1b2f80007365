"""A triggerer with one trigger: made from what Airflow stored of it, run, and ended as Airflow ends it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.triggers.base import JobTrigger
from matrix.wire import Supervisor
from unit.triggers.virtual import VirtualLoop, virtual_requests

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from matrix.airflow import Life
    from matrix.clock import Clock


class TriggererLoop(VirtualLoop):
    """An event loop that moves the clock on to the next thing to do."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        super().__init__()

    @property
    def _now(self) -> float:
        return time.monotonic()

    @_now.setter
    def _now(self, value: float) -> None:
        self._clock.advance(value - time.monotonic())


class Triggerer:
    """
    One process of a triggerer.

    :param life: the task instance that is deferred
    """

    def __init__(self, life: Life) -> None:
        self._life = life
        self._wire = life.wire
        with life.instance() as (ti, _):
            self._trigger_id = ti.trigger_id
            self._identity = SimpleNamespace(
                dag_id=ti.dag_id, task_id=ti.task_id, run_id=ti.run_id, map_index=-1, try_number=ti.try_number
            )

    def run(self) -> None:
        """
        Run the trigger and hand its event on.

        A stop, asked for by ``wire.stop_triggerer``, ends it before: with ``on_kill`` if a person acted on
        the task, without if the triggerer goes away.
        """
        trigger = self._load()
        is_ours = isinstance(trigger, JobTrigger)
        # Apache's triggers wait for sockets, which cannot be hurried; they pause in asyncio.sleep alone.
        loop = TriggererLoop(self._life.clock) if is_ours else asyncio.new_event_loop()
        # A request on the loop's thread, not on another: who sends it makes no difference to the service.
        requests: AbstractContextManager[Any] = virtual_requests() if is_ours else contextlib.nullcontext()
        try:
            with requests:
                loop.run_until_complete(self._main(trigger))
        finally:
            if self._wire.process is not None:
                self._wire.process.dead = True
            for task in asyncio.all_tasks(loop):
                task.cancel()
                with contextlib.suppress(BaseException):
                    loop.run_until_complete(task)
            loop.close()

    def _load(self) -> Any:
        from airflow.models.trigger import Trigger
        from airflow.sdk._shared.module_loading import import_string
        from airflow.utils.session import create_session

        with create_session() as session:
            stored = session.get(Trigger, self._trigger_id)
            trigger = import_string(stored.classpath)(**stored.kwargs)
        trigger.task_instance = self._identity
        return trigger

    async def _main(self, trigger: Any) -> None:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        person_acted = False

        def stop_triggerer(by_person: bool) -> None:
            nonlocal person_acted
            person_acted = by_person
            loop.call_soon_threadsafe(stop.set)

        self._wire.on_crash = lambda: stop_triggerer(False)
        self._wire.stop_triggerer = stop_triggerer
        self._wire.call("trigger starts", lambda: None, Supervisor())
        event = asyncio.ensure_future(_first_event(trigger))
        stopped = asyncio.ensure_future(stop.wait())
        await asyncio.wait({event, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if stop.is_set():
            event.cancel()
            if person_acted:
                # As Airflow's TriggerRunner.run_trigger does it.
                with contextlib.suppress(Exception):
                    await trigger.on_kill()
            return
        self._submit(event)

    def _submit(self, event: asyncio.Future[Any]) -> None:
        from airflow.models.trigger import Trigger

        error = event.exception()
        if error is not None and not isinstance(error, Exception):
            raise error

        def submit() -> None:
            if error is not None:
                Trigger.submit_failure(self._trigger_id)
            else:
                Trigger.submit_event(self._trigger_id, event.result())

        self._wire.call("trigger event", submit, Supervisor())


async def _first_event(trigger: Any) -> Any:
    async for event in trigger.run():
        return event
    raise RuntimeError("the trigger ended without an event")
