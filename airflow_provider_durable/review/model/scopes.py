"""Scopes and what names in them stand for: imports and their aliases, assignments, parameters.

The walk is iterative, so that code nested as deep as the parser allows does not end in a recursion error.
"""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
ScopeNode = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda
Kind = Literal["import", "assign", "param", "function", "class", "with", "loop"]
Position = tuple[int, int]

MAX_ALIAS_STEPS = 20


@dataclass(frozen=True, eq=False)
class Binding:
    """One place where a name gets its meaning.

    :param node: the statement (or parameter) that binds it.
    :param value: the expression bound, where there is one.
    :param target: the dotted name, for imports.
    :param position: where the meaning starts to hold.
    """

    name: str
    kind: Kind
    node: ast.AST
    scope: Scope
    value: ast.expr | None = None
    target: str = ""
    position: Position = (0, 0)


@dataclass(eq=False)
class Scope:
    """A module, class or function and the names bound directly in it."""

    node: ScopeNode
    parent: Scope | None = None
    bindings: dict[str, list[Binding]] = field(default_factory=dict)
    star_imports: list[str] = field(default_factory=list)

    @property
    def function(self) -> FunctionNode | None:
        """The innermost function that this scope is or lies in."""
        scope: Scope | None = self
        while scope is not None:
            if isinstance(scope.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                return scope.node
            scope = scope.parent
        return None

    def chain(self) -> Iterator[Scope]:
        """This scope and those around it, without classes seen from inside a method."""
        yield self
        scope = self.parent
        while scope is not None:
            if not isinstance(scope.node, ast.ClassDef):
                yield scope
            scope = scope.parent

    def lookup(self, name: str, at: Position | None = None) -> Binding | None:
        """The binding that a use of the name at this position sees, as far as reading tells."""
        for scope in self.chain():
            found = scope.bindings.get(name)
            if not found:
                continue
            if scope is not self or at is None:
                return found[-1]
            earlier = [binding for binding in found if binding.position <= at]
            if earlier:
                return earlier[-1]
            # Bound later only: a loop's previous round, unless the name is the enclosing scope's.
            if not any(name in outer.bindings for outer in list(self.chain())[1:]):
                return found[0]
        return None


def start(node: ast.AST) -> Position:
    """Where a node begins."""
    return (getattr(node, "lineno", 0), getattr(node, "col_offset", 0))


def end(node: ast.AST) -> Position:
    """Where a node ends."""
    return (getattr(node, "end_lineno", 0) or 0, getattr(node, "end_col_offset", 0) or 0)


def module_name(node: ast.ImportFrom) -> str:
    """The module of a ``from`` import; relative ones keep their dots."""
    return "." * node.level + (node.module or "")


class Names:
    """Resolves expressions to dotted names."""

    def __init__(self, scope_of: dict[ast.AST, Scope]) -> None:
        self._scope_of = scope_of
        # Many rules ask for the same few names; both answers never change once the tree is walked.
        self._bindings: dict[ast.Name, Binding | None] = {}
        self._qualified: dict[ast.AST, str] = {}

    def scope(self, node: ast.AST) -> Scope:
        """The scope in which a node is evaluated."""
        return self._scope_of[node]

    def binding(self, node: ast.Name) -> Binding | None:
        """What a name stands for where it is used."""
        if node not in self._bindings:
            scope = self._scope_of.get(node)
            self._bindings[node] = scope.lookup(node.id, (node.lineno, node.col_offset)) if scope else None
        return self._bindings[node]

    def qualified(self, node: ast.AST) -> str:
        """The dotted name of an expression through import aliases, or an empty string.

        A class or function of the file itself has its name with a leading dot; an unbound name is itself.
        """
        known = self._qualified.get(node)
        if known is None:
            known = self._qualified[node] = self._resolve(node)
        return known

    def _resolve(self, node: ast.AST) -> str:
        parts: list[str] = []
        for _ in range(MAX_ALIAS_STEPS):
            if isinstance(node, ast.Subscript):
                # Generic[T] names the same class as Generic.
                node = node.value
            elif isinstance(node, ast.Attribute):
                parts.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Name):
                binding = self.binding(node)
                if binding is None:
                    return ".".join([self._unbound(node), *reversed(parts)])
                if binding.kind == "import":
                    return ".".join([binding.target, *reversed(parts)])
                if binding.kind in ("function", "class"):
                    return ".".join(["." + binding.name, *reversed(parts)])
                if binding.kind != "assign" or not isinstance(binding.value, (ast.Name, ast.Attribute)):
                    return ""
                node = binding.value
            else:
                return ""
        return ""

    def _unbound(self, node: ast.Name) -> str:
        if hasattr(builtins, node.id):
            return node.id
        scope = self._scope_of.get(node)
        while scope is not None:
            if scope.star_imports:
                return f"{scope.star_imports[-1]}.{node.id}"
            scope = scope.parent
        return node.id
