"""
``make crash-matrix``: run every cell, write the page and the picture, and say RESULT.

Exit code 1 when a promise is broken, a row did not run to its end, or a test with real kills has failed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from matrix import picture, real, table
from matrix.kinds import WAYS
from matrix.rows import KINDS, REPOSITORY, ROWS, python_for
from matrix.verdict import Verdict

if TYPE_CHECKING:
    from matrix.rows import Key

PAGE = REPOSITORY / "docs" / "crash-matrix.md"
PICTURE = REPOSITORY / "docs" / "images" / "crash-matrix.svg"


class RowFailed(Exception):
    """A row did not run to its end."""


def run_row(row: Key, every: int, matrix: table.Matrix, progress: Progress, lock: threading.Lock) -> None:
    """Run one row in a process of its own, and take its verdicts as they come."""
    began = time.monotonic()
    bar = progress.add_task(", ".join(row), total=None)
    command = [python_for(row), "-m", "matrix.worker", *row, "--every", str(every)]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "tests"), str(REPOSITORY)])}
    worker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    errors: list[str] = []
    reader = threading.Thread(target=lambda: errors.extend(worker.stderr or ()), daemon=True)
    reader.start()
    expected = seen = 0
    for line in worker.stdout or ():
        said = json.loads(line)
        if "cases" in said:
            expected = said["cases"]
            progress.update(bar, total=expected)
        else:
            seen += 1
            if said["verdict"] is not None:
                with lock:
                    matrix.add(row, Verdict(**said["verdict"]))
            progress.update(bar, completed=seen)
    worker.wait()
    reader.join(5)
    if worker.returncode or not expected or seen != expected:
        raise RowFailed(f"{', '.join(row)}: {seen} of {expected} cells, then\n{''.join(errors[-15:])}")
    progress.remove_task(bar)
    # Bars are for terminals; this is for logs, too.
    progress.console.print(f"{', '.join(row)}: {seen} cells in {time.monotonic() - began:.0f} s")


def run_rows(rows: list[Key], every: int, workers: int, console: Console) -> tuple[table.Matrix, list[str]]:
    """Run rows side by side; return their verdicts, and what went wrong with the running."""
    matrix, lock = table.Matrix(), threading.Lock()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress, ThreadPoolExecutor(workers) as pool:
        whole = progress.add_task(f"{len(rows)} rows", total=len(rows))
        running = [pool.submit(run_row, row, every, matrix, progress, lock) for row in rows]
        for future in running:
            future.add_done_callback(lambda _: progress.advance(whole))
        failures = [str(error) for future in running if (error := future.exception()) is not None]
    in_order = {row: matrix.verdicts[row] for row in rows if row in matrix.verdicts}
    return table.Matrix(in_order), failures


def write(matrix: table.Matrix, shown: list[real.RealTest], folder: Path | None) -> None:
    """Write page and picture, into docs/ unless a folder is given."""
    page = table.page(matrix, version("apache-airflow"), real.lines(shown))
    for path, text in ((PAGE, page), (PICTURE, picture.draw(matrix))):
        place = folder / path.name if folder else path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


def main() -> int:
    """Run, report, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="crash-matrix", description="What becomes of the job when something dies."
    )
    parser.add_argument("--only", nargs="+", choices=KINDS, default=list(KINDS), help="these operators")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), help="these ways of waiting")
    parser.add_argument("--every", type=int, default=1, help="a sample: every n-th cell")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2, help="rows at a time")
    parser.add_argument("--no-real", action="store_true", help="leave out the kills of real processes")
    parser.add_argument(
        "--output", type=Path, help="write page and picture into this folder instead of docs/"
    )
    options = parser.parse_args()
    console = Console()
    rows = [row for row in ROWS if row[0] in options.only and row[1] in options.ways]
    matrix, failures = run_rows(rows, options.every, options.workers, console)
    if options.output:
        write(matrix, [], options.output)
    shown = [] if options.no_real else real.run(options.workers, console)
    failures += [f"on real processes: {test}" for test in shown if not test.passed]
    if options.output or (len(rows) == len(ROWS) and options.every == 1 and not options.no_real):
        write(matrix, shown, options.output)
    console.print(table.rich_table(matrix))
    broken = list(matrix.broken())
    for text in (*broken, *failures):
        console.print(text, style="red", markup=False)
    print("RESULT", json.dumps(matrix.result()))
    return 1 if broken or failures else 0


if __name__ == "__main__":
    sys.exit(main())
