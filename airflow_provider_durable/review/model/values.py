"""What expressions are worth, as far as reading tells: constants, durations, texts with holes, mappings."""

from __future__ import annotations

import ast
import datetime as dt
import operator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_durable.review.model.scopes import Names

MAX_DEPTH = 12


class _Unknown:
    """The value of an expression that reading cannot tell; false, and equal to nothing but itself."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
HOLE: Final = "\N{OBJECT REPLACEMENT CHARACTER}"

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_DURATIONS = ("datetime.timedelta", "pendulum.duration", "pendulum.Duration")


class Values:
    """Evaluates expressions without running any code of the file."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._mappings: dict[ast.expr, tuple[dict[str, ast.expr], bool]] = {}

    def constant(self, node: ast.expr | None, depth: int = 0) -> Any:
        """The value of literals, names bound to such, arithmetic and durations; for all else UNKNOWN."""
        if node is None or depth > MAX_DEPTH:
            return UNKNOWN
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            binding = self._names.binding(node)
            if binding is None or binding.kind != "assign":
                return UNKNOWN
            return self.constant(binding.value, depth + 1)
        if isinstance(node, (ast.List, ast.Tuple)):
            items = [self.constant(item, depth + 1) for item in node.elts]
            return UNKNOWN if any(item is UNKNOWN for item in items) else items
        if isinstance(node, ast.UnaryOp):
            return self._unary(node, depth)
        if isinstance(node, ast.BinOp):
            return self._binary(node, depth)
        if isinstance(node, ast.JoinedStr):
            text = self.text(node, depth)
            return UNKNOWN if text is None or HOLE in text else text
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        return UNKNOWN

    def seconds(self, node: ast.expr | None) -> float | None:
        """A duration in seconds, from a number or a timedelta."""
        value = self.constant(node)
        if isinstance(value, dt.timedelta):
            return value.total_seconds()
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(value)
        return None

    def text(self, node: ast.expr | None, depth: int = 0) -> str | None:
        """A string with ``HOLE`` where its parts are not known; None for what is not seen to be a string."""
        if node is None or depth > MAX_DEPTH:
            return None
        if isinstance(node, ast.Constant):
            return node.value if isinstance(node.value, str) else None
        if isinstance(node, ast.JoinedStr):
            return "".join(self._piece(piece, depth) for piece in node.values)
        if isinstance(node, ast.Name):
            binding = self._names.binding(node)
            if binding is None or binding.kind != "assign":
                return None
            return self.text(binding.value, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.text(node.left, depth + 1), self.text(node.right, depth + 1)
            return None if left is None and right is None else (left or HOLE) + (right or HOLE)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            left = self.text(node.left, depth + 1)
            return None if left is None else left.replace("%s", HOLE).replace("%d", HOLE)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            return self._method_text(node, node.func, depth)
        return None

    def mapping(self, node: ast.expr | None, depth: int = 0) -> tuple[dict[str, ast.expr], bool]:
        """The entries of a dict expression, and whether these are all of them."""
        if node is None or depth > MAX_DEPTH:
            return {}, False
        # default_args are asked for once a task, which is often.
        if node not in self._mappings:
            self._mappings[node] = {}, False
            self._mappings[node] = self._entries(node, depth)
        return self._mappings[node]

    def _entries(self, node: ast.expr, depth: int) -> tuple[dict[str, ast.expr], bool]:
        if isinstance(node, ast.Dict):
            return self._display(node, depth)
        if isinstance(node, ast.Name):
            binding = self._names.binding(node)
            return self.mapping(binding.value if binding and binding.kind == "assign" else None, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            left, left_complete = self.mapping(node.left, depth + 1)
            right, right_complete = self.mapping(node.right, depth + 1)
            return {**left, **right}, left_complete and right_complete
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "copy" and not node.args:
                return self.mapping(node.func.value, depth + 1)
            if self._names.qualified(node.func) in ("copy.copy", "copy.deepcopy") and node.args:
                return self.mapping(node.args[0], depth + 1)
            if self._names.qualified(node.func) == "dict":
                entries, complete = self.mapping(node.args[0], depth + 1) if node.args else ({}, True)
                for keyword in node.keywords:
                    if keyword.arg is None:
                        more, whole = self.mapping(keyword.value, depth + 1)
                        entries, complete = {**entries, **more}, complete and whole
                    else:
                        entries = {**entries, keyword.arg: keyword.value}
                return entries, complete
        return {}, False

    def _display(self, node: ast.Dict, depth: int) -> tuple[dict[str, ast.expr], bool]:
        entries: dict[str, ast.expr] = {}
        complete = True
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                more, whole = self.mapping(value, depth + 1)
                entries.update(more)
                complete = complete and whole
                continue
            name = self.constant(key, depth + 1)
            if isinstance(name, str):
                entries[name] = value
            else:
                complete = False
        return entries, complete

    def _piece(self, piece: ast.expr, depth: int) -> str:
        if isinstance(piece, ast.Constant):
            return str(piece.value)
        if isinstance(piece, ast.FormattedValue):
            value = self.constant(piece.value, depth + 1)
            if isinstance(value, (str, int)):
                return str(value)
        return HOLE

    def _unary(self, node: ast.UnaryOp, depth: int) -> Any:
        value = self.constant(node.operand, depth + 1)
        if value is UNKNOWN:
            return UNKNOWN
        if isinstance(node.op, ast.Not):
            return not value
        if isinstance(node.op, ast.USub) and isinstance(value, (int, float)):
            return -value
        return UNKNOWN

    def _binary(self, node: ast.BinOp, depth: int) -> Any:
        function = _OPERATORS.get(type(node.op))
        if function is None:
            return UNKNOWN
        left, right = self.constant(node.left, depth + 1), self.constant(node.right, depth + 1)
        if left is UNKNOWN or right is UNKNOWN:
            return UNKNOWN
        # Numbers, durations and joined strings only: "x" * 10**9 must cost nothing here.
        if isinstance(node.op, ast.Mult) and not all(
            isinstance(side, (int, float, dt.timedelta)) for side in (left, right)
        ):
            return UNKNOWN
        try:
            return function(left, right)
        except (TypeError, ValueError, ArithmeticError):
            return UNKNOWN

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = self._names.qualified(node.func)
        if name in _DURATIONS:
            positional = [self.constant(arg, depth + 1) for arg in node.args]
            named = {str(keyword.arg): self.constant(keyword.value, depth + 1) for keyword in node.keywords}
            try:
                return dt.timedelta(*positional, **named)
            except (TypeError, OverflowError):
                return UNKNOWN
        if name in ("int", "float", "str") and len(node.args) == 1 and not node.keywords:
            value = self.constant(node.args[0], depth + 1)
            try:
                return UNKNOWN if value is UNKNOWN else {"int": int, "float": float, "str": str}[name](value)
            except (TypeError, ValueError, OverflowError):
                return UNKNOWN
        if isinstance(node.func, ast.Attribute) and node.func.attr == "total_seconds":
            value = self.constant(node.func.value, depth + 1)
            return value.total_seconds() if isinstance(value, dt.timedelta) else UNKNOWN
        return UNKNOWN

    def _method_text(self, node: ast.Call, function: ast.Attribute, depth: int) -> str | None:
        if function.attr == "format":
            template = self.text(function.value, depth + 1)
            return None if template is None else _format_holes(template)
        if function.attr in ("lower", "upper", "strip", "replace"):
            return self.text(function.value, depth + 1)
        return None


def _format_holes(template: str) -> str:
    result, inside = [], False
    # Doubled braces are literal ones; that is what keeps Jinja in format strings intact.
    template = template.replace("{{", "\0").replace("}}", "\1")
    for character in template:
        if character == "{":
            inside = True
            result.append(HOLE)
        elif character == "}":
            inside = False
        elif not inside:
            result.append(character)
    return "".join(result).replace("\0", "{").replace("\1", "}")
