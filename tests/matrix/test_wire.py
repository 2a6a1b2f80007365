"""What can happen to a call, and that nothing of a dead process reaches anybody."""

from __future__ import annotations

from typing import Any

import pytest

from matrix.actions import (
    AnswerLost,
    CrashAfter,
    CrashBefore,
    Outage,
    OutageAfter,
    ServerErrorAfter,
    ServerErrorBefore,
    TimedOut,
)
from matrix.wire import MOST_CALLS, Crash, Transport, Wire


class Words(Transport):
    """A transport whose errors are words."""

    def lost(self) -> BaseException:
        return ConnectionError("lost")

    def refused(self) -> BaseException:
        return ConnectionError("refused")

    def timed_out(self) -> BaseException:
        return TimeoutError("late")

    def error(self, status: int) -> Any:
        return status


class Service:
    """Counts what reaches it."""

    def __init__(self) -> None:
        self.calls = 0

    def answer(self) -> str:
        self.calls += 1
        return "answer"


def strike(action: Any) -> tuple[Wire, Service]:
    """Return a wire on which ``action`` happens to the second call of the first process."""
    wire, service = Wire(), Service()
    wire.begin({(0, 1): action})
    wire.start_process("task")
    assert wire.call("first", service.answer, Words()) == "answer"
    return wire, service


@pytest.mark.parametrize(("action", "carried_out"), [(CrashBefore(), 1), (CrashAfter(), 2)])
def test_a_dead_process_reaches_nobody(action: Any, carried_out: int) -> None:
    wire, service = strike(action)
    with pytest.raises(Crash):
        wire.call("second", service.answer, Words())
    for _ in range(2):
        with pytest.raises(Crash):
            wire.call("in its finally", service.answer, Words())
        with pytest.raises(Crash):
            wire.sleeping(1.0)
    assert service.calls == carried_out

    wire.start_process("task")
    assert wire.call("of the next one", service.answer, Words()) == "answer"


@pytest.mark.parametrize(
    ("action", "error", "carried_out"), [(AnswerLost(), ConnectionError, 2), (TimedOut(), TimeoutError, 2)]
)
def test_an_answer_gets_lost_after_the_service_acted(
    action: Any, error: type[Exception], carried_out: int
) -> None:
    wire, service = strike(action)
    with pytest.raises(error):
        wire.call("second", service.answer, Words())
    assert service.calls == carried_out


@pytest.mark.parametrize(("action", "carried_out"), [(ServerErrorAfter(), 2), (ServerErrorBefore(), 1)])
def test_a_server_error_comes_with_or_without_the_act(action: Any, carried_out: int) -> None:
    wire, service = strike(action)
    assert wire.call("second", service.answer, Words()) == 503
    assert service.calls == carried_out


def test_an_outage_lasts_as_long_as_the_process() -> None:
    wire, service = strike(Outage())
    wire.call("second", service.answer, Words())
    assert wire.process is not None
    assert wire.process.service_down

    wire, service = strike(OutageAfter())
    with pytest.raises(ConnectionError, match="lost"):
        wire.call("second", service.answer, Words())
    assert service.calls == 2
    assert not wire.start_process("task").service_down


def test_what_goes_round_in_circles_is_ended() -> None:
    wire, service = strike(None)
    for _ in range(MOST_CALLS):
        wire.call("again", service.answer, Words())
    with pytest.raises(Crash):
        wire.call("again", service.answer, Words())
    assert "calls without end" in wire.stuck


def test_what_no_process_calls_is_nobodys_point() -> None:
    wire, service = strike(CrashBefore())
    wire.end_process()
    assert wire.call("of the test", service.answer, Words()) == "answer"
    assert wire.processes[0].calls == ["first"]


def test_what_no_call_came_by_has_not_happened() -> None:
    wire, service = strike(AnswerLost())
    assert wire.not_met == {(0, 1)}
    with pytest.raises(ConnectionError):
        wire.call("second", service.answer, Words())
    assert wire.not_met == set()
