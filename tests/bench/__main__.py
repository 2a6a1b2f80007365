"""
``make bench`` and ``make bench-triggerer``: measure, show a table, draw the chart, and say RESULT.

Exit code 1 when a target is missed. Takes some twelve minutes, the triggerer's part alone some ten.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from bench import chart, imports, overhead, triggerer
from bench.triggerer import COUNTS, POLL_SECONDS, SECONDS, SIDES, TARGET_COUNT, Bench, Measured

CHART = Path(__file__).parents[2] / "docs" / "images" / "triggerer.svg"
LABELS = {"theirs": "Apache", "ours": "ours"}
Results = dict[int, dict[str, Measured]]


def measure_triggerer(folder: Path, counts: list[int], seconds: float, progress: Progress) -> Results:
    """Return what was measured, by number of jobs and side."""
    results: Results = {}
    bench = Bench(folder)
    try:
        for count in counts:
            for side in SIDES:
                tell = teller(progress, f"{count:,} jobs, {side}")
                results.setdefault(count, {})[side] = bench.run(side, count, seconds, tell)
                tell("done", 1.0)
    finally:
        bench.close()
    return results


def teller(progress: Progress, what: str) -> Callable[[str, float], None]:
    """Return what a measurement tells its progress to."""
    bar = progress.add_task(what, total=1.0, text="")

    def tell(text: str, part: float) -> None:
        progress.update(bar, completed=part, text=text)

    return tell


def triggerer_table(results: Mapping[int, Mapping[str, Measured]], seconds: float) -> Table:
    """Return the table for people."""
    title = f"AWS Batch jobs waiting in one event loop for {seconds:.0f} s, asked for every {POLL_SECONDS} s"
    measured = [m for sides in results.values() for m in sides.values()]
    observed = [m.observer_cpu for m in measured]
    looking = f"{min(observed):.2f} to {max(observed):.2f} s"
    caption = (
        f"asked: requests. CPU: without that of looking at the loop ({looking}), measured at the same time "
        "in a process in which nothing waits, and whose loop stalled for up to "
        f"{max(m.observer_stall for m in measured):.2f} s. late: from a job's end to the event."
    )
    table = Table(title=title, caption=caption)
    headings = ("jobs", "side", "asked", "CPU", "memory", "stall", "late", "at most")
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "side" else "right", no_wrap=True)
    for count, sides in results.items():
        for side in SIDES:
            m = sides[side]
            late = f"{m.longest_delay:.1f} s" + (f", {m.unreported} never" if m.unreported else "")
            table.add_row(
                *(f"{count:,}", LABELS[side], f"{m.requests:,}", f"{m.cpu:.2f} s"),
                *(f"{m.memory / 1e6:,.0f} MB", f"{m.stall:.2f} s", f"{m.delay:.1f} s", late),
            )
        ratio = triggerer.compare(sides["ours"], sides["theirs"])
        parts = (f"1/{1 / ratio[name]:.0f}" if ratio[name] else "0" for name in ("requests", "cpu", "memory"))
        table.add_row("", "ratio", *parts, "", f"{ratio['delay']:.2f}", "", end_section=True)
    return table


def start_table(results: Mapping[int, Mapping[str, Measured]]) -> Table:
    """Return the table for people of what comes before the other one."""
    table = Table(title="Before that, once: from the first trigger until each job was asked for")
    for heading in ("jobs", "side", "time", "CPU"):
        table.add_column(heading, justify="left" if heading == "side" else "right")
    for count, sides in results.items():
        for side in SIDES:
            m = sides[side]
            row = (f"{count:,}", LABELS[side], f"{m.start_seconds:.1f} s", f"{m.start_cpu:.2f} s")
            table.add_row(*row, end_section=side == SIDES[-1])
    return table


def overhead_table(measured: Mapping[str, overhead.Variant]) -> Table:
    """Return the table for people."""
    table = Table(title="What it adds to a task whose job takes no time, through the API server")
    for heading in ("", "store calls", "added"):
        table.add_column(heading, justify="right" if heading else "left")
    for name, label in overhead.LABELS.items():
        variant = measured[name]
        table.add_row(label, str(variant.store_calls), f"{variant.added_ms:.0f} ms")
    return table


def imports_table(measured: Mapping[str, tuple[float, float]]) -> Table:
    """Return the table for people."""
    title = f"Import of an operator's module after Airflow's, CPU time, median of {imports.ROUNDS} processes"
    table = Table(title=title)
    for heading in ("module", "Apache's", "ours", "ratio"):
        table.add_column(heading, justify="right" if heading != "module" else "left")
    for name, (ours, theirs) in measured.items():
        table.add_row(name, f"{theirs:.3f} s", f"{ours:.3f} s", f"{ours / theirs:.3f}")
    return table


@dataclass
class Report:
    """What was measured so far."""

    result: dict[str, Any] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)


def report_imports(report: Report, folder: Path, progress: Progress) -> None:
    """Measure imports."""
    tell = teller(progress, "imports")
    times = imports.measure(folder, tell)
    tell("done", 1.0)
    progress.console.print(imports_table(times))
    report.result["import"] = {name: round(ours / theirs, 3) for name, (ours, theirs) in times.items()}
    report.missed += imports.missed(times)


def report_task(report: Report, folder: Path, progress: Progress) -> None:
    """Measure what is added to a task."""
    tell = teller(progress, "task")
    variants = overhead.measure(folder, tell)
    tell("done", 1.0)
    progress.console.print(overhead_table(variants))
    durable = variants["durable"]
    report.result.update(store_calls=durable.store_calls, overhead_ms=round(durable.added_ms, 1))


def report_triggerer(
    report: Report, folder: Path, progress: Progress, counts: list[int], seconds: float
) -> None:
    """Measure a triggerer, and draw the chart if it was measured as the chart says."""
    results = measure_triggerer(folder, counts, seconds, progress)
    ratios = {count: triggerer.compare(sides["ours"], sides["theirs"]) for count, sides in results.items()}
    progress.console.print(start_table(results), triggerer_table(results, seconds))
    report.result["triggerer"] = {str(count): ratio for count, ratio in ratios.items()}
    if TARGET_COUNT in ratios:
        report.missed += triggerer.missed(ratios[TARGET_COUNT])
    if tuple(counts) == COUNTS and seconds == SECONDS:
        CHART.parent.mkdir(parents=True, exist_ok=True)
        CHART.write_text(chart.draw(results, seconds, POLL_SECONDS))


def main() -> int:
    """Measure, report, and return the exit code."""
    parser = argparse.ArgumentParser(prog="bench", description="Measure against Apache's operators.")
    parser.add_argument("--only", choices=("triggerer", "task", "imports"), help="one part of it")
    parser.add_argument("--jobs", type=int, nargs="+", default=list(COUNTS), help="numbers of waiting jobs")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="length of each measurement")
    options = parser.parse_args()
    console = Console()
    if (load := os.getloadavg()[0]) > 0.5:
        console.print(
            f"This machine is busy (load {load:.1f}): what is measured will be worse than it is.",
            style="yellow",
        )
    folder = Path(tempfile.mkdtemp(prefix="airflow-durable-bench-"))
    report = Report()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[text]}"),
    )
    with Progress(*columns, console=console) as progress:
        # Each shows its table when it is done: should a later one fail, nothing is lost.
        if options.only in (None, "triggerer"):
            report_triggerer(report, folder / "batch", progress, options.jobs, options.seconds)
        if options.only in (None, "task"):
            report_task(report, folder / "airflow", progress)
        if options.only in (None, "imports"):
            report_imports(report, folder / "bytecode", progress)
    shutil.rmtree(folder, ignore_errors=True)
    for sentence in report.missed:
        console.print(f"MISSED {sentence}", style="red", soft_wrap=True, highlight=False)
    sys.stdout.write(f"RESULT {json.dumps(report.result)}\n")
    return 1 if report.missed else 0


if __name__ == "__main__":
    sys.exit(main())
