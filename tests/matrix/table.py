"""What the matrix has shown, as a page for people and as RESULT."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rich.table import Table

from matrix import picture
from matrix.groups import GROUPS
from matrix.kinds import COUNTS, SIDES, WAYS
from matrix.rows import KINDS, ROWS

if TYPE_CHECKING:
    from matrix.kinds import Side, Way
    from matrix.rows import Key
    from matrix.verdict import Verdict

#: What a broken promise is called where there is little room.
SHORT = {
    "duplicates": "second job",
    "lost_results": "lost result",
    "orphans": "orphan",
    "wrong_cancels": "wrong cancel",
}


@dataclass
class Tally:
    """Verdicts on some cells."""

    cells: int = 0
    limits: int = 0
    broken: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    bad_cells: int = 0

    def add(self, verdict: Verdict) -> None:
        """Count a verdict; what the documentation names as a limit is counted apart."""
        self.cells += 1
        if verdict.is_kept:
            return
        if verdict.known_limitation:
            self.limits += 1
            return
        self.bad_cells += 1
        for count in COUNTS:
            self.broken[count] += getattr(verdict, count)

    def __str__(self) -> str:
        """How many cells kept the promise, or what was broken in how many of them."""
        words = [f"{SHORT[name]} {number}" for name, number in self.broken.items() if number]
        kept = f"{self.cells - self.limits} ✓"
        text = f"**{self.bad_cells} of {self.cells}**: {', '.join(words)}" if words else kept
        limits = f", {self.limits} known limit{'s' if self.limits > 1 else ''}" if self.limits else ""
        return text + limits


@dataclass
class Matrix:
    """All verdicts, by row."""

    verdicts: dict[Key, list[Verdict]] = field(default_factory=dict)

    def add(self, row: Key, verdict: Verdict) -> None:
        """Take a verdict."""
        self.verdicts.setdefault(row, []).append(verdict)

    def tally(
        self, side: Side, service: str | None = None, way: Way | None = None, group: str | None = None
    ) -> Tally:
        """Return the tally of all cells that these describe."""
        tally = Tally()
        for (its_service, its_way, its_side), verdicts in self.verdicts.items():
            if its_side == side and service in (None, its_service) and way in (None, its_way):
                for verdict in verdicts:
                    if group in (None, verdict.group):
                        tally.add(verdict)
        return tally

    def groups(self) -> list[str]:
        """Return the lines of the table, in their order."""
        found = {verdict.group: None for verdicts in self.verdicts.values() for verdict in verdicts}
        return [group for group in GROUPS if group in found] + [
            group for group in found if group not in GROUPS
        ]

    def result(self) -> dict[str, Any]:
        """Return what RESULT says."""
        ours, theirs = self.tally("ours"), self.tally("upstream")
        counts: dict[str, Any] = {"points": ours.cells, **ours.broken}
        if ours.limits:
            counts["known_limits"] = ours.limits
        return {**counts, "upstream": {"points": theirs.cells, **theirs.broken}}

    def broken(self) -> Iterator[str]:
        """Yield every promise of ours that was broken, with what happened."""
        for (service, way, side), verdicts in self.verdicts.items():
            for verdict in verdicts:
                if side == "ours" and not verdict.is_kept and not verdict.known_limitation:
                    what = ", ".join(
                        f"{SHORT[n]} {getattr(verdict, n)}" for n in COUNTS if getattr(verdict, n)
                    )
                    yield f"{service}, {way}: {verdict.name}: {what}\n    {verdict.story}"


HEAD = """\
# The crash matrix

<!-- Written by `make crash-matrix`; not by hand. -->

What becomes of the job when something dies, gets lost or is stopped, at every call that a task makes:
every operator, every way of waiting, this package and Apache's operators beside each other, on the same
Airflow and in the same cases.

![{title}](images/crash-matrix.svg)

A cell is the life of one task instance in which one thing happens, or two. At its end the service is
asked which jobs it has. Counted are second jobs (more than one for an intent), lost results (the task does
not succeed, does not return what it returns undisturbed, or the work that was asked for was not done),
orphans (jobs that run on with nobody waiting for them) and wrong cancels (of jobs that should have
lived). One more job is right after a clear of a finished task, after a job that failed, and after one
that a rule of the [stop table](how-it-works.md) cancelled.

