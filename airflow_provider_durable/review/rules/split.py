"""DUR201 to DUR204: one job as two tasks, and what hangs on the one that does not know how the job ended."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Level, Report
from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.rules.base import rule
from airflow_provider_durable.review.rules.splits import body_of, leaves_at_once, splits

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.tasks import Task
    from airflow_provider_durable.review.rules.splits import Split

Evidence = Literal["triggerer", "reschedule", "poke"]

# What is told when the task ends: for a submit task that is when the job was accepted.
_ON_SUCCESS = ("on_success_callback", "outlets")
_ON_FAILURE = ("on_failure_callback", "email_on_failure", "sla", "execution_timeout")


@rule("DUR201", "submit-and-sensor", "one task submits a job without waiting, another waits for it")
def submit_and_sensor(dag_file: DagFile) -> Iterator[Report]:
    """A job split over two tasks."""
    waiters = _by_submit(dag_file)
    for split in splits(dag_file):
        if split.waiter is not waiters[split.submit][0]:
            continue
        evidence = _evidence(dag_file, split)
        service = split.known.service if split.known else "the service"
        watching = waiters[split.submit]
        names = suggest.english(f"{waiter.label} (line {waiter.call.lineno})" for waiter in watching)
        start = (
            f"{split.submit.label} is green as soon as {service} has accepted the job; only {names} "
            f"{'knows' if len(watching) == 1 else 'know'} how it ended. "
        )
        yield Report(
            split.submit.call,
            start + _advice(dag_file, split, evidence) + _own_retry(dag_file, split),
            Level.NOTE if evidence == "reschedule" else Level.WARNING,
            before="\n".join(
                suggest.call_lines(dag_file, task.call) for task in (split.submit, split.waiter)
            ),
            after=_one_task(dag_file, split, evidence),
            related=tuple(waiter.call.lineno for waiter in watching),
        )


@rule(
    "DUR202",
    "downstream-of-submit",
    "a task hangs on the submit task instead of the sensor: it starts before the job is done",
)
def downstream_of_submit(dag_file: DagFile) -> Iterator[Report]:
    """What should wait for the job waits for its acceptance only."""
    for submit, waiters in _by_submit(dag_file).items():
        late = set(waiters)
        for waiter in waiters:
            late |= dag_file.graph.reachable(waiter)
        for edge in dag_file.graph.downstream(submit):
            if edge.down in late or dag_file.graph.reachable(edge.down) & set(waiters):
                continue
            waiter = waiters[0]
            yield Report(
                edge.node,
                f"{edge.down.label} hangs on {submit.label}, which is done when the job is accepted, not on "
                f"{waiter.label}, which is done when the job is: it runs while the job still runs, and also "
                "when the "
                "job fails.",
                before=_dependency(dag_file, edge.up, edge.down),
                after=_dependency(dag_file, waiter, edge.down),
                related=(submit.call.lineno, waiter.call.lineno),
            )


@rule(
    "DUR203",
    "callback-on-submit",
    "a callback, asset event or alert hangs on the submit task instead of the sensor",
)
def callback_on_submit(dag_file: DagFile) -> Iterator[Report]:
    """What should tell of the job tells of its acceptance."""
    for submit, waiters in _by_submit(dag_file).items():
        waiter = waiters[0]
        for name in (*_ON_SUCCESS, *_ON_FAILURE):
            value = submit.own(name)
            if value is None or dag_file.values.constant(value) in (None, False):
                continue
            if name in _ON_FAILURE and any(name in other.params for other in waiters):
                continue
            if name == "execution_timeout" and any("timeout" in other.params for other in waiters):
                continue
            what = (
                "fires when the job is accepted, whatever becomes of it"
                if name in _ON_SUCCESS
                else "never sees the job: it covers the submission only"
            )
            yield Report(
                value,
                f"{name} of {submit.label} {what}. Put it on {waiter.label} (line {waiter.call.lineno}).",
                before=f"{name}={suggest.code(dag_file, value)}  # on {submit.label}",
                after=f"{name}={suggest.code(dag_file, value)}  # on {waiter.label}",
                related=(submit.call.lineno, waiter.call.lineno),
            )


@rule(
    "DUR204",
    "downstream-of-unwatched-job",
    "tasks follow a submit task that does not wait, and nothing waits for its job",
)
def downstream_of_unwatched_job(dag_file: DagFile) -> Iterator[Report]:
    """A job that nothing in the file waits for, with tasks behind it."""
    watched = {split.submit for split in splits(dag_file)}
    for task in dag_file.tasks.all:
        known = catalog.SUBMITTERS.get(task.kind)
        if known is None or task in watched or task.is_taskflow:
            continue
        if not leaves_at_once(dag_file, task) or _used_by_unknown(dag_file, task):
            continue
        # A function of a file that does not say how tasks hang together may well be watched elsewhere.
        followers = [edge.down for edge in dag_file.graph.downstream(task) if not edge.down.is_sensor]
        if not followers or any(edge.down.is_sensor for edge in dag_file.graph.downstream(task)):
            continue
        if all(leaves_at_once(dag_file, follower) or _is_marker(follower) for follower in followers):
            continue
        names = suggest.english(follower.label for follower in followers)
        yield Report(
            task.call,
            f"{task.label} does not wait for its {known.service} job and nothing in this file does: {names} "
            f"{'run' if len(followers) > 1 else 'runs'} when the job is accepted, and a failed job leaves "
            "the Dag green.",
            before=suggest.call_lines(dag_file, task.call),
            after=suggest.task_call(dag_file, task, change=_waiting(known, deferrable=False)),
            related=tuple(follower.call.lineno for follower in followers),
        )


@lru_cache(maxsize=1)
def _by_submit(dag_file: DagFile) -> dict[Task, list[Task]]:
    found: dict[Task, list[Task]] = {}
    for split in splits(dag_file):
        found.setdefault(split.submit, []).append(split.waiter)
    return found


def _evidence(dag_file: DagFile, split: Split) -> Evidence:
    """What the file tells about its deployment: a triggerer, scarce slots, or neither."""
    constant = dag_file.tasks.constant
    if split.waiter.name.endswith("Async") or constant(split.waiter, "deferrable") is True:
        return "triggerer"
    if constant(split.waiter, "mode") == "reschedule":
        return "reschedule"
    if any(
        constant(task, "deferrable") is True or task.name.endswith("Async") for task in dag_file.tasks.all
    ):
        return "triggerer"
    return "poke"


def _advice(dag_file: DagFile, split: Split, evidence: Evidence) -> str:
    known = split.known
    switch = _switch_on(known)
    ours = _counterpart(split) if dag_file.target.has_stores else None
    if known is None:
        return _hand_written_advice(dag_file, split, evidence)
    if evidence == "triggerer" and known.deferrable:
        text = "This file defers already, so a triggerer runs: one task with "
        text += f"deferrable=True{switch} frees the worker as well"
        if known.defer_needs_wait:
            text += f" ({known.switch} off would skip the deferral)"
        return text + (f"; this package's {ours[1]} is durable there as well." if ours else ".")
    if evidence == "reschedule":
        text = "The sensor frees its slot between polls: a fair choice where worker slots are scarce"
        text += f'; this package\'s {ours[1]} with mode="reschedule" does it in one task' if ours else ""
        text += f", and with a triggerer so does deferrable=True{switch}" if known.deferrable else ""
        return text + ". If you keep it, let everything hang on the sensor."
    by_switch = switch.replace(" and", " with")
    text = f"A poking sensor holds a worker slot anyway, so one task that waits itself{by_switch}"
    if dag_file.target.has_stores and (known.durable or ours):
        text += " costs no more, and durable=True reconnects it after a crash"
    else:
        text += " costs no more"
    if known.default == "unless-referenced":
        text += " (newer versions of the operator can)"
    text += f'; mode="reschedule" on this package\'s {ours[1]} costs less' if ours else ""
    text += f". With a triggerer: deferrable=True{switch}" if known.deferrable else ""
    return text + '. Keep the split, with mode="reschedule" on the sensor, only where slots are scarce.'


def _hand_written_advice(dag_file: DagFile, split: Split, evidence: Evidence) -> str:
    if evidence == "reschedule":
        return "The sensor frees its slot between polls: a fair choice where worker slots are scarce."
    one = (
        "an operator on ResumableJobMixin"
        if dag_file.target.has_stores
        else "one task that submits and waits"
    )
    return (
        f"As {one} it is one task with the job's own result; keep the split only where worker slots are "
        "scarce, and "
        'then with mode="reschedule" on the sensor.'
    )


def _own_retry(dag_file: DagFile, split: Split) -> str:
    """The submit task's own risk, which the split does not take away."""
    if dag_file.target.has_stores and body_of(dag_file, split.submit) is not None:
        return " A retry of the hand-written submit task starts a second job; ResumableJobMixin would not."
    return ""


