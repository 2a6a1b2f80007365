"""DUR3xx: operators for which this package has a durable one."""

from __future__ import annotations

import ast
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Level, Report
from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.rules.base import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile


@dataclass
class _Use:
    """Where a class is used, and how it is named there."""

    nodes: list[ast.expr] = field(default_factory=list)


@rule(
    "DUR301",
    "durable-counterpart",
    "an upstream operator is used for which this package has a durable one: one import line moves a Dag over",
)
def durable_counterpart(dag_file: DagFile) -> Iterator[Report]:
    """An upstream operator with a durable counterpart is used."""
    uses: dict[str, _Use] = defaultdict(_Use)
    for node in _class_uses(dag_file):
        qualified = dag_file.qualified(node)
        if catalog.counterpart(qualified):
            uses[qualified].nodes.append(node)
    for qualified, use in uses.items():
        found = catalog.counterpart(qualified)
        if found is None:
            continue
        module, name = found
        place, before = _import_of(dag_file, use.nodes[0])
        alias = _alias(place, catalog.leaf(qualified))
        after = f"from {module} import {name}" + (f" as {alias}" if alias != name else "")
        lines = sorted({node.lineno for node in use.nodes})
        where = "line " + str(lines[0]) if len(lines) == 1 else f"{len(lines)} places from line {lines[0]} on"
        yield Report(
            place,
            _message(dag_file, name, where),
            Level.WARNING if dag_file.target.has_stores else Level.NOTE,
            before=before,
            after=after,
            related=tuple(lines),
        )


def _message(dag_file: DagFile, name: str, where: str) -> str:
    if dag_file.target.has_stores:
        return (
            f"{name} (used in {where}) has a durable counterpart with the same name and parameters: after a "
            "crash "
            "it finds the job that the earlier try started, also in deferrable mode and when the try died "
            'between submitting and storing the id, and mode="reschedule" frees the worker while it waits.'
        )
    return (
        f"{name} (used in {where}) has a durable counterpart with the same name and parameters. On "
        f"{dag_file.target} it submits again after a crash like the upstream one; it reconnects from "
        "Airflow 3.3 on. "
        "Until then, give the job an id of your own that the service refuses to run twice, where it has one."
    )


def _class_uses(dag_file: DagFile) -> Iterator[ast.expr]:
    for call in dag_file.tree.calls:
        function: ast.expr = call.func
        if isinstance(function, ast.Attribute) and function.attr == "partial":
            function = function.value
        if isinstance(function, (ast.Name, ast.Attribute)):
            yield function
    for cls in dag_file.tree.classes:
        yield from cls.bases


def _import_of(dag_file: DagFile, node: ast.expr) -> tuple[ast.AST, str]:
    """The import that brought the class in, where it names the class itself; else the use."""
    if isinstance(node, ast.Name):
        binding = dag_file.tree.names.binding(node)
        if binding is not None and binding.kind == "import" and isinstance(binding.node, ast.ImportFrom):
            statement = binding.node
            for alias in statement.names:
                if (alias.asname or alias.name) == binding.name:
                    written = alias.name + (f" as {alias.asname}" if alias.asname else "")
                    return alias, f"from {statement.module} import {written}"
    return node, suggest.lines(dag_file, node.lineno, node.lineno)


def _alias(place: ast.AST, name: str) -> str:
    if isinstance(place, ast.alias):
        return place.asname or place.name
    return name
