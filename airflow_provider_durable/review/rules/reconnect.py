"""DUR103, DUR104: job ids kept for a retry by hand, where they do not last or where a crash loses them."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Level, Report
from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.model.stores import context_name
from airflow_provider_durable.review.rules import words
from airflow_provider_durable.review.rules.base import rule
from airflow_provider_durable.review.rules.mixin import is_resumable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.xcom import Pull

MIXIN_IMPORT = "from airflow_provider_durable import ResumableJobMixin"


@dataclass(frozen=True, eq=False)
class Reconnect:
    """A hand-written "if there is a job id, reconnect, else submit".

    :param read: where the id is looked up; ``kept_in`` says in what.
    """

    function: FunctionNode
    branch: ast.AST
    read: ast.Call
    submit: ast.Call
    key: str
    kept_in: str


@rule(
    "DUR103",
    "xcom-for-retry",
    "an XCom is pushed to survive a retry: Airflow deletes a try's XComs before the next one",
)
def xcom_for_retry(dag_file: DagFile) -> Iterator[Report]:
    """A task pushes an XCom for its own next try."""
    reconnecting = {found.function for found in hand_written(dag_file)}
    seen: set[tuple[FunctionNode, str]] = set()
    for call in dag_file.tree.calls:
        function = dag_file.task_code(call)
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "xcom_push" or function is None:
            continue
        key = _pushed_key(dag_file, call)
        if key is None or function in reconnecting or (function, key) in seen:
            continue
        own = _pulled_by_itself(dag_file, function, call, key)
        if own is None and not _kept_for_nobody(dag_file, function, key):
            continue
        seen.add((function, key))
        yield Report(
            call,
            _xcom_message(dag_file, key, own),
            Level.WARNING if dag_file.target.has_stores else Level.NOTE,
            before=suggest.call_statement(dag_file, call),
            after=_as_store(dag_file, call, key) if dag_file.target.has_stores else None,
            related=(own.call.lineno,) if own else (),
        )


@rule(
    "DUR104",
    "hand-written-reconnect",
    "'if there is a job id, reconnect, else submit' written by hand: a crash between submitting and storing "
    "loses the job",
)
def hand_written_reconnect(dag_file: DagFile) -> Iterator[Report]:
    """The mixin's logic, written by hand."""
    for found in hand_written(dag_file):
        statement = dag_file.tree.statement(found.branch) or found.branch
        yield Report(
            statement,
            _reconnect_message(dag_file, found),
            Level.WARNING if dag_file.target.has_stores else Level.NOTE,
            before=suggest.before(dag_file, statement),
            after=_as_mixin(dag_file, found) if dag_file.target.has_stores else None,
            related=(found.read.lineno, found.submit.lineno),
        )


# Three rules ask for the same file one after the other.
@lru_cache(maxsize=1)
def hand_written(dag_file: DagFile) -> tuple[Reconnect, ...]:
    """All hand-written reconnects of a file."""
    return tuple(_find_reconnects(dag_file))


def _find_reconnects(dag_file: DagFile) -> Iterator[Reconnect]:
    for function in dag_file.tree.functions:
        submits = [call for call in dag_file.calls_in(function) if is_submit(dag_file, call)]
        if not submits or _in_mixin(dag_file, function):
            continue
        for read, key, kept_in in _reads(dag_file, function):
            branch = _branch_on(dag_file, function, read)
            if branch is None:
                continue
            after = [call for call in submits if call.lineno >= branch.lineno]
            if after and (words.is_job_id(key) or _writes_back(dag_file, function, key, after)):
                yield Reconnect(function, branch, read, after[0], key, kept_in)
                break


def is_submit(dag_file: DagFile, call: ast.Call) -> bool:
    """Whether a call starts a job, by its name; making a task is none."""
    if call in dag_file.tasks.by_call:
        return False
    name = (
        call.func.attr
        if isinstance(call.func, ast.Attribute)
        else catalog.leaf(dag_file.qualified(call.func))
    )
    if (
        isinstance(call.func, ast.Attribute)
        and name == "submit"
        and dag_file.qualified(call.func).startswith("concurrent.")
    ):
        return False
    return catalog.submits(name)


