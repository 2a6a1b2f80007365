"""The stop table: why a process is told to stop, and what that means for its job."""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from matrix.actions import Stop
from matrix.cell import Expectation

if TYPE_CHECKING:
    from matrix.airflow import Life

#: Seconds from SIGTERM to SIGKILL: Airflow's, after a person's click, and Kubernetes' default.
PERSON_GRACE, EVICTION_GRACE = 5.0, 30.0
FOREVER = timedelta(days=1)


@dataclass(frozen=True)
class Reason:
    """
    One line of the stop table.

    :param title: why
    :param act: what happens at Airflow before the signal is sent
    :param expect: how it must end
    :param parameters: of the operator
    :param for_triggerer: whether it can happen to a deferred task
    :param takes_store: whether the task's state store goes, too
    """

    title: str
    act: Callable[[Life], None]
    expect: Expectation
    by_person: bool = False
    number: signal.Signals = signal.SIGTERM
    kill_after: float = PERSON_GRACE
    parameters: Mapping[str, Any] = field(default_factory=dict)
    for_triggerer: bool = True
    takes_store: bool = False

    def stop(self, life: Life) -> Stop:
        """Return what happens to the call at which the stop arrives."""
        return Stop(lambda: self.act(life), self.by_person, self.number, self.kill_after)


def nothing(life: Life) -> None:
    """Nobody has done anything: the worker goes away."""


def api_server_gone(life: Life) -> None:
    """The API server cannot be reached any longer."""
    assert life.wire.process is not None
    life.wire.process.api_down = True


OVER = Expectation(success=None, cancels=1)
ANEW = Expectation(more_jobs=1, cancels=1)

REASONS = (
    Reason("marked failed", lambda life: life.mark("failed"), OVER, by_person=True),
    Reason("marked success", lambda life: life.mark("success"), OVER, by_person=True),
    Reason("run deleted", lambda life: life.remove(), OVER, by_person=True, takes_store=True),
    Reason("cleared", lambda life: life.clear(), ANEW, by_person=True),
    Reason(
        "execution_timeout",
        nothing,
        ANEW,
        number=signal.SIGALRM,
        parameters={"execution_timeout": FOREVER},
        for_triggerer=False,
    ),
    Reason("evicted, a try is left", nothing, Expectation(), kill_after=EVICTION_GRACE),
    Reason(
        "evicted on the last try",
        nothing,
        OVER,
        kill_after=EVICTION_GRACE,
        parameters={"retries": 0},
        for_triggerer=False,
    ),
    Reason("API server unreachable", api_server_gone, Expectation(), for_triggerer=False),
)
#: For this package's operators only: Apache's have no such parameter, or mean something else by it.
CANCEL_ON_KILL_OFF = (
    Reason(
        "cancel_on_kill=False, marked failed",
        lambda life: life.mark("failed"),
        Expectation(success=None, may_run_on=True),
        by_person=True,
        parameters={"cancel_on_kill": False},
    ),
    Reason(
        "cancel_on_kill=False, evicted",
        nothing,
        Expectation(),
        kill_after=EVICTION_GRACE,
        parameters={"cancel_on_kill": False},
    ),
)
DURABLE_OFF = Reason(
    "durable=False, evicted",
    nothing,
    ANEW,
    kill_after=EVICTION_GRACE,
    parameters={"durable": False},
)
