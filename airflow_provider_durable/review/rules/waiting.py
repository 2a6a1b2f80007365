"""DUR210 to DUR231: contradicting switches, sensors that hold slots, durability without retries."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Level, Report
from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.rules.base import rule
from airflow_provider_durable.review.rules.mixin import is_resumable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.tasks import Task

# Airflow's own advice: reschedule pays from some five minutes between polls on.
LONG_INTERVAL = 5 * 60.0
LONG_WAIT = 60 * 60.0


@rule("DUR210", "deferrable-against-wait", "deferrable=True together with a switch that says not to wait")
def deferrable_against_wait(dag_file: DagFile) -> Iterator[Report]:
    """One argument says to wait in the triggerer, the other not to wait."""
    for task in dag_file.tasks.all:
        if dag_file.tasks.constant(task, "deferrable") is not True:
            continue
        for switch, inverted in catalog.WAIT_SWITCHES.items():
            if dag_file.tasks.constant(task, switch) is not inverted:
                continue
            origin = " (from default_args)" if task.params[switch].origin != "own" else ""
            off, on = f"{switch}={inverted}", f"{switch}={not inverted}"
            known = catalog.SUBMITTERS.get(task.kind)
            needs = task.kind in catalog.DEFER_NEEDS_WAIT
            if catalog.is_ours(task.cls):
                effect = "this operator refuses the pair when the Dag is parsed"
            elif needs:
                effect = "it never defers, and is green as soon as the job is accepted"
            elif known is not None:
                effect = "it defers and waits all the same, so the switch says what is not so"
            else:
                effect = "one of them does not do what it says"
            yield Report(
                task.call,
                f"{task.label} has deferrable=True and {off}{origin}: {effect}. Say {on}, or drop "
                "deferrable=True.",
                before=suggest.call_lines(dag_file, task.call),
                after=suggest.task_call(
                    dag_file, task, change={"deferrable": "True", switch: str(not inverted)}
                ),
            )


@rule(
    "DUR211",
    "deferrable-without-wait",
    "deferrable=True leaves the wait switch that it depends on to its default",
)
def deferrable_without_wait(dag_file: DagFile) -> Iterator[Report]:
    """``deferrable=True`` alone, for an operator that defers only when it is to wait."""
    for task in dag_file.tasks.all:
        known = catalog.DEFER_NEEDS_WAIT.get(task.kind)
        if known is None or task.is_taskflow or dag_file.tasks.constant(task, "deferrable") is not True:
            continue
        switch, waits = known
        # This package's operators refuse the pair when the Dag is parsed: nothing can slip in unseen.
        if switch in task.params or task.opaque or catalog.is_ours(task.cls):
            continue
        message = (
            f"{task.label} defers only while {switch} is on, which is the default here; say so next to "
            "deferrable=True, "
            "so that neither default_args nor an edit turns it into a task that does not wait."
            if waits
            else f"{task.label} has deferrable=True, but {switch} is off by default, so it never defers: it "
            f"is green at once. Add {switch}=True."
        )
        yield Report(
            task.call,
            message,
            Level.NOTE if waits else Level.WARNING,
            before=suggest.call_lines(dag_file, task.call),
            after=suggest.task_call(dag_file, task, change={switch: "True"}),
        )


@rule(
    "DUR220",
    "long-wait-in-poke-mode",
    "a sensor waits for long in poke mode and holds a worker slot all the while",
)
def long_wait_in_poke_mode(dag_file: DagFile) -> Iterator[Report]:
    """A sensor that pokes although its own arguments say that it waits for long."""
    for task in dag_file.tasks.all:
        if not task.is_sensor or not _pokes(dag_file, task):
            continue
        reason = _long(dag_file, task)
        if reason is None:
            continue
        decorated = task.function is not None
        yield Report(
            dag_file.tasks.decorator(task.function) if task.function is not None else task.call,
            f'{task.label} pokes and {reason}: it holds a worker slot all that time. mode="reschedule" '
            "frees the slot "
            "between polls, deferrable=True (where the sensor has it, and a triggerer runs) frees it "
            "altogether.",
            before=None if decorated else suggest.call_lines(dag_file, task.call),
            after=None if decorated else suggest.task_call(dag_file, task, change={"mode": '"reschedule"'}),
        )


@rule(
    "DUR230",
    "durable-without-retries",
    "a durable task has retries=0, so there is no next try that could reconnect",
)
def durable_without_retries(dag_file: DagFile) -> Iterator[Report]:
    """Durability without a second try."""
    for task in dag_file.tasks.all:
        durable = dag_file.tasks.constant(task, "durable")
        retries = dag_file.tasks.constant(task, "retries")
        if retries != 0 or isinstance(retries, bool) or durable is False:
            continue
        if durable is not True and not _is_durable_class(dag_file, task):
            continue
        origin = " (from default_args)" if task.params["retries"].origin != "own" else ""
        yield Report(
            task.call,
            f"{task.label} is durable but has retries=0{origin}: after a crash nothing comes back to the "
            "job. Give it a "
            "retry; with the same job to go back to, a retry costs no second run.",
            before=suggest.call_lines(dag_file, task.call),
            after=suggest.task_call(dag_file, task, change={"retries": "2"}),
        )


@rule("DUR231", "durable-switched-off", "durable=False outside tests: retries run the job again")
def durable_switched_off(dag_file: DagFile) -> Iterator[Report]:
    """``durable=False`` in a Dag that is no test."""
    if dag_file.is_test:
        return
    for call in dag_file.tree.calls:
        task = dag_file.tasks.by_call.get(call)
        for keyword in call.keywords:
            if (
                task is not None
                and keyword.arg == "durable"
                and dag_file.values.constant(keyword.value) is False
            ):
                yield _switched_off(keyword, f"durable=False on {task.label}")
            elif keyword.arg == "default_args":
                entry = dag_file.values.mapping(keyword.value)[0].get("durable")
                if entry is not None and dag_file.values.constant(entry) is False:
                    yield _switched_off(entry, "default_args with durable=False")


def _switched_off(node: ast.AST, what: str) -> Report:
    return Report(
        node,
        f"{what} turns crash recovery off: a retry runs the job a second time. It is meant for tests, and "
        "for services "
        "that refuse a second job themselves; if it is that, say so with '# noqa: DUR231' and the reason.",
    )


def _pokes(dag_file: DagFile, task: Task) -> bool:
    """Whether a sensor is sure to poke: what may set its mode elsewhere is left alone."""
    if (
        task.opaque
        or task.name.endswith("Async")
        or dag_file.tasks.constant(task, "mode") not in (None, "poke")
    ):
        return False
    if dag_file.tasks.constant(task, "deferrable") not in (None, False):
        return False
    if task.cls.startswith("."):
        cls = next((cls for cls in dag_file.tree.classes if cls.name == task.name), None)
        return cls is not None and not any(
            isinstance(node, (ast.arg, ast.keyword)) and node.arg in ("mode", "deferrable")
            for node in ast.walk(cls)
        )
    return task.cls.split(".", 1)[0] == "airflow"


def _long(dag_file: DagFile, task: Task) -> str | None:
    """Why the wait is a long one, in words; None when nothing says so."""
    seconds = {
        name: dag_file.values.seconds(task.params[name].value) if name in task.params else None
        for name in ("timeout", "poke_interval", "delta")
    }
    if (timeout := seconds["timeout"]) is not None and timeout >= LONG_WAIT:
        return f"may wait for up to {_duration(timeout)}"
    if timeout is not None:
        # A short limit was set: the wait is short, however rarely it polls.
        return None
    if (delta := seconds["delta"]) is not None and delta >= LONG_WAIT and "TimeDelta" in task.name:
        return f"waits for {_duration(delta)}"
    if (interval := seconds["poke_interval"]) is not None and interval >= LONG_INTERVAL:
        return f"sleeps {_duration(interval)} between polls, for up to the default 7 days"
    return None


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            number = seconds / size
            text = f"{number:.1f}".removesuffix(".0")
            return f"{text} {unit}" + ("" if text == "1" else "s")
    return f"{seconds:g} seconds"


def _is_durable_class(dag_file: DagFile, task: Task) -> bool:
    if catalog.is_ours(task.cls):
        return True
    if not task.cls.startswith("."):
        return False
    return any(cls.name == task.name and is_resumable(dag_file, cls) for cls in dag_file.tree.classes)