def _in_mixin(dag_file: DagFile, function: FunctionNode) -> bool:
    cls = dag_file.tree.class_of(function)
    return cls is not None and is_resumable(dag_file, cls)


def _reads(dag_file: DagFile, function: FunctionNode) -> Iterator[tuple[ast.Call, str, str]]:
    """Where a function looks up what an earlier try may have left."""
    for variable in dag_file.stores.variables:
        if variable.method == "get" and dag_file.tree.function_of(variable.call) is function:
            yield variable.call, variable.identity, "a Variable"
    for pull in dag_file.xcoms.pulls(function):
        if pull.key is not None and _is_own(dag_file, function, pull):
            yield pull.call, pull.key, "an XCom"
    if dag_file.tree.class_of(function) is not None:
        for store in dag_file.stores.calls:
            if (
                store.kind == "task"
                and store.method == "get"
                and dag_file.tree.function_of(store.call) is function
            ):
                key = dag_file.values.text(store.key)
                if key is not None:
                    yield store.call, key, "task_state_store"


def _branch_on(dag_file: DagFile, function: FunctionNode, read: ast.Call) -> ast.If | ast.IfExp | None:
    """The first ``if`` on what was read."""
    names = set()
    statement = dag_file.tree.statement(read)
    if isinstance(statement, ast.Assign):
        names = {target.id for target in statement.targets if isinstance(target, ast.Name)}
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        names = {statement.target.id}
    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.IfExp)) and dag_file.tree.function_of(node) is function:
            for part in ast.walk(node.test):
                if part is read or (
                    isinstance(part, ast.Name) and part.id in names and node.lineno >= read.lineno
                ):
                    return node
                if isinstance(part, ast.NamedExpr) and any(inner is read for inner in ast.walk(part.value)):
                    return node
    return None


