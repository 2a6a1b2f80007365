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
    from collections.abc import Iterator

    from airflow_provider_durable.review.model.scopes import (
        FunctionNode,
        Kind,
    )

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


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
            nodes.sort(key=start)  # type: ignore[attr-defined]
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
        while stack:
            node, scope = stack.pop()
            self._scope_of[node] = scope
            self._note(node, scope)
            inner = self._open_scope(node, scope)
            for name, child in _children(node):
                self.parents[child] = node
                # Decorators, defaults, bases and annotations belong to the scope around the definition.
                stack.append((child, inner if name == "body" else scope))

    def _open_scope(self, node: ast.AST, scope: Scope) -> Scope:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            return scope
        inner = self.inner_scopes[node] = Scope(node, scope)
        if not isinstance(node, ast.ClassDef):
            arguments = node.args
            for arg in (
                *arguments.posonlyargs,
                *arguments.args,
                *arguments.kwonlyargs,
                arguments.vararg,
                arguments.kwarg,
            ):
                if arg is not None:
                    _bind(inner, arg.arg, "param", arg, position=start(arg))
        return inner

    def _note(self, node: ast.AST, scope: Scope) -> None:
        if isinstance(node, ast.Call):
            self.calls.append(node)
        elif isinstance(node, ast.BinOp):
            self.operations.append(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            self.functions.append(node)
            _bind(scope, node.name, "function", node, position=start(node))
        elif isinstance(node, ast.ClassDef):
            self.classes.append(node)
            _bind(scope, node.name, "class", node, position=start(node))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imports.append(node)
            _bind_import(scope, node)
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                _bind_target(scope, target, node.value, node, "assign")
        elif (isinstance(node, ast.AnnAssign) and node.value is not None) or isinstance(node, ast.NamedExpr):
            _bind_target(scope, node.target, node.value, node, "assign")
        elif isinstance(node, ast.AugAssign):
            _bind_target(scope, node.target, None, node, "assign")
        elif isinstance(node, (ast.For, ast.AsyncFor)):
            _bind_target(scope, node.target, None, node, "loop", position=start(node))
        elif isinstance(node, _COMPREHENSIONS):
            for generator in node.generators:
                _bind_target(scope, generator.target, None, node, "loop", position=start(node))
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                if item.optional_vars is not None:
                    _bind_target(
                        scope, item.optional_vars, item.context_expr, node, "with", position=start(node)
                    )


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        if isinstance(value, ast.AST):
            yield name, value
        elif isinstance(value, list):
            for item in value:
                if isinstance(item, ast.AST):
                    yield name, item


def _bind(
    scope: Scope,
    name: str,
    kind: Kind,
    node: ast.AST,
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
    position: tuple[int, int] | None = None,
) -> None:
    where = end(node) if position is None else position
    if isinstance(target, ast.Name):
        _bind(scope, target.id, kind, node, value, position=where)
    elif isinstance(target, ast.Starred):
        _bind_target(scope, target.value, None, node, kind, where)
    elif isinstance(target, (ast.Tuple, ast.List)):
        pairs = (
            value.elts
            if isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
            else None
        )
        for index, item in enumerate(target.elts):
            _bind_target(scope, item, pairs[index] if pairs else None, node, kind, where)
