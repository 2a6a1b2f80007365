"""DUR4xx: ResumableJobMixin used in ways that switch its protection off."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from airflow_provider_durable.review import suggest
from airflow_provider_durable.review.findings import Level, Report
from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.rules.base import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.dagfile import DagFile
    from airflow_provider_durable.review.model.scopes import FunctionNode

MIXIN = "ResumableJobMixin"
_ROOTS = ("airflow", catalog.PACKAGE)
MAX_BASES = 20


@rule(
    "DUR401",
    "execute-past-the-mixin",
    "an operator with the mixin has an execute() that never goes through execute_resumable()",
)
def execute_past_the_mixin(dag_file: DagFile) -> Iterator[Report]:
    """``execute`` does its own thing."""
    for cls in _resumable_classes(dag_file):
        execute = _method(cls, "execute")
        if execute is None or _is_abstract(dag_file, execute):
            continue
        calls = [call for call in ast.walk(execute) if isinstance(call, ast.Call)]
        if any(_goes_through(call) for call in calls) or _helper_goes_through(cls, calls):
            continue
        yield Report(
            execute,
            f"{cls.name}.execute() never calls self.execute_resumable(context), so nothing is stored and a "
            "retry "
            "submits a second job. What has to happen before or after the job belongs in submit_job() or "
            "get_job_result().",
            before=suggest.lines(dag_file, execute.lineno, execute.end_lineno or execute.lineno),
            after=f"def execute(self, {_context_parameter(execute)}):\n"
            f"    return self.execute_resumable({_context_parameter(execute)})",
        )


@rule("DUR402", "no-external-id-key", "an operator with the mixin has no external_id_key of its own")
def no_external_id_key(dag_file: DagFile) -> Iterator[Report]:
    """The class keeps the mixin's default key."""
    for cls in _resumable_classes(dag_file):
        if _assigns_key(cls) or not _is_direct(dag_file, cls) or not _is_concrete(cls):
            continue
        key = suggest.identifier(_key_from(cls.name), "my_job_id")
        yield Report(
            cls,
            f"{cls.name} has no external_id_key of its own and stores its id under the mixin's default, "
            "'remote_job_id'. Name it now: naming it once jobs are in flight makes their retries submit "
            "again.",
            before=suggest.lines(dag_file, cls.lineno, cls.lineno),
            after=f"class {cls.name}({', '.join(ast.unparse(base) for base in cls.bases)}):\n"
            f'    external_id_key = "{key}"',
        )


@rule(
    "DUR403",
    "submit-job-returns-none",
    "submit_job() returns None, which switches crash recovery off without a word",
)
def submit_job_returns_none(dag_file: DagFile) -> Iterator[Report]:
    """``submit_job`` hands back nothing to store."""
    for cls in _resumable_classes(dag_file):
        submit = _method(cls, "submit_job")
        if submit is None or _is_abstract(dag_file, submit):
            continue
        returns = [
            node
            for node in ast.walk(submit)
            if isinstance(node, ast.Return) and dag_file.tree.function_of(node) is submit
        ]
        empty = [node for node in returns if _is_none(node.value)]
        yields = any(isinstance(node, (ast.Yield, ast.YieldFrom)) for node in ast.walk(submit))
        if yields or (returns and not empty) or (not returns and isinstance(submit.body[-1], ast.Raise)):
            continue
        place: ast.AST = empty[0] if empty else submit
        how = "returns None here" if empty else "returns nothing"
        yield Report(
            place,
            f"{cls.name}.submit_job() {how}: without an id nothing is stored, and every retry submits a new "
            "job. "
            "Return what names the job outside; for a system that has no such name, a plain operator says "
            "so honestly.",
            before=suggest.before(dag_file, place)
            if empty
            else suggest.lines(dag_file, submit.lineno, submit.lineno),
        )


@rule("DUR404", "calls-own-execute", "an operator with the mixin calls its own execute()")
def calls_own_execute(dag_file: DagFile) -> Iterator[Report]:
    """``self.execute()`` from inside the operator."""
    for cls in _resumable_classes(dag_file):
        for call in ast.walk(cls):
            if isinstance(call, ast.Call) and _on_self(call, "execute"):
                function = dag_file.tree.function_of(call)
                if function is None or dag_file.tree.class_of(function) is not cls:
                    continue
                what = (
                    "calls itself without end"
                    if function.name == "execute"
                    else "starts the whole task again"
                )
                segment = ast.get_source_segment(dag_file.source.text, call)
                before = suggest.before(dag_file, call)
                after = before.replace("self.execute(", "self.execute_resumable(") if segment else None
                yield Report(
                    call,
                    f"self.execute() in {cls.name}.{function.name}() {what}; the mixin's entry is "
                    "self.execute_resumable(context), called from execute() and from nowhere else.",
                    before=before,
                    after=after if function.name == "execute" else None,
                )


