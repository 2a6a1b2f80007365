"""The same on real processes: end-to-end tests that kill them, for each operator and way of waiting.

They are the tests of ``tests/e2e`` that carry the mark ``crash_matrix(operator, way)``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matrix.rows import KINDS, REPOSITORY

if TYPE_CHECKING:
    import pytest
    from rich.console import Console

MARK = "crash_matrix"
#: Where the plugin writes what became of the tests.
OUTCOMES = "CRASH_MATRIX_OUTCOMES"


@dataclass(frozen=True)
class RealTest:
    """What one test on real processes has shown."""

    operator: str
    way: str
    name: str
    passed: bool
    seconds: float

    def __str__(self) -> str:
        return f"{self.operator}, {self.way}: {self.name}"


def run(workers: int, console: Console) -> list[RealTest]:
    """Run the tests; their own output is shown."""
    with tempfile.TemporaryDirectory() as folder:
        outcomes = Path(folder) / "outcomes"
        outcomes.touch()
        command = [sys.executable, "-m", "pytest", "-p", "matrix.real", "-m", MARK, "tests/e2e", "-q"]
        command += ["--numprocesses", str(2 * workers), "--dist", "loadgroup", "-p", "no:cacheprovider"]
        paths = os.pathsep.join([str(REPOSITORY / "tests"), str(REPOSITORY)])
        env = {**os.environ, OUTCOMES: str(outcomes), "PYTHONPATH": paths}
        done = subprocess.run(command, cwd=REPOSITORY, env=env, check=False)
        found = [RealTest(**json.loads(line)) for line in outcomes.read_text().splitlines()]
    if done.returncode and all(test.passed for test in found):
        found.append(RealTest("pytest", "", f"exit code {done.returncode}", passed=False, seconds=0.0))
    console.print(f"{len(found)} tests on real processes, {sum(test.passed for test in found)} passed")
    return found


def lines(tests: Iterable[RealTest]) -> Iterator[str]:
    """Yield the table of the tests for the page."""
    rows: dict[tuple[str, str], list[RealTest]] = {}
    for test in tests:
        rows.setdefault((test.operator, test.way), []).append(test)
    if rows:
        yield "Airflow's own processes, killed or told to go away, and the stand-ins of `tests/harness`:"
        yield ""
        yield "| operator | waiting | shown |"
        yield "|---|---|---|"
    for (operator, way), its in sorted(
        rows.items(), key=lambda row: (list(KINDS).index(row[0][0]), row[0][1])
    ):
        names = "; ".join(dict.fromkeys(_words(test) for test in sorted(its, key=lambda test: test.name)))
        yield f"| {KINDS[operator].title} | {way} | {names} |"


def _words(test: RealTest) -> str:
    words = test.name.partition("[")[0].removeprefix("test_").replace("_", " ")
    return words if test.passed else f"**failed**: {words}"


# -- pytest's side: this module is a plugin, too -----------------------------------------------------


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Have the mark travel with the test's report to the process that writes."""
    if mark := item.get_closest_marker(MARK):
        operator, way = mark.args
        if callspec := getattr(item, "callspec", None):
            # One test for two operators names them as its cases are named.
            operator = (
                operator.get(callspec.id.split("-")[0], operator) if isinstance(operator, dict) else operator
            )
        item.user_properties.append((MARK, (operator, way)))


def pytest_runtest_logreport(report: Any) -> None:
    """Write down how the test has ended."""
    place = dict(report.user_properties).get(MARK)
    is_controller = "PYTEST_XDIST_WORKER" not in os.environ
    if place and is_controller and (report.when == "call" or report.failed):
        name = report.nodeid.rpartition("::")[2].partition("@")[0]
        test = RealTest(*place, name=name, passed=report.passed, seconds=report.duration)
        with Path(os.environ[OUTCOMES]).open("a") as file:
            file.write(json.dumps(vars(test)) + "\n")
