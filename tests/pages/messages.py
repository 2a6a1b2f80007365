"""The error messages of the package, as they stand in its source, with ``…`` for what is filled in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from pages.embed import REPOSITORY

PACKAGE = REPOSITORY / "airflow_provider_durable"
#: What an exception's name ends with, and what raises a warning.
RAISES = re.compile(r"(Error|Exception|Timeout|warn)$")
#: So many letters of its own make a text a message of ours, not that of another exception.
OWN_LETTERS = 12


def messages() -> dict[str, Path]:
    """Every message, with the module that it comes from."""
    modules = {path: ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}
    # Of a message that several modules raise, these have the name.
    named = {
        target.id: template(node.value)
        for module in modules.values()
        for node in module.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {text: path for path, module in modules.items() for text in _of(module, named)}


def _of(module: ast.Module, named: dict[str, str]) -> Iterator[str]:
    for node in ast.walk(module):
        for argument in _texts(node):
            text = named.get(argument.id, "") if isinstance(argument, ast.Name) else template(argument)
            if len(re.sub(r"[^A-Za-z]", "", text)) >= OWN_LETTERS:
                yield text


def _texts(node: ast.AST) -> list[ast.expr]:
    """What becomes an error message at ``node``: an exception's first argument, or a description."""
    if isinstance(node, ast.Call) and RAISES.search(_name(node.func)):
        return node.args[:1]
    if isinstance(node, ast.FunctionDef) and node.name == "describe_failure":
        made = [each for each in ast.walk(node) if isinstance(each, (ast.Assign, ast.Return)) and each.value]
        return [each.value for each in made if each.value is not None]
    return []


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def template(node: ast.expr) -> str:
    """Return the text that an expression makes, with ``…`` for each value; empty if it makes none."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(template(value) or "…" for value in node.values)
    if isinstance(node, ast.BinOp):
        return (template(node.left) or "…") + (template(node.right) or "…")
    return ""


def matches(listed: str, text: str) -> bool:
    """Return whether a message as a page lists it, with ``…`` for any text, stands for one of the source."""
    parts = [re.escape(part) for part in re.split("…+", listed)]
    return re.match(".*?".join(parts), text, re.DOTALL) is not None


def listed_messages(page: str) -> list[str]:
    """Return the messages that a page of tables lists: the code in their first columns."""
    rows = [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| `")]
    return [message for row in rows for message in re.findall("`([^`]+)`", row)]
