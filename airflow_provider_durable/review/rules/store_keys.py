"""DUR503, DUR505, DUR506, DUR509: where in the stores state is kept, and how the store is reached."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Report
from airflow_provider_durable.review.model.values import HOLE
from airflow_provider_durable.review.rules.base import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.stores import StoreCall


@rule("DUR503", "store-key-with-dot-or-slash", "a state store key contains a dot or a slash")
def key_with_dot_or_slash(dag_file: DagFile) -> Iterator[Report]:
    """A key that is a path or a dotted name."""
    for store in dag_file.stores.calls:
        text = dag_file.values.text(store.key)
        if store.key is None or text is None or not ("." in text or "/" in text):
            continue
        after = None
        if HOLE not in text and isinstance(store.key, ast.Constant):
            after = f'{ast.unparse(store.call.func)}("{suggest.identifier(text, "key")}", ...)'
        yield Report(
            store.key,
            f"The key {suggest.code(dag_file, store.key)} contains a dot or a slash. Keys become part of a "
            "path and of names in "
            "the store's backend; keep them short words with underscores.",
            before=suggest.call_statement(dag_file, store.call) if after else None,
            after=after,
        )


@rule(
    "DUR505",
    "mapped-tasks-one-asset-key",
    "the indexes of a mapped task all write the same key of an asset: the last one wins",
)
def mapped_tasks_one_asset_key(dag_file: DagFile) -> Iterator[Report]:
    """A mapped task with one asset key for all."""
    for store in dag_file.stores.calls:
        function = _mapped_function(dag_file, store)
        if function is None or store.kind != "asset" or store.method != "set" or store.key is None:
            continue
        if _varies(dag_file, store.key, function) or (
            store.asset is not None and _varies(dag_file, store.asset, function)
        ):
            continue
        parameter = next(
            (arg.arg for arg in function.args.args if arg.arg not in ("self", "asset_state_store")), "index"
        )
        text = dag_file.values.constant(store.key)
        after = (
            f'{ast.unparse(store.call.func)}(f"{text}_{{{parameter}}}", ...)'
            if isinstance(text, str)
            else None
        )
        yield Report(
            store.call,
            f"{function.name} is mapped, and all of its indexes write {suggest.code(dag_file, store.key)} "
            "of the same asset: the "
            "last one to finish wins. Put what tells the indexes apart into the key, or let one task behind "
            "them write.",
            before=suggest.call_statement(dag_file, store.call),
            after=after,
        )


@rule(
    "DUR506",
    "clear-in-mapped-task",
    "clear() in a mapped task clears that index only, or for an asset what the others wrote",
)
def clear_in_mapped_task(dag_file: DagFile) -> Iterator[Report]:
    """``clear()`` where it does less, or more, than it looks like."""
    for store in dag_file.stores.calls:
        function = _mapped_function(dag_file, store)
        if function is None or store.method != "clear":
            continue
        what = (
            f"{function.name} is mapped: clear() removes the state of the index that runs, not that of the "
            "others. To "
            "clear them all, use Airflow's command line or API from a task behind them."
            if store.kind == "task"
            else f"{function.name} is mapped: clear() removes all keys of the asset, the other indexes' too."
        )
        yield Report(store.call, what, before=suggest.call_statement(dag_file, store.call))


@rule(
    "DUR509",
    "asset-store-from-context",
    "asset_state_store is taken from **context instead of being a parameter",
)
def asset_store_from_context(dag_file: DagFile) -> Iterator[Report]:
    """``context["asset_state_store"]`` in a task function."""
    if "asset_state_store" not in dag_file.source.text:
        return
    for node in ast.walk(dag_file.source.tree):
        if not isinstance(node, (ast.Subscript, ast.Call)):
            continue
        if dag_file.stores.context_entry(node) != "asset_state_store":
            continue
        function = dag_file.tree.function_of(node)
        holder = node.value if isinstance(node, ast.Subscript) else None
        if function is None or dag_file.tree.class_of(function) is not None or isinstance(holder, ast.Call):
            # An operator's execute(context) has no other way, nor has a helper that asks for the context.
            continue
        if function not in dag_file.tasks.task_functions and not dag_file.tasks_running(function):
            continue
        names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
        yield Report(
            node,
            "asset_state_store is only in the context of a task with inlets or outlets, and looking it up "
            "there fails "
            f"for the others at run time. Declare it as a parameter: {function.name}(..., "
            "asset_state_store=None).",
            before=f"{suggest.lines(dag_file, function.lineno, function.lineno)}\n"
            f"    {suggest.call_statement(dag_file, node).strip()}",
            after=f"def {function.name}({', '.join([*names, 'asset_state_store=None'])}):",
        )


def _mapped_function(dag_file: DagFile, store: StoreCall) -> FunctionNode | None:
    function = dag_file.tree.function_of(store.call)
    return function if function is not None and dag_file.tasks.is_mapped(function) else None


def _varies(dag_file: DagFile, node: ast.expr, function: FunctionNode) -> bool:
    """Whether an expression can differ from index to index: it uses an argument, the context or a call."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            return True
        if isinstance(part, ast.Name):
            binding = dag_file.tree.names.binding(part)
            if binding is None:
                continue
            if binding.kind in ("param", "loop", "with") and binding.scope.node is function:
                return True
            value = binding.value if binding.scope.node is function else None
            if value is not None and value is not node and _varies(dag_file, value, function):
                return True
    return False
