"""Uses of Airflow's stores in task code: task_state_store, asset_state_store, Variables, and the context."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from airflow_provider_durable.review.model import catalog

if TYPE_CHECKING:
    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.tree import Tree
    from airflow_provider_durable.review.model.values import Values

StoreKind = Literal["task", "asset"]
STORES: dict[str, StoreKind] = {"task_state_store": "task", "asset_state_store": "asset"}
METHODS = ("get", "set", "delete", "clear", "aget", "aset", "adelete", "aclear")
_VARIABLE_METHODS = ("get", "set", "update", "setdefault", "delete")
MAX_STEPS = 12


@dataclass(frozen=True, eq=False)
class StoreCall:
    """A call of a store's method.

    :param asset: for the asset store, the expression that says which asset, where there is one.
    """

    call: ast.Call
    kind: StoreKind
    method: str
    key: ast.expr | None
    value: ast.expr | None
    asset: ast.expr | None


@dataclass(frozen=True, eq=False)
class VariableCall:
    """A call on Airflow's Variable.

    :param identity: what names the key for comparison: its text, or the code that makes it.
    :param text: the key with holes, where it is seen to be a string.
    """

    call: ast.Call
    method: str
    key: ast.expr
    identity: str
    text: str | None
    value: ast.expr | None

    @property
    def shown(self) -> str:
        """The key as messages show it."""
        return ast.unparse(self.key)


class Stores:
    """Finds the uses of stores in a file."""

    def __init__(self, tree: Tree, values: Values) -> None:
        self._tree = tree
        self._values = values
        self.calls: list[StoreCall] = []
        self.variables: list[VariableCall] = []
        for call in tree.calls:
            if not isinstance(call.func, ast.Attribute):
                continue
            if call.func.attr in METHODS and (kind := self.kind(call.func.value)):
                self.calls.append(self._store_call(call, call.func, kind))
            elif call.func.attr in _VARIABLE_METHODS and (found := self._variable_call(call, call.func)):
                self.variables.append(found)

    def kind(self, node: ast.expr, steps: int = 0) -> StoreKind | None:
        """Which store an expression is, through variables and ``[asset]``."""
        if steps > MAX_STEPS:
            return None
        if isinstance(node, ast.Name):
            binding = self._tree.names.binding(node)
            if binding is None:
                return None
            if binding.kind == "param":
                return STORES.get(node.id)
            return self.kind(binding.value, steps + 1) if binding.value is not None else None
        if isinstance(node, (ast.Subscript, ast.Call)) and (name := self.context_entry(node)):
            return STORES.get(name)
        if isinstance(node, ast.Subscript):
            return "asset" if self.kind(node.value, steps + 1) == "asset" else None
        return None

    def context_entry(self, node: ast.expr) -> str | None:
        """The key of ``context["key"]`` or ``context.get("key")``, for what is a task's context."""
        if isinstance(node, ast.Subscript):
            key, holder = node.slice, node.value
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "get"
            and node.args
        ):
            key, holder = node.args[0], node.func.value
        else:
            return None
        name = self._values.constant(key)
        return name if isinstance(name, str) and self.is_context(holder) else None

    def is_context(self, node: ast.expr, steps: int = 0) -> bool:
        """Whether an expression is a task's context: a ``**kwargs``, a parameter named so, or asked for."""
        if steps > MAX_STEPS:
            return False
        if isinstance(node, ast.Call):
            return catalog.is_airflow(self._tree.names.qualified(node.func), "get_current_context")
        if not isinstance(node, ast.Name):
            return False
        binding = self._tree.names.binding(node)
        if binding is None:
            return False
        if binding.kind == "param":
            function = binding.scope.node
            starred = (
                isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
                and function.args.kwarg is binding.node
            )
            return starred or node.id in ("context", "ctx", "_context")
        return binding.value is not None and self.is_context(binding.value, steps + 1)

    def asset(self, node: ast.expr, steps: int = 0) -> ast.expr | None:
        """The asset that an asset store expression is narrowed to."""
        if steps > MAX_STEPS:
            return None
        if isinstance(node, ast.Name):
            binding = self._tree.names.binding(node)
            return self.asset(binding.value, steps + 1) if binding and binding.value is not None else None
        if isinstance(node, ast.Subscript) and not self.context_entry(node):
            return node.slice
        return None

    def _store_call(self, call: ast.Call, function: ast.Attribute, kind: StoreKind) -> StoreCall:
        named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        key = call.args[0] if call.args else named.get("key")
        value = call.args[1] if len(call.args) > 1 else named.get("value")
        asset = self.asset(function.value) if kind == "asset" else None
        return StoreCall(call, kind, function.attr.removeprefix("a"), key, value, asset)

    def _variable_call(self, call: ast.Call, function: ast.Attribute) -> VariableCall | None:
        if not catalog.is_airflow(self._tree.names.qualified(function.value), "Variable"):
            return None
        named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        key = call.args[0] if call.args else named.get("key")
        if key is None or isinstance(key, ast.Starred):
            return None
        text = self._values.text(key)
        identity = text if text is not None else self._anonymous(key)
        value = call.args[1] if len(call.args) > 1 else named.get("value")
        return VariableCall(call, function.attr, key, identity, text, value)

    def _anonymous(self, key: ast.expr) -> str:
        """A key that is no text: two functions' parameters of one name are two keys."""
        function = self._tree.function_of(key)
        local = function is not None and any(
            isinstance(node, ast.Name)
            and (bound := self._tree.names.binding(node))
            and bound.scope.node is function
            for node in ast.walk(key)
        )
        return f"{ast.unparse(key)} in line {function.lineno}" if local and function else ast.unparse(key)


def context_name(function: FunctionNode | None) -> str | None:
    """How a function can write its context: its ``**kwargs`` or its ``context`` parameter."""
    if function is None:
        return None
    if function.args.kwarg is not None:
        return function.args.kwarg.arg
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return "context" if "context" in names else None
