"""All cases of a row, made from one undisturbed run: its calls are where something can happen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from matrix import stops
from matrix.actions import FAULTS, Action, CrashAfter, CrashBefore
from matrix.cell import Case, Expectation
from matrix.groups import (
    AFTER_ID,
    BEFORE_ID,
    BEFORE_JOB,
    BEFORE_RECORD,
    CLEARED,
    ENDED,
    FAULT,
    LEAVING,
    NOBODY_THERE,
    RESUMING,
    TRIGGERER,
    TWICE,
    WAITING,
)

if TYPE_CHECKING:
    from matrix.airflow import Life
    from matrix.cell import Row
    from matrix.wire import Wire

FINE = Expectation()
#: While no process of the task is there: it goes on, or ends well, or ends badly, which needs another one.
FATES = ("", "success", "failure")
#: When a person's action finds nobody who knows the job.
NOBODY_KNOWS = {"reschedule": "between two polls", "defer": "before a triggerer has taken it"}


@dataclass(frozen=True)
class Point:
    """One call of the undisturbed run."""

    process: int
    call: int
    name: str
    kind: str
    is_request: bool
    #: Which part of a task's life it is, and whether a job runs: before the call, and after it.
    before: str
    after: str
    runs_before: bool
    runs_after: bool
    #: Whether its process has read the job's id before, where an earlier one has stored it.
    knows_job: bool

    @property
    def where(self) -> tuple[int, int]:
        """Its place in a script."""
        return self.process, self.call


class Observer:
    """
    Notes every call of an undisturbed run, and how far the task was.

    :param row: the row
    """

    performs = True

    def __init__(self, row: Row) -> None:
        self._row, self.points = row, []  # type: tuple[Row, list[Point]]
        self._wire = row.wire

    def script(self, life: Life) -> Any:
        """Return a script in which nothing happens but that every call is noted."""
        return _Everywhere(self)

    def strike(self, wire: Wire, name: str, perform: Callable[[], Any], transport: Any) -> Any:
        """Note one call, and carry it out."""
        process = wire.process
        assert process is not None
        call = len(process.calls) - 1
        before = self._phase(name), self._runs()
        answer = perform()
        after = self._phase(name), self._runs()
        self.points.append(
            Point(
                process.number,
                call,
                name,
                process.kind,
                transport.is_request,
                before=before[0],
                after=after[0],
                runs_before=before[1],
                runs_after=after[1],
                knows_job=not process.number or f"store.get {self._row.service.key}" in process.calls[:call],
            )
        )
        return answer

    def _runs(self) -> bool:
        return any(job.running for job in self._row.service.jobs())

    def _phase(self, name: str) -> str:
        process, stored, jobs = self._wire.process, self._wire.stored, self._row.service.jobs()
        assert process is not None
        if process.kind == "triggerer":
            return TRIGGERER
        if process.resumes:
            return RESUMING
        if name in ("DeferTask", "RescheduleTask"):
            return LEAVING
        if jobs and not any(job.running for job in jobs):
            return ENDED
        if not jobs:
            return BEFORE_JOB if stored else BEFORE_RECORD
        if self._row.service.key not in stored:
            return BEFORE_ID
        return WAITING if any(self._row.service.looks.values()) else AFTER_ID


class _Everywhere(dict[tuple[int, int], Action]):
    """A script that has the same action for every call."""

    def __init__(self, observer: Observer) -> None:
        super().__init__()
        self._observer = observer

    def get(self, key: Any, default: Any = None) -> Any:
        return self._observer


def observe(row: Row) -> list[Point]:
    """Run the row's task undisturbed, and return its calls; learn what it returns."""
    observer = Observer(row)
    verdict = row.run(Case("", "undisturbed", FINE, script=observer.script))
    if verdict is None or not verdict.is_kept:
        # Some of Apache's operators return nothing.
        row.returns_id = False
        observer = Observer(row)
        verdict = row.run(Case("", "undisturbed", FINE, script=observer.script))
    if verdict is None or not verdict.is_kept:
        raise RuntimeError(f"{row.name}: not even an undisturbed run works: {verdict}")
    return without_repetition(observer.points)


def without_repetition(points: list[Point]) -> list[Point]:
    """Leave out calls that are made at the same point of a task's life as an earlier one of their name."""
    first: dict[Point, Point] = {}
    for point in points:
        first.setdefault(replace(point, process=0, call=0), point)
    return list(first.values())


def turning_points(points: list[Point]) -> list[Point]:
    """Return all requests, and of the other calls the first in each part of a task's life."""
    first = {(point.kind, point.before, point.after): point for point in reversed(points)}
    return [point for point in points if point.is_request or point in first.values()]


def all_cases(row: Row, points: list[Point]) -> Iterator[Case]:
    """Yield the cases of a row."""
    yield from crashes(row, points)
    yield from crashes_twice(row, points)
    yield from faults(points)
    yield from stop_reasons(row, points)
    yield from clears(row, points)
    if row.way != "poke":
        yield from nobody_there(row)
    if row.side == "ours":
        # Apache's operators are timed by a real clock: see the signal among the stop reasons.
        yield hanging(row)