@rule(
    "DUR405",
    "mixin-after-operator",
    "the mixin stands behind the operator in the bases, so no task can be made of the class",
)
def mixin_after_operator(dag_file: DagFile) -> Iterator[Report]:
    """``class Op(BaseOperator, ResumableJobMixin)``."""
    for cls in dag_file.tree.classes:
        names = [dag_file.qualified(base) for base in cls.bases]
        places = [index for index, name in enumerate(names) if _is_mixin(name)]
        if not places or not any(catalog.is_operator(name) for name in names[: places[0]]):
            continue
        bases = [ast.unparse(base) for base in cls.bases]
        ordered = [bases[places[0]], *(base for index, base in enumerate(bases) if index != places[0])]
        yield Report(
            cls,
            f"{cls.name} names ResumableJobMixin behind its operator base: on Airflow 3.3 making a task of "
            "it raises "
            "TypeError, because the mixin's __init__ then passes on what only the operator's takes. Put it "
            "first.",
            # Airflow says so itself, the first time the Dag is parsed: nothing is lost unseen.
            Level.NOTE,
            before=f"class {cls.name}({', '.join(bases)}):",
            after=f"class {cls.name}({', '.join(ordered)}):",
        )


def is_resumable(dag_file: DagFile, cls: ast.ClassDef, depth: int = 0) -> bool:
    """Whether a class has the mixin, directly or through classes of the same file."""
    if depth > MAX_BASES:
        return False
    for base in cls.bases:
        if _is_mixin(dag_file.qualified(base)):
            return True
        parent = _local_class(dag_file, base)
        if parent is not None and parent is not cls and is_resumable(dag_file, parent, depth + 1):
            return True
    return False


def _resumable_classes(dag_file: DagFile) -> Iterator[ast.ClassDef]:
    return (cls for cls in dag_file.tree.classes if is_resumable(dag_file, cls))


def _is_mixin(qualified: str) -> bool:
    return catalog.leaf(qualified) == MIXIN and qualified.split(".", 1)[0] in _ROOTS


def _is_direct(dag_file: DagFile, cls: ast.ClassDef) -> bool:
    """Whether the mixin's default key would be the one in force: no base of the file names another."""
    for base in cls.bases:
        parent = _local_class(dag_file, base)
        if parent is not None and (_assigns_key(parent) or not _is_direct(dag_file, parent)):
            return False
        # An operator that already has the mixin upstream has a key as well.
        name = catalog.leaf(dag_file.qualified(base))
        if name in catalog.SUBMITTERS and catalog.SUBMITTERS[name].durable:
            return False
    return True


def _is_concrete(cls: ast.ClassDef) -> bool:
    """An abstract base leaves the key to those who know the service."""
    return _method(cls, "submit_job") is not None and "ABC" not in {
        ast.unparse(base).split(".")[-1] for base in cls.bases
    }


def _local_class(dag_file: DagFile, base: ast.expr) -> ast.ClassDef | None:
    if isinstance(base, ast.Name) and (binding := dag_file.tree.names.binding(base)) is not None:
        return binding.node if isinstance(binding.node, ast.ClassDef) else None
    return None


def _method(cls: ast.ClassDef, name: str) -> FunctionNode | None:
    for statement in cls.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)) and statement.name == name:
            return statement
    return None


def _assigns_key(cls: ast.ClassDef) -> bool:
    for node in ast.walk(cls):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        for target in targets:
            name = (
                target.id
                if isinstance(target, ast.Name)
                else target.attr
                if isinstance(target, ast.Attribute)
                else ""
            )
            if name == "external_id_key":
                return True
    # A property is a name of its own as well, if an unusual one.
    return _method(cls, "external_id_key") is not None


def _is_abstract(dag_file: DagFile, function: FunctionNode) -> bool:
    if any(catalog.leaf(dag_file.qualified(item)) == "abstractmethod" for item in function.decorator_list):
        return True
    body = [
        node
        for node in function.body
        if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    ]
    return not body or (len(body) == 1 and isinstance(body[0], ast.Raise))


def _goes_through(call: ast.Call) -> bool:
    function = call.func
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr == "execute_resumable":
        return True
    # super().execute(...) of an operator that has the mixin itself goes through it there.
    return function.attr == "execute" and (
        (
            isinstance(function.value, ast.Call)
            and isinstance(function.value.func, ast.Name)
            and function.value.func.id == "super"
        )
        or (isinstance(function.value, ast.Name) and function.value.id[:1].isupper())
    )


def _helper_goes_through(cls: ast.ClassDef, calls: list[ast.Call]) -> bool:
    """Whether a method that execute() calls goes through the mixin."""
    for call in calls:
        if (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "self"
        ):
            helper = _method(cls, call.func.attr)
            if helper is not None and any(
                _goes_through(node) for node in ast.walk(helper) if isinstance(node, ast.Call)
            ):
                return True
    return False


def _on_self(call: ast.Call, method: str) -> bool:
    function = call.func
    return (
        isinstance(function, ast.Attribute)
        and function.attr == method
        and isinstance(function.value, ast.Name)
        and function.value.id == "self"
    )


def _is_none(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and value.value is None)


def _context_parameter(function: FunctionNode) -> str:
    return function.args.args[1].arg if len(function.args.args) > 1 else "context"


def _key_from(name: str) -> str:
    words = "".join(
        f"_{character.lower()}" if character.isupper() else character for character in name
    ).strip("_")
    return words.removesuffix("_operator") + "_job_id"