"""

METHOD = """
## How it is made

The points are on no list. The command runs each task once undisturbed and notes every call that leaves
its processes: to Airflow's supervisor, which is the task state store, XComs, the deferral, the
reschedule and the end of a try, and to the service. Between any two of them the process is then killed,
and before them it is stopped for every reason of the stop table; every request also loses its answer,
times out, or is answered 503. A new call is a new point by itself.

Airflow is Airflow {airflow}: its task runner, its API server and its database tables, in one process, as
`dag.test()` has them; a trigger is made from its row in the database. A kill is an exception that
nothing catches, after which whatever the process still does reaches nobody. Time is virtual. At the
service:

{standins}

Apache's operators are used as they are, with `deferrable=True` for the triggerer, and with their own
durability where they have one. They have no way of waiting that needs neither worker nor triggerer.

A known limit is one that the documentation names, and no cell of it counts as kept. There are two. Where
a person acts while the task waits and no process of it is there, or none that knows the job yet, [nobody is
told](choosing.md#which-way-of-waiting). And a Spark standalone master does not say [which submission a driver
came from](operators/spark.md): where the answer to a submission is lost there, nobody can tell, and by
default the job is submitted again.

{real}## Reproduce it

```console
$ make crash-matrix
```

It ends with exit code 1, and with the story of each cell, when one of our numbers is not 0.
"""


def page(matrix: Matrix, airflow: str, real: Iterable[str]) -> str:
    """
    Return ``docs/crash-matrix.md``.

    :param airflow: Airflow's version
    :param real: the lines about what was shown on real processes
    """
    parts = [HEAD.format(title=picture.title(matrix)), *_summary(matrix)]
    for service in dict.fromkeys(row[0] for row in matrix.verdicts):
        parts += ["", f"## {KINDS[service].title}", "", *_table(matrix, service)]
    standins = "\n".join(f"- {kind.title}: {kind.standin}" for kind in KINDS.values())
    lines = [*real]
    section = "\n".join(["## On real processes", "", *lines, "", ""]) if lines else ""
    return "\n".join(parts) + "\n" + METHOD.format(airflow=airflow, standins=standins, real=section)


def _summary(matrix: Matrix) -> Iterator[str]:
    yield "| operator | waiting | ours | Apache's |"
    yield "|---|---|---|---|"
    for service, kind in KINDS.items():
        for way in WAYS:
            if (service, way, "ours") in matrix.verdicts:
                ours, theirs = (_cell(matrix, service, way, side) for side in SIDES)
                yield f"| {kind.title} | {way} | {ours} | {theirs} |"


def _table(matrix: Matrix, service: str) -> Iterator[str]:
    columns = [(way, side) for way in WAYS for side in SIDES if (service, way, side) in matrix.verdicts]
    yield (
        "| | "
        + " | ".join(f"{way}, {'ours' if side == 'ours' else 'Apache'}" for way, side in columns)
        + " |"
    )
    yield "|---|" + "---|" * len(columns)
    for group in matrix.groups():
        cells = [_cell(matrix, service, way, side, group) for way, side in columns]
        if any(cells):
            yield f"| {group} | " + " | ".join(cells) + " |"


def _cell(matrix: Matrix, service: str, way: Way, side: Side, group: str | None = None) -> str:
    if (service, way, side) not in matrix.verdicts:
        return "has no such way" if (service, way, side) not in ROWS else ""
    tally = matrix.tally(side, service, way, group)
    return str(tally) if tally.cells else ""


def rich_table(matrix: Matrix) -> Table:
    """Return the table in short, for a terminal."""
    table = Table(title="Cells in which the promise was broken")
    for heading in ("operator", "waiting", "ours", "Apache's"):
        table.add_column(heading)
    for service, way, side in matrix.verdicts:
        if side == "ours":
            cells = (_cell(matrix, service, way, of).replace("**", "") for of in SIDES)
            table.add_row(KINDS[service].title, way, *cells)
    return table
