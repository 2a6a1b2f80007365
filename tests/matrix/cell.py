"""One cell: a task's life in which something happens, and what the service has to show in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from matrix.airflow import Life
from matrix.verdict import Verdict
from matrix.wire import Stuck

if TYPE_CHECKING:
    from matrix.actions import Action
    from matrix.airflow import Airflow
    from matrix.kinds import Side, Way
    from matrix.service import Service
    from matrix.wire import Wire

    Script = Callable[[Life], dict[tuple[int, int], Action]]

#: More than a cell uses up.
RETRIES = 9
#: So many processes of a broken promise are told of.
MOST_TOLD = 6


@dataclass(frozen=True)
class Expectation:
    """
    What a cell's end must be; whatever it is, no job may be left that nobody waits for.

    :param success: the task ends in success and returns its last job; None where a person decides
    :param more_jobs: jobs that may follow the one of the first intent, each for a reason of its own
    :param all_jobs: whether these must have been started, as after a clear of a task that had ended
    :param cancels: jobs that may have been cancelled
    :param may_run_on: whether a job may be left running, because the author wants it so
    """

    success: bool | None = True
    more_jobs: int = 0
    all_jobs: bool = False
    cancels: int = 0
    may_run_on: bool = False


@dataclass(frozen=True)
class Case:
    """
    What happens in a cell.

    :param group: the line of the table that it counts for
    :param name: what happens where
    :param script: what happens to which call
    :param between: what happens while the task has no process, by the number of the one before
    :param meanwhile: how the job ends while the first process is dead; None: it runs on
    :param parameters: of the operator
    :param chain: cases of one chain happen one call later each: after one that did not, none will
    :param known_limitation: why a broken promise here is none, in the words of the documentation
    """

    group: str
    name: str
    expect: Expectation
    script: Script = lambda life: {}
    between: Callable[[Life], Mapping[int, Callable[[], None]]] = lambda life: {}
    ends: str = "success"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    known_limitation: str = ""
    chain: str = ""


@dataclass
class Row:
    """
    One operator, one way of waiting, one side.

    :param side: this package's operator or Apache's
    """

    name: str
    service: Service
    way: Way
    side: Side
    airflow: Airflow
    wire: Wire
    returns_id: bool = True
    _cells: int = 0

    def parse(self, parameters: Mapping[str, Any]) -> Callable[[], Any]:
        """Return what parses the Dag file of a task with these parameters."""
        from datetime import timedelta

        from airflow.sdk import DAG

        build = self.service.operator(self.side, self.way)
        assert build is not None
        words = "-".join(f"{name}-{value}" for name, value in sorted(parameters.items()))
        dag_id = "".join(letter if letter.isalnum() else "-" for letter in f"{self.name}-{words}".lower())[
            :60
        ]
        task = {"task_id": "job", "retries": RETRIES, "retry_delay": timedelta(minutes=1), **parameters}

        def parse() -> Any:
            with DAG(dag_id, schedule=None) as dag:
                build(**task)
            return dag

        return parse

    def run(self, case: Case) -> Verdict | None:
        """Run one cell; return None if what was to happen has not, because the task made no such call."""
        self._cells += 1
        name = f"cell-{self._cells}-"
        self.wire.begin({})
        self.service.reset(name)
        self.wire.service = self.service
        life = Life(self.airflow, self.parse(case.parameters), name)
        self.service.ends = case.ends  # type: ignore[assignment]
        self.wire.follow(case.script(life))
        life.between = dict(case.between(life))
        stuck = ""
        try:
            life.live()
        except Stuck as error:
            stuck = str(error)
        finally:
            self.wire.end_process()
        return None if self.wire.not_met else self._judge(case, life, stuck)

    def _processes(self) -> str:
        """What each process has called; of many, the first and the last ones."""
        told = [f"{process.kind}: {', '.join(process.calls)}" for process in self.wire.processes]
        if len(told) > MOST_TOLD:
            told[MOST_TOLD // 2 : -(MOST_TOLD // 2)] = [f"({len(told) - MOST_TOLD} more)"]
        return " | ".join(told)

    def _judge(self, case: Case, life: Life, stuck: str) -> Verdict:
        jobs, state, expect = self.service.jobs(), life.state, case.expect
        verdict = Verdict(case.group, case.name, known_limitation=case.known_limitation)
        most = 1 + expect.more_jobs
        verdict.duplicates = max(0, len(jobs) - most)
        running = [job for job in jobs if job.running]
        verdict.orphans = 0 if expect.may_run_on else len(running)
        verdict.wrong_cancels = max(0, sum(job.cancelled for job in jobs) - expect.cancels)
        returned = life.returned()
        if expect.success:
            wanted = jobs[-1].id if jobs and self.returns_id else None
            good = state == "success" and returned == wanted and bool(jobs) and jobs[-1].succeeded
            verdict.lost_results = int(not good or (expect.all_jobs and len(jobs) < most))
        if stuck:
            verdict.lost_results = 1
        stored = [value for key, value in self.wire.values if key == self.service.key]
        if not self.service.can_recover and any(job.id not in stored for job in jobs):
            verdict.known_limitation = "a lost submission cannot be looked up"
        if not verdict.is_kept:
            verdict.story = f"{state}, returned {returned!r}, {jobs}; {stuck} {self._processes()}"
        return verdict
