"""DUR101, DUR102: state in Airflow Variables, which all Dags and tasks share."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Level, Report
from airflow_provider_durable.review.model.stores import context_name
from airflow_provider_durable.review.model.values import HOLE
from airflow_provider_durable.review.rules import words
from airflow_provider_durable.review.rules.base import rule
from airflow_provider_durable.review.rules.reconnect import hand_written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.stores import VariableCall

_WRITES = ("set", "update")


@rule(
    "DUR101",
    "variable-as-run-state",
    "task code keeps its state or checkpoint in a Variable, which every Dag and every run shares",
)
def variable_as_run_state(dag_file: DagFile) -> Iterator[Report]:
    """A Variable that tasks both read and write, or whose name says that it is state."""
    seen: set[tuple[FunctionNode, str]] = set()
    for write, function in _writes(dag_file):
        if _names_watermark(write) or (function, write.identity) in seen:
            continue
        reads = _reads(dag_file, write)
        if not reads and not words.is_state(_name(write)):
            continue
        seen.add((function, write.identity))
        here = [read for read in reads if dag_file.tree.function_of(read.call) is function]
        yield Report(
            write.call,
            _state_message(dag_file, write, reads),
            _level(dag_file),
            *_as_task_state(dag_file, function, [*here[:1], write]),
            related=tuple(read.call.lineno for read in reads),
        )


@rule(
    "DUR102",
    "variable-as-watermark",
    "how far an asset or table has been processed is kept in a Variable instead of with the asset",
)
def variable_as_watermark(dag_file: DagFile) -> Iterator[Report]:
    """A Variable that holds a watermark."""
    seen: set[tuple[FunctionNode, str]] = set()
    for write, function in _writes(dag_file):
        if not _names_watermark(write) or (function, write.identity) in seen:
            continue
        seen.add((function, write.identity))
        value = suggest.code(dag_file, write.value) if write.value is not None else "..."
        parameters = [arg.arg for arg in (*function.args.args, *function.args.kwonlyargs)]
        hint = "" if "asset_state_store" in parameters else "  # parameter: asset_state_store=None"
        shown = dag_file.target.has_stores
        yield Report(
            write.call,
            _watermark_message(dag_file, write),
            _level(dag_file),
            before=suggest.call_lines(dag_file, write.call),
            after=f'asset_state_store[ASSET].set("watermark", {value}){hint}' if shown else None,
        )


def _writes(dag_file: DagFile) -> Iterator[tuple[VariableCall, FunctionNode]]:
    reconnecting = {found.function for found in hand_written(dag_file)}
    for call in dag_file.stores.variables:
        function = dag_file.task_code(call.call)
        if call.method not in _WRITES or function is None or function in reconnecting:
            continue
        if words.is_secret(_name(call)):
            # A token kept fresh for everybody is no state of a run; that it is readable is another matter.
            continue
        yield call, function


def _reads(dag_file: DagFile, write: VariableCall) -> list[VariableCall]:
    """The places where task code reads what it writes. A read at parse time makes it configuration."""
    return [
        call
        for call in dag_file.stores.variables
        if call.method in ("get", "setdefault")
        and call.identity == write.identity
        and dag_file.task_code(call.call) is not None
    ]


def _name(call: VariableCall) -> str:
    """What the key's words are: its text, or the name of the constant that holds it."""
    return call.text if call.text is not None else ast.unparse(call.key)


def _names_watermark(call: VariableCall) -> bool:
    return words.is_watermark(_name(call))


def _level(dag_file: DagFile) -> Level:
    return Level.WARNING if dag_file.target.has_stores else Level.NOTE


def _state_message(dag_file: DagFile, write: VariableCall, reads: list[VariableCall]) -> str:
    lines = ", ".join(str(read.call.lineno) for read in reads)
    read_in = f", read in line {lines}," if reads else ""
    start = (
        f"Variable {write.shown}{read_in} holds state that this task writes: Variables are global, so "
        "another run, "
        "another mapped index or a backfill reads and overwrites the same value. "
    )
    if dag_file.target.has_stores:
        return start + (
            "If it is for this task's own retries, keep it in task_state_store; if the next run goes on "
            "from it, "
            "in asset_state_store."
        )
    return start + (
        f"{dag_file.target} has no task_state_store (3.3 has): keep it where the data goes, in the same "
        "transaction, "
        "or put dag_id, run_id and task_id into the key and make the step safe to repeat."
    )


def _watermark_message(dag_file: DagFile, write: VariableCall) -> str:
    start = (
        f"Variable {write.shown} is a watermark: any Dag or task can overwrite it, runs that overlap do, "
        "and nothing "
        "ties it to the data it speaks of. "
    )
    if dag_file.target.has_stores:
        return start + "Keep it in asset_state_store, under the asset that this task produces."
    return start + (
        f"{dag_file.target} has no asset_state_store (3.3 has): keep it in the target itself, written in "
        "the same "
        "transaction as the data, or derive the interval from the run (data_interval_start)."
    )


def _as_task_state(
    dag_file: DagFile, function: FunctionNode, calls: list[VariableCall]
) -> tuple[str | None, str | None]:
    """The statements of these calls, and the same with task_state_store."""
    statements = dict.fromkeys(suggest.call_statement(dag_file, call.call) for call in calls)
    before = "\n".join(statements)
    if not dag_file.target.has_stores:
        return before, None
    holder = context_name(function) or "get_current_context()"
    after = before
    # Writes first: what is written may hold the read.
    for call in sorted(calls, key=lambda call: call.method not in _WRITES):
        written = ast.get_source_segment(dag_file.source.text, call.call)
        if written is None or written not in after:
            return before, None
        after = after.replace(written, _store_call(dag_file, call, f'{holder}["task_state_store"]'))
    return before, after


def _store_call(dag_file: DagFile, call: VariableCall, store: str) -> str:
    key = suggest.code(dag_file, call.key)
    if call.text is not None and HOLE not in call.text:
        key = f'"{suggest.identifier(call.text, "state")}"'
    if call.method in _WRITES:
        return (
            f"{store}.set({key}, {suggest.code(dag_file, call.value) if call.value is not None else '...'})"
        )
    named = {keyword.arg: keyword.value for keyword in call.call.keywords}
    default = (
        named.get("default_var")
        or named.get("default")
        or (call.call.args[1] if len(call.call.args) > 1 else None)
    )
    return (
        f"{store}.get({key}, default={suggest.code(dag_file, default)})"
        if default is not None
        else f"{store}.get({key})"
    )
