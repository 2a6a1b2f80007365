"""One pass over the syntax tree that notes parents, scopes and the nodes that rules ask for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from airflow_provider_durable.review.model.scopes import (
    Binding,
    Names,
    Scope,
    end,
    module_name,
    start,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from airflow_provider_durable.review.model.scopes import (
        FunctionNode,
        Kind,
    )


class Tree:
    """A parsed file with parents, scopes, and its calls, functions and classes in source order."""

    def __init__(self, module: ast.Module) -> None:
        self.module = module
        self.root = Scope(module)
        self.parents: dict[ast.AST, ast.AST] = {}
        self.calls: list[ast.Call] = []
        self.functions: list[FunctionNode] = []
        self.classes: list[ast.ClassDef] = []
        self.imports: list[ast.Import | ast.ImportFrom] = []
        self.operations: list[ast.BinOp] = []
        self.inner_scopes: dict[ast.AST, Scope] = {module: self.root}
        self._scope_of: dict[ast.AST, Scope] = {}
        self.names = Names(self._scope_of)
        self._walk()
        for nodes in (self.calls, self.functions, self.classes, self.imports, self.operations):
            nodes.sort(key=start)
        for scope in self.inner_scopes.values():
            for bindings in scope.bindings.values():
                bindings.sort(key=lambda binding: binding.position)

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """The nodes around this one, from the inside out."""
        parent = self.parents.get(node)
        while parent is not None:
            yield parent
            parent = self.parents.get(parent)

    def statement(self, node: ast.AST) -> ast.stmt | None:
        """The statement that a node is part of."""
        if isinstance(node, ast.stmt):
            return node
        return next((outer for outer in self.ancestors(node) if isinstance(outer, ast.stmt)), None)

    def within(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether a node lies inside another one."""
        return node is outer or any(ancestor is outer for ancestor in self.ancestors(node))

    def function_of(self, node: ast.AST) -> FunctionNode | None:
        """The function whose body a node belongs to; lambdas belong to the function around them."""
        return self._scope_of[node].function if node in self._scope_of else None

    def class_of(self, function: ast.AST) -> ast.ClassDef | None:
        """The class that defines a method."""
        parent = self.parents.get(function)
        return parent if isinstance(parent, ast.ClassDef) else None

    def _walk(self) -> None:
        stack: list[tuple[ast.AST, Scope]] = [(self.module, self.root)]
        scope_of, parents = self._scope_of, self.parents
        while stack:
            node, scope = stack.pop()
            scope_of[node] = scope
            note = _NOTES.get(type(node))
            inner = note(self, node, scope) or scope if note is not None else scope
            for name in node._fields:
                value = getattr(node, name, None)
                # Decorators, defaults, bases and annotations belong to the scope around the definition.
                target = inner if name == "body" else scope
                if isinstance(value, list):
                    for item in value:
                        if isinstance(item, ast.AST):
                            parents[item] = node
                            stack.append((item, target))
                elif isinstance(value, ast.AST) and not isinstance(value, _MARKERS):
                    parents[value] = node
                    stack.append((value, target))

    def _call(self, node: ast.Call, scope: Scope) -> None:
        self.calls.append(node)

    def _operation(self, node: ast.BinOp, scope: Scope) -> None:
        self.operations.append(node)

    def _function(self, node: FunctionNode, scope: Scope) -> Scope:
        self.functions.append(node)
        _bind(scope, node.name, "function", node, position=start(node))
        return self._callable(node, scope)

    def _callable(self, node: FunctionNode | ast.Lambda, scope: Scope) -> Scope:
        inner = self.inner_scopes[node] = Scope(node, scope)
        given = node.args
        for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
            if arg is not None:
                _bind(inner, arg.arg, "param", arg, position=start(arg))
        return inner

    def _class(self, node: ast.ClassDef, scope: Scope) -> Scope:
        self.classes.append(node)
        _bind(scope, node.name, "class", node, position=start(node))
        inner = self.inner_scopes[node] = Scope(node, scope)
        return inner

    def _import(self, node: ast.Import | ast.ImportFrom, scope: Scope) -> None:
        self.imports.append(node)
        _bind_import(scope, node)

    def _assign(self, node: ast.Assign, scope: Scope) -> None:
        for target in node.targets:
            _bind_target(scope, target, node.value, node, "assign")

    def _annotated(self, node: ast.AnnAssign | ast.NamedExpr, scope: Scope) -> None:
        if node.value is not None:
            _bind_target(scope, node.target, node.value, node, "assign")

    def _augmented(self, node: ast.AugAssign, scope: Scope) -> None:
        _bind_target(scope, node.target, None, node, "assign")

    def _loop(self, node: ast.For | ast.AsyncFor | ast.comprehension, scope: Scope) -> None:
        _bind_target(scope, node.target, None, node, "loop", position=start(node.target))

    def _with(self, node: ast.With | ast.AsyncWith, scope: Scope) -> None:
        for item in node.items:
            if item.optional_vars is not None:
                _bind_target(scope, item.optional_vars, item.context_expr, node, "with", position=start(node))


# What names and operators carry besides themselves: shared objects that say nothing of a place.
_MARKERS = (ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop)
_NOTES: dict[type[ast.AST], Callable[[Tree, Any, Scope], Scope | None]] = {
    ast.Call: Tree._call,
    ast.BinOp: Tree._operation,
    ast.FunctionDef: Tree._function,
    ast.AsyncFunctionDef: Tree._function,
    ast.Lambda: Tree._callable,
    ast.ClassDef: Tree._class,
    ast.Import: Tree._import,
    ast.ImportFrom: Tree._import,
    ast.Assign: Tree._assign,
    ast.AnnAssign: Tree._annotated,
    ast.NamedExpr: Tree._annotated,
    ast.AugAssign: Tree._augmented,
    ast.For: Tree._loop,
    ast.AsyncFor: Tree._loop,
    ast.comprehension: Tree._loop,
    ast.With: Tree._with,
    ast.AsyncWith: Tree._with,
}


def _bind(
    scope: Scope,
    name: str,
    kind: Kind,
    node: ast.AST,
    *,
    value: ast.expr | None = None,
    target: str = "",
    position: tuple[int, int] = (0, 0),
) -> None:
    scope.bindings.setdefault(name, []).append(Binding(name, kind, node, scope, value, target, position))


def _bind_import(scope: Scope, node: ast.Import | ast.ImportFrom) -> None:
    for alias in node.names:
        if isinstance(node, ast.Import):
            name = alias.asname or alias.name.split(".")[0]
            target = alias.name if alias.asname else name
        elif alias.name == "*":
            scope.star_imports.append(module_name(node))
            continue
        else:
            name = alias.asname or alias.name
            target = f"{module_name(node)}.{alias.name}"
        _bind(scope, name, "import", node, target=target, position=start(node))


def _bind_target(
    scope: Scope,
    target: ast.expr,
    value: ast.expr | None,
    node: ast.AST,
    kind: Kind,
    *,
    position: tuple[int, int] | None = None,
) -> None:
    where = end(node) if position is None else position
    if isinstance(target, ast.Name):
        _bind(scope, target.id, kind, node, value=value, position=where)
    elif isinstance(target, ast.Starred):
        _bind_target(scope, target.value, None, node, kind, position=where)
    elif isinstance(target, (ast.Tuple, ast.List)):
        pairs = (
            value.elts
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            else None
        )
        for index, item in enumerate(target.elts):
            _bind_target(scope, item, pairs[index] if pairs else None, node, kind, position=where)