def _one_task(dag_file: DagFile, split: Split, evidence: Evidence) -> str | None:
    known = split.known
    if known is None or split.submit.mapped:
        return None
    ours = _counterpart(split) if dag_file.target.has_stores else None
    if evidence == "reschedule" and ours is None:
        return None
    deferrable = evidence == "triggerer" and known.deferrable
    changes = _waiting(known, deferrable=deferrable)
    if dag_file.target.has_stores and known.durable and not deferrable:
        changes["durable"] = "True"
    if evidence == "reschedule":
        changes["mode"] = '"reschedule"'
    if not changes and ours is None:
        return None
    head = f"from {ours[0]} import {ours[1]}\n\n" if ours else ""
    return head + suggest.task_call(dag_file, split.submit, change=changes, name=ours[1] if ours else None)


def _waiting(known: catalog.Submitter, *, deferrable: bool) -> dict[str, str | None]:
    changes: dict[str, str | None] = {}
    if known.switch:
        changes[known.switch] = "False" if known.inverted else "True"
    if deferrable or (not known.switch and known.deferrable):
        changes["deferrable"] = "True"
    return changes


def _switch_on(known: catalog.Submitter | None) -> str:
    if known is None or not known.switch:
        return ""
    return f" and {known.switch}={'False' if known.inverted else 'True'}"


def _counterpart(split: Split) -> tuple[str, str] | None:
    return catalog.counterpart(split.submit.cls)


def _dependency(dag_file: DagFile, up: Task, down: Task) -> str:
    return f"{suggest.variable_of(dag_file, up)} >> {suggest.variable_of(dag_file, down)}"


def _used_by_unknown(dag_file: DagFile, task: Task) -> bool:
    """Whether another task takes its job id: it may wait for the job in a way that reading does not show."""
    return any(
        reference.producer is task
        for other in dag_file.tasks.all
        if other is not task
        for reference in dag_file.xcoms.references(other)
    )


def _is_marker(task: Task) -> bool:
    return task.name in ("EmptyOperator", "DummyOperator", "LatestOnlyOperator")