def crashes(row: Row, points: list[Point]) -> Iterator[Case]:
    """
    A crash between any two calls; at the turning points, too, with each fate of a job that runs.

    After one call is before the next: nobody but the process itself can tell the two apart.
    """
    turning = turning_points(points)
    firsts = {point.process: point for point in reversed(points)}
    for point in points:
        before = (CrashBefore(), point.before, point.runs_before)
        after = (CrashAfter(), point.after, point.runs_after)
        for action, group, runs in (before, after) if point is firsts[point.process] else (after,):
            for fate in FATES if runs and point in turning else FATES[:1]:
                words = f", and the job ends in {fate} meanwhile" if fate else ""
                yield Case(
                    group,
                    f"{point.kind} {action.title} {point.name}{words}",
                    Expectation(more_jobs=1) if fate == "failure" else FINE,
                    script=_once(point.where, action),
                    between=_meanwhile(row, point.process, fate),
                )


def crashes_twice(row: Row, points: list[Point]) -> Iterator[Case]:
    """A crash in each part of a task's life, and one after every call of the process that follows."""
    longest = max(Counter(point.process for point in points).values())
    last_of_part = {point.after: point for point in points}
    for part, point in last_of_part.items():
        if part in (BEFORE_RECORD, ENDED):
            continue  # the second crash is then like a first one
        for call in range(longest):
            yield Case(
                TWICE,
                f"{part}: after {point.name}, and the next one after its call {call + 1}",
                FINE,
                script=_twice(point, call),
                chain=f"{TWICE}: {part}",
            )


def faults(points: list[Point]) -> Iterator[Case]:
    """Everything that can become of a request's answer, for every request."""
    for point in points:
        if point.is_request:
            for fault in FAULTS:
                yield Case(FAULT, f"{point.name}: {fault.title}", FINE, script=_once(point.where, fault()))


def stop_reasons(row: Row, points: list[Point]) -> Iterator[Case]:
    """A stop for every reason before every call."""
    reasons = [*stops.REASONS]
    if row.side == "ours":
        reasons += stops.CANCEL_ON_KILL_OFF
        if row.way != "reschedule" and row.service.can_be_not_durable:
            reasons.append(stops.DURABLE_OFF)
    for reason in reasons:
        for point in turning_points(points):
            if point.kind == "triggerer" and not reason.for_triggerer:
                continue
            # With its run the id goes: a process that has not read it is told, but not of which job.
            is_too_late = row.way == "reschedule" and reason.takes_store and not point.knows_job
            yield Case(
                reason.title,
                f"{reason.title}, before {point.name}",
                reason.expect,
                script=lambda life, reason=reason, point=point: {point.where: reason.stop(life)},
                parameters=reason.parameters,
                known_limitation=NOBODY_KNOWS[row.way] if is_too_late else "",
            )


def clears(row: Row, points: list[Point]) -> Iterator[Case]:
    """A clear while the task has no process: before any job, with one that runs, and after its end."""
    last = max(point.process for point in points)
    reported = next(point for point in points if point.name == "SucceedTask")
    first = [point for point in points if not point.process and point.kind == "task"]
    anew = Expectation(more_jobs=1, all_jobs=True)
    yield Case(CLEARED, "cleared after its success", anew, between=_clear(last))
    yield Case(
        CLEARED,
        "cleared after its success, of which Airflow did not hear",
        anew,
        script=_once(reported.where, CrashBefore()),
        between=_clear(reported.process),
    )
    yield Case(
        CLEARED,
        "cleared after its failure",
        anew,
        between=lambda life: {last: lambda: (setattr(row.service, "ends", "success"), life.clear())},
        ends="failure",
        parameters={"retries": 0},
    )
    for point in first:
        if point.runs_after or point.before in (BEFORE_RECORD, BEFORE_JOB):
            name = f"killed after {point.name}, then cleared"
            yield Case(CLEARED, name, FINE, script=_once(point.where, CrashAfter()), between=_clear(0))
        for fate in FATES[1:] if point.runs_after else ():
            yield Case(
                CLEARED,
                f"killed after {point.name}, the job ends in {fate}, then cleared",
                anew,
                script=_once(point.where, CrashAfter()),
                between=lambda life, fate=fate: {0: lambda: (_end_all(row, fate), life.clear())},
            )


def nobody_there(row: Row) -> Iterator[Case]:
    """A person's action while the task waits and no process of it is there to be told."""
    why = NOBODY_KNOWS[row.way]
    acts: tuple[tuple[str, Callable[[Life], None], Expectation], ...] = (
        ("marked failed", lambda life: life.mark("failed"), stops.OVER),
        ("marked success", lambda life: life.mark("success"), stops.OVER),
        ("run deleted", lambda life: life.remove(), stops.OVER),
        ("cleared", lambda life: life.clear(), Expectation()),
    )
    for title, act, expect in acts:
        yield Case(
            NOBODY_THERE,
            f"{title} {why}",
            expect,
            between=lambda life, act=act: {0: lambda: act(life)},
            known_limitation=why if expect is stops.OVER else "",
        )


def hanging(row: Row) -> Case:
    """Return the case of a job that does not end, and is to be stopped after ``execution_timeout``."""
    parameters = {"execution_timeout": timedelta(minutes=5), "retries": 0}
    return Case("execution_timeout", "the job never ends", stops.OVER, ends="never", parameters=parameters)


def _once(where: tuple[int, int], action: Action) -> Any:
    return lambda life: {where: action}


def _twice(point: Point, call: int) -> Any:
    return lambda life: {point.where: CrashAfter(), (point.process + 1, call): CrashAfter()}


def _meanwhile(row: Row, process: int, fate: str) -> Any:
    return lambda life: {process: lambda: _end_all(row, fate)} if fate else {}


def _end_all(row: Row, fate: str) -> None:
    for job in row.service.jobs():
        if job.running:
            row.service.end(job.id, success=fate == "success")


def _clear(process: int) -> Any:
    return lambda life: {process: life.clear}
