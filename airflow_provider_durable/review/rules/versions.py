"""DUR6xx: code that needs a newer Airflow than the one it is reviewed for."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Level, Report
from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.model.stores import STORES
from airflow_provider_durable.review.rules.base import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile

_SDK_NAMES = ("ResumableJobMixin", "NEVER_EXPIRE")
#: Scopes of the stores, and the base class of their backends.
_STATE_MODULE = "airflow.sdk.state"


@rule("DUR601", "needs-airflow-3-3", "the code uses what only Airflow 3.3 and newer have")
def needs_newer_airflow(dag_file: DagFile) -> Iterator[Report]:
    """State stores or the mixin are used below Airflow 3.3."""
    if dag_file.target.has_stores:
        return
    yield from _imports(dag_file)
    yield from _store_uses(dag_file)
    for task in dag_file.tasks.all:
        durable = task.own("durable")
        if durable is not None and dag_file.values.constant(durable) is True:
            yield Report(
                durable,
                f"durable=True has no effect on {dag_file.target}: {task.label} submits a new job on every "
                "retry. It "
                "reconnects from Airflow 3.3 on. Until then, waiting in the triggerer (deferrable=True with "
                "the "
                "operator's wait switch on) keeps a worker's death from mattering while the job runs.",
                Level.NOTE,
            )


def _imports(dag_file: DagFile) -> Iterator[Report]:
    for node in dag_file.tree.imports:
        if _is_guarded(dag_file, node):
            continue
        if _imports_state_module(node):
            yield Report(
                node,
                f"{dag_file.target} has no {_STATE_MODULE}: this import fails. It came with 3.3.",
            )
        if not isinstance(node, ast.ImportFrom) or (node.module or "").split(".")[:2] != ["airflow", "sdk"]:
            continue
        for alias in node.names:
            if alias.name == "ResumableJobMixin":
                yield Report(
                    alias,
                    f"{dag_file.target} has no ResumableJobMixin: this import fails. This package's runs on "
                    "both: "
                    "it submits on every retry below 3.3 and reconnects from 3.3 on.",
                    before=f"from {node.module} import ResumableJobMixin",
                    after=f"from {catalog.PACKAGE} import ResumableJobMixin",
                )
            elif alias.name in _SDK_NAMES:
                yield Report(
                    alias, f"{dag_file.target} has no {alias.name}: this import fails. It came with 3.3."
                )


def _imports_state_module(node: ast.Import | ast.ImportFrom) -> bool:
    if isinstance(node, ast.Import):
        return any(alias.name == _STATE_MODULE for alias in node.names)
    package, _, name = _STATE_MODULE.rpartition(".")
    return node.module == _STATE_MODULE or (
        node.module == package and any(alias.name == name for alias in node.names)
    )


def _store_uses(dag_file: DagFile) -> Iterator[Report]:
    seen: set[tuple[ast.AST | None, str]] = set()
    for call in dag_file.stores.calls:
        name = next(name for name, kind in STORES.items() if kind == call.kind)
        function = dag_file.tree.function_of(call.call)
        if (function, name) in seen or _is_guarded(dag_file, call.call):
            continue
        seen.add((function, name))
        keep = (
            "keep the cursor where the data goes, in the transaction that writes it, or make the step safe "
            "to repeat"
            if call.kind == "task"
            else "keep the watermark next to the data, written in the same transaction"
        )
        yield Report(
            call.call,
            f"{dag_file.target} has no {name}: it is not in the context, so this task fails or runs without "
            "state. "
            f"It came with 3.3. Until then, {keep}.",
            before=suggest.before(dag_file, call.call),
        )


def _is_guarded(dag_file: DagFile, node: ast.AST) -> bool:
    """Code under try/except or a version check has an answer for the older Airflow already."""
    for outer in dag_file.tree.ancestors(node):
        if isinstance(outer, ast.Try) and outer.handlers:
            return True
        if isinstance(outer, ast.If) and any(
            isinstance(part, (ast.Name, ast.Attribute))
            and any(
                word in ast.unparse(part).lower()
                for word in ("version", "airflow_v", "type_checking", "state_store")
            )
            for part in ast.walk(outer.test)
        ):
            return True
    return False
