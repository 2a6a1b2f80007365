"""Before and after: how a piece of the file is written now, and how it should be."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.tasks import Task

MAX_LINES = 14
MAX_VALUE = 100


def before(dag_file: DagFile, node: ast.AST) -> str:
    """The lines of a node's statement as they are, shortened in the middle when there are many."""
    statement = dag_file.tree.statement(node) or node
    return lines(dag_file, statement.lineno, statement.end_lineno or statement.lineno)  # type: ignore[attr-defined]


def call_lines(dag_file: DagFile, node: ast.expr) -> str:
    """The lines that a call itself covers: its statement may hold a whole Dag."""
    return lines(dag_file, node.lineno, node.end_lineno or node.lineno)


def lines(dag_file: DagFile, first: int, last: int) -> str:
    """Some lines of the file, without the indentation they share."""
    chosen = dag_file.source.lines[first - 1 : last]
    return shorten(textwrap.dedent("\n".join(chosen).expandtabs(4)))


def shorten(text: str) -> str:
    """At most a screenful: the start and the end, and a mark where lines are left out."""
    parts = [line.rstrip() for line in text.strip("\n").split("\n")]
    if len(parts) <= MAX_LINES:
        return "\n".join(parts)
    head, tail = parts[: MAX_LINES - 4], parts[-3:]
    return "\n".join([*head, f"    ...  # {len(parts) - len(head) - len(tail)} lines", *tail])


def code(dag_file: DagFile, node: ast.expr) -> str:
    """An expression as it is written, on one line, or ``...`` for one that is too long for that."""
    text = ast.unparse(node)
    if node.lineno == node.end_lineno:
        line = dag_file.source.lines[node.lineno - 1].encode()
        text = line[node.col_offset : node.end_col_offset].decode()
    return text if len(text) <= MAX_VALUE else "..."


def task_call(
    dag_file: DagFile,
    task: Task,
    *,
    change: Mapping[str, str | None] | None = None,
    name: str | None = None,
    notes: Mapping[str, str] | None = None,
) -> str:
    """The task's call with some arguments changed (``None`` drops one) or added, comments behind them."""
    changes = dict(change or {})
    remarks = notes or {}
    call = task.given
    function = call.func
    rendered = [f"    {code(dag_file, arg)}," for arg in call.args]
    for keyword in call.keywords:
        if keyword.arg is None:
            rendered.append(f"    **{code(dag_file, keyword.value)},")
        elif keyword.arg in changes:
            new = changes.pop(keyword.arg)
            if new is not None:
                rendered.append(_argument(keyword.arg, new, remarks))
        else:
            rendered.append(_argument(keyword.arg, code(dag_file, keyword.value), remarks))
    rendered += [_argument(key, new, remarks) for key, new in changes.items() if new is not None]
    head = name or ast.unparse(function)
    text = f"{assigned_to(dag_file, task)}{head}(\n" + "\n".join(rendered) + "\n)"
    if task.mapped and task.given is not task.call:
        method = task.call.func.attr if isinstance(task.call.func, ast.Attribute) else "expand"
        text += f".{method}({', '.join(_keyword(dag_file, kw) for kw in task.call.keywords)})"
    return text


def assigned_to(dag_file: DagFile, task: Task) -> str:
    """``name = `` where the task is assigned to a name, else nothing."""
    parent = dag_file.tree.parents.get(task.call)
    if isinstance(parent, ast.Assign) and parent.value is task.call and len(parent.targets) == 1:
        return f"{ast.unparse(parent.targets[0])} = "
    return ""


def variable_of(dag_file: DagFile, task: Task) -> str:
    """How a task can be written in a dependency: its variable, else its id."""
    return assigned_to(dag_file, task).removesuffix(" = ") or task.task_id or task.name


def identifier(text: str, fallback: str) -> str:
    """A store key made of a text: short words, no dots, no slashes."""
    return re.sub(r"[^A-Za-z0-9_{}]+", "_", text).strip("_") or fallback


def english(items: Iterable[str], limit: int = 4) -> str:
    """A list of names as prose."""
    names = list(items)
    if len(names) > limit:
        names = [*names[: limit - 1], f"{len(names) - limit + 1} more"]
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + " and " + names[-1]


def _argument(name: str, code: str, notes: Mapping[str, str]) -> str:
    note = notes.get(name)
    return f"    {name}={code}," + (f"  # {note}" if note else "")


def _keyword(dag_file: DagFile, keyword: ast.keyword) -> str:
    return (
        f"**{code(dag_file, keyword.value)}"
        if keyword.arg is None
        else f"{keyword.arg}={code(dag_file, keyword.value)}"
    )


def call_statement(dag_file: DagFile, node: ast.expr) -> str:
    """The statement of a call when it is a short one, else the call's own lines."""
    statement = dag_file.tree.statement(node)
    if statement is not None and not hasattr(statement, "body"):
        return lines(dag_file, statement.lineno, statement.end_lineno or statement.lineno)
    return call_lines(dag_file, node)