def _writes_back(dag_file: DagFile, function: FunctionNode, key: str, submits: list[ast.Call]) -> bool:
    """Whether what a submit call returned is stored under the key that was read."""
    results = set(submits)
    names = {
        target.id
        for call in submits
        if isinstance(statement := dag_file.tree.statement(call), ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    for call in dag_file.calls_in(function):
        value = _stored_value(dag_file, call, key)
        if value is not None and any(
            node in results or (isinstance(node, ast.Name) and node.id in names) for node in ast.walk(value)
        ):
            return True
    return False


def _stored_value(dag_file: DagFile, call: ast.Call, key: str) -> ast.expr | None:
    for variable in dag_file.stores.variables:
        if variable.call is call and variable.method in ("set", "update") and variable.identity == key:
            return variable.value
    for store in dag_file.stores.calls:
        if store.call is call and store.method == "set" and dag_file.values.text(store.key) == key:
            return store.value
    if (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "xcom_push"
        and _pushed_key(dag_file, call) == key
    ):
        return _argument(call, "value", 1)
    return None


def _argument(call: ast.Call, name: str, index: int) -> ast.expr | None:
    named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
    return named if named is not None else (call.args[index] if len(call.args) > index else None)


def _pushed_key(dag_file: DagFile, call: ast.Call) -> str | None:
    # Outside Airflow's own signature (a wrapper with a context first), the key is only taken by name.
    return dag_file.values.text(_argument(call, "key", 0))


def _is_own(dag_file: DagFile, function: FunctionNode, pull: Pull) -> bool:
    """Whether a function pulls what it pushed itself."""
    if pull.own:
        return True
    runs = dag_file.tasks_running(function)
    if pull.task_ids:
        return any(task.task_id and task.task_id in pull.task_ids for task in runs)
    if pull.task_ids is None and pull.key is not None:
        pushers = {
            dag_file.tree.function_of(call)
            for call in dag_file.tree.calls
            if isinstance(call.func, ast.Attribute)
            and call.func.attr == "xcom_push"
            and _pushed_key(dag_file, call) == pull.key
        }
        return pushers == {function}
    return False


def _pulled_by_itself(dag_file: DagFile, function: FunctionNode, push: ast.Call, key: str) -> Pull | None:
    """The pull of an earlier try's XCom: one behind the push only reads back what this try has written."""
    for pull in dag_file.xcoms.pulls(function):
        before = pull.call.lineno <= push.lineno
        if pull.key == key and before and not pull.earlier_runs and _is_own(dag_file, function, pull):
            return pull
    return None


def _kept_for_nobody(dag_file: DagFile, function: FunctionNode, key: str) -> bool:
    """A job id pushed by the function that submits, in a file where no other task pulls it."""
    if not words.is_job_id(key) or dag_file.tree.class_of(function) is not None:
        return False
    if not dag_file.tasks_running(function) and function not in dag_file.tasks.task_functions:
        return False
    if not any(is_submit(dag_file, other) for other in dag_file.calls_in(function)):
        return False
    pulled_elsewhere = any(
        dag_file.xcoms.pull(other).key in (key, None)
        for other in dag_file.tree.calls
        if isinstance(other.func, ast.Attribute)
        and other.func.attr == "xcom_pull"
        and dag_file.tree.function_of(other) is not function
    )
    by_subscript = any(
        dag_file.values.constant(node.slice) == key
        for node in ast.walk(dag_file.source.tree)
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "output"
    )
    return not pulled_elsewhere and not by_subscript and key not in dag_file.xcoms.pulled_templates


def _xcom_message(dag_file: DagFile, key: str, own: Pull | None) -> str:
    what = (
        f"XCom '{key}' is pushed here and pulled by the same task in line {own.call.lineno}"
        if own
        else f"XCom '{key}' holds the id of a job that this task starts, and no other task here pulls it"
    )
    start = f"{what}. It does not survive a retry: Airflow deletes a try's XComs before the next one. "
    if dag_file.target.has_stores:
        return start + "Keep it in task_state_store, or let ResumableJobMixin keep the id."
    return start + (
        f"{dag_file.target} has no task_state_store (3.3 has): let the service find the job by a name or "
        "token that "
        "you choose before you submit."
    )


def _reconnect_message(dag_file: DagFile, found: Reconnect) -> str:
    start = (
        f"'{found.key}' is looked up in {found.kept_in} (line {found.read.lineno}) to reconnect to a job or "
        "else to "
        f"submit one (line {found.submit.lineno}). "
    )
    why = {
        "a Variable": "A Variable is shared by all runs and mapped indexes, so they take each other's jobs",
        "an XCom": "Airflow deletes a try's XComs before the next one, so a retry always submits again",
    }.get(found.kept_in, "A crash between the submission and the store still runs the job twice")
    if dag_file.target.has_stores:
        return start + why + ". ResumableJobMixin does this, and keeps the id per task instance."
    return (
        start
        + why
        + (
            f". ResumableJobMixin does this from Airflow 3.3 on; on {dag_file.target}, choose the job's id "
            "or token before "
            "you submit (from dag_id, run_id and task_id) and let the service refuse the second one."
        )
    )


def _as_store(dag_file: DagFile, call: ast.Call, key: str) -> str:
    holder = context_name(dag_file.tree.function_of(call)) or "get_current_context()"
    value = _argument(call, "value", 1)
    written = suggest.code(dag_file, value) if value is not None else "..."
    return f'{holder}["task_state_store"].set("{suggest.identifier(key, "job_id")}", {written})'


def _as_mixin(dag_file: DagFile, found: Reconnect) -> str:
    cls = dag_file.tree.class_of(found.function)
    name = (
        cls.name
        if cls is not None
        else "".join(part.title() for part in found.function.name.split("_")) + "Operator"
    )
    bases = (
        ["ResumableJobMixin", *(ast.unparse(base) for base in cls.bases)]
        if cls
        else ["ResumableJobMixin", "BaseOperator"]
    )
    key = (
        suggest.identifier(found.key, "external_job_id") if words.is_job_id(found.key) else "external_job_id"
    )
    return "\n".join(
        (
            MIXIN_IMPORT,
            "",
            f"class {name}({', '.join(bases)}):",
            f'    external_id_key = "{key}"',
            "",
            "    def execute(self, context):",
            "        return self.execute_resumable(context)",
            "",
            "    def submit_job(self, context):",
            f"        return {suggest.code(dag_file, found.submit)}",
            "    # and get_job_status, is_job_active, is_job_succeeded, poll_until_complete, get_job_result",
        )
    )
