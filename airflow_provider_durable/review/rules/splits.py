"""Finds pairs of a task that submits a job without waiting and a task that waits for that job."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.model.catalog import Submitter
from airflow_provider_durable.review.model.values import UNKNOWN
from airflow_provider_durable.review.rules import words
from airflow_provider_durable.review.rules.reconnect import is_submit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.tasks import Task

_CUSTOM_SUBMIT = re.compile(
    r"(Submit|StartExecution|StartJob|StartRun|RunJob|TriggerJob|TriggerRun|AddSteps)\w*Operator$"
)
_CUSTOM_WAIT = re.compile(r"(Wait|Poll|Watch|Monitor)\w*Operator$")
_WAITS = re.compile(r"wait_(for|until|on)|poll_until|wait$")
_VARIABLE = re.compile(r"var\.(?:value|json)\.(?:get\(\s*['\"])?(\w+)")
_WHOLE_FUNCTION = ("", "op_kwargs", "op_args", "templates_dict", "params")


@dataclass(frozen=True, eq=False)
class Split:
    """One job as two tasks.

    :param known: what the catalog says of the submitting operator; None for hand-written ones.
    :param node: where the waiting task names the job.
    """

    submit: Task
    waiter: Task
    known: Submitter | None
    node: ast.AST


@lru_cache(maxsize=1)
def splits(dag_file: DagFile) -> tuple[Split, ...]:
    """All such pairs of a file, one for each submitting and waiting task."""
    found: dict[tuple[Task, Task], Split] = {}
    for waiter in dag_file.tasks.all:
        if not waits_for_jobs(dag_file, waiter):
            continue
        for producer, node in _jobs_watched(dag_file, waiter):
            if producer is not waiter and leaves_at_once(dag_file, producer, watched=True):
                known = catalog.SUBMITTERS.get(producer.kind) or _by_switch(dag_file, producer)
                found.setdefault((producer, waiter), Split(producer, waiter, known, node))
    return tuple(found.values())


def waits_for_jobs(dag_file: DagFile, task: Task) -> bool:
    """Whether a task is a sensor or polls in a loop."""
    if task.is_sensor:
        return True
    function = body_of(dag_file, task)
    return polls(dag_file, function) if function is not None else bool(_CUSTOM_WAIT.search(task.name))


def body_of(dag_file: DagFile, task: Task) -> FunctionNode | None:
    """The function that a task runs, where it is in the file."""
    if task.function is not None:
        return task.function
    given = task.own("python_callable")
    return dag_file.tasks.function(given) if given is not None else None


def polls(dag_file: DagFile, function: FunctionNode) -> bool:
    """Whether a function asks for a state in a loop, or calls something named ``wait...``."""
    calls = dag_file.calls_in(function)
    if any(_WAITS.match(_method(call)) for call in calls):
        return True
    if not any(_method(call) == "sleep" for call in calls):
        return False
    return any(
        catalog.asks(_method(call))
        for call in calls
        if any(isinstance(outer, (ast.While, ast.For)) for outer in dag_file.tree.ancestors(call))
    )


def leaves_at_once(dag_file: DagFile, task: Task, *, watched: bool = False) -> bool:
    """Whether a task submits a job and is done when the job is accepted.

    :param watched: another task waits for its job, which decides where provider versions differ.
    """
    known = catalog.SUBMITTERS.get(task.kind)
    if known is not None and known.cluster:
        # What waits for a cluster waits for it to come up; its work is submitted by other tasks.
        return False
    if known is not None and not task.is_taskflow:
        return _known_leaves(dag_file, task, known, watched)
    function = body_of(dag_file, task)
    if function is not None:
        return any(is_submit(dag_file, call) for call in dag_file.calls_in(function)) and not polls(
            dag_file, function
        )
    if task.is_sensor or task.kind == "TriggerDagRunOperator":
        return False
    for switch, inverted in catalog.WAIT_SWITCHES.items():
        value = dag_file.tasks.constant(task, switch)
        if isinstance(value, bool):
            return value is inverted and dag_file.tasks.constant(task, "deferrable") is not True
    return watched and bool(_CUSTOM_SUBMIT.search(task.name)) and not task.opaque


def switched_off(dag_file: DagFile, task: Task, known: Submitter) -> bool | None:
    """Whether the wait switch is off: None when nothing is said or it cannot be told."""
    if not known.switch:
        return None
    value = dag_file.tasks.constant(task, known.switch)
    return value is known.inverted if isinstance(value, bool) else None


def _by_switch(dag_file: DagFile, task: Task) -> Submitter | None:
    """What an operator that the catalog does not know says of itself by the wait switch it is given."""
    for switch, inverted in catalog.WAIT_SWITCHES.items():
        if not task.is_taskflow and dag_file.tasks.constant(task, switch) is inverted:
            return Submitter("the service", switch, inverted, deferrable=False)
    return None


def _known_leaves(dag_file: DagFile, task: Task, known: Submitter, watched: bool) -> bool:
    off = switched_off(dag_file, task, known)
    deferrable = dag_file.tasks.constant(task, "deferrable")
    if deferrable is UNKNOWN or (known.switch and dag_file.tasks.constant(task, known.switch) is UNKNOWN):
        return False
    if deferrable is True:
        return off is True and known.defer_needs_wait
    if task.kind == "LivyOperator" and (dag_file.values.seconds(task.own("polling_interval")) or 0) > 0:
        return False
    if off is not None:
        return off
    return known.default == "no" or (known.default == "unless-referenced" and watched)


def _jobs_watched(dag_file: DagFile, waiter: Task) -> Iterator[tuple[Task, ast.AST]]:
    for reference in dag_file.xcoms.references(waiter):
        parameter = reference.parameter
        if (
            parameter in _WHOLE_FUNCTION
            or parameter in catalog.JOB_PARAMETERS
            or words.is_job_id(parameter)
            or waiter.is_taskflow
        ):
            yield reference.producer, reference.node
    for key, node in _variables_read(dag_file, waiter):
        for variable in dag_file.stores.variables:
            if variable.method == "set" and variable.identity == key:
                function = dag_file.tree.function_of(variable.call)
                if function is not None:
                    yield from ((task, node) for task in dag_file.tasks_running(function))


def _variables_read(dag_file: DagFile, waiter: Task) -> Iterator[tuple[str, ast.AST]]:
    """The Airflow Variables through which a waiting task may have been told its job."""
    for _, value in waiter.arguments():
        for node in ast.walk(value):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for key in _VARIABLE.findall(node.value):
                    yield key, node
    function = body_of(dag_file, waiter)
    for variable in dag_file.stores.variables:
        inside = function is not None and dag_file.tree.function_of(variable.call) is function
        if variable.method == "get" and inside:
            yield variable.identity, variable.call


def _method(call: ast.Call) -> str:
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""
