"""What can happen to a call: the process dies before or after it, an answer gets lost, a stop comes first."""

from __future__ import annotations

import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from matrix.wire import Transport, Wire

    Perform = Callable[[], Any]


class Action(ABC):
    """Something that happens to one call."""

    #: Whether the call is carried out before the action strikes.
    performs: ClassVar[bool] = False
    #: What it is called in a cell's name.
    title: ClassVar[str]

    @abstractmethod
    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        """Happen to a call; return its answer, if it gets one."""


class CrashBefore(Action):
    """The process dies before the call leaves it."""

    title = "killed before"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        wire.crash()


class CrashAfter(Action):
    """The process dies after the call was carried out, before its answer arrives."""

    performs = True
    title = "killed after"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        perform()
        wire.crash()


class AnswerLost(Action):
    """The service acts, and the connection breaks before its answer arrives."""

    performs = True
    title = "answer lost"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        perform()
        raise transport.lost()


class TimedOut(Action):
    """The service acts, and its answer does not come in time."""

    performs = True
    title = "timeout"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        perform()
        raise transport.timed_out()


class ServerErrorAfter(Action):
    """The service acts, and answers that it failed."""

    performs = True
    title = "503 although it acted"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        perform()
        return transport.error(503)


class ServerErrorBefore(Action):
    """The service fails and does nothing."""

    title = "503"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        return transport.error(503)


class Outage(Action):
    """The service cannot be reached from now on, until the process ends."""

    title = "unreachable from here on"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        assert wire.process is not None
        wire.process.service_down = True
        return perform()


class OutageAfter(Action):
    """The service acts, and neither its answer nor anything else arrives until the process ends."""

    performs = True
    title = "answer lost, then unreachable"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        assert wire.process is not None
        perform()
        wire.process.service_down = True
        raise transport.lost()


#: What a request of the operator may meet.
FAULTS: tuple[type[Action], ...] = (
    AnswerLost,
    TimedOut,
    ServerErrorAfter,
    ServerErrorBefore,
    Outage,
    OutageAfter,
)


@dataclass(frozen=True)
class Stop(Action):
    """
    The process is told to stop before the call leaves it.

    :param act: what has happened at Airflow
    :param by_person: whether a person did it, which is all that a triggerer is told
    :param number: the signal to a task's process
    :param kill_after: seconds until SIGKILL follows
    """

    act: Callable[[], None]
    by_person: bool
    number: signal.Signals = signal.SIGTERM
    kill_after: float = 5.0

    title = "stopped before"

    def strike(self, wire: Wire, name: str, perform: Perform, transport: Transport) -> Any:
        process = wire.process
        assert process is not None
        self.act()
        if process.kind == "triggerer":
            wire.stop_triggerer(self.by_person)
        elif self.number == signal.SIGALRM:
            # Airflow's timer runs only while the operator does.
            if signal.getitimer(signal.ITIMER_REAL)[0]:
                signal.raise_signal(self.number)
            else:
                wire.not_met.add((process.number, len(process.calls) - 1))
        else:
            process.kill_at = time.monotonic() + self.kill_after
            signal.raise_signal(self.number)
        return perform()
