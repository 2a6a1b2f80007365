"""The tasks of a Dag file: classic operators, mapped ones, TaskFlow functions, with what they are given."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.review.model import catalog
from airflow_provider_durable.review.model.scopes import start
from airflow_provider_durable.review.model.values import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.tree import Tree
    from airflow_provider_durable.review.model.values import Values

MAX_BASES = 20
_TASK = re.compile(r"^airflow\.(sdk|decorators)(\.\w+)*\.task(\.(?P<kind>\w+))?$")
_DAG = re.compile(r"^airflow\.(sdk|decorators|models)(\.\w+)*\.dag$")
_GROUP = re.compile(r"^airflow\.(sdk|decorators)(\.\w+)*\.task_group$")


@dataclass(frozen=True)
class Param:
    """An argument of a task and where it was given: ``own``, or the ``default_args`` of a Dag or group."""

    value: ast.expr
    origin: str


@dataclass(eq=False)
class Task:
    """One task, as the code that makes it says.

    :param call: the call that makes it; for a mapped task the one that ends in ``expand``.
    :param cls: the operator's dotted name; for TaskFlow the decorator's.
    :param given: the call that holds the arguments (``partial`` for mapped operators).
    :param base: the class that is known of: for a class of the file itself, the one it comes from.
    :param opaque: further arguments may come from a ``**mapping`` that reading cannot tell.
    """

    call: ast.Call
    cls: str
    given: ast.Call
    params: dict[str, Param]
    base: str = ""
    opaque: bool = False
    mapped: bool = False
    function: FunctionNode | None = None
    task_id: str = ""
    positional: list[ast.expr] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The class's own name."""
        return catalog.leaf(self.cls)

    @property
    def kind(self) -> str:
        """The name under which the catalog may know the class."""
        return catalog.leaf(self.base or self.cls)

    @property
    def label(self) -> str:
        """How messages name the task."""
        return f"'{self.task_id}'" if self.task_id else f"the {self.name} in line {self.call.lineno}"

    @property
    def is_taskflow(self) -> bool:
        """Made by a decorated function."""
        return bool(_TASK.match(self.cls))

    @property
    def is_sensor(self) -> bool:
        """A sensor class or a function under ``@task.sensor``."""
        return (
            catalog.is_sensor(self.cls)
            or catalog.is_sensor(self.base)
            or (self.is_taskflow and self.name == "sensor")
        )

    def own(self, name: str) -> ast.expr | None:
        """An argument given at the task itself."""
        param = self.params.get(name)
        return param.value if param and param.origin == "own" else None

    def arguments(self) -> Iterator[tuple[str, ast.expr]]:
        """All arguments given at the task itself, positional ones under an empty name."""
        for value in self.positional:
            yield "", value
        for name, param in self.params.items():
            if param.origin == "own":
                yield name, param.value


class Tasks:
    """Finds the tasks of a file."""

    def __init__(self, tree: Tree, values: Values) -> None:
        self._tree = tree
        self._values = values
        self.all: list[Task] = []
        self.by_call: dict[ast.Call, Task] = {}
        self.task_functions: dict[FunctionNode, str] = {}
        self.dag_functions: set[FunctionNode] = set()
        self.group_functions: set[FunctionNode] = set()
        self.operator_functions: dict[FunctionNode, list[Task]] = {}
        self._decorators: dict[FunctionNode, ast.expr] = {}
        self._read_decorators()
        self._read_calls()

    def constant(self, task: Task, name: str) -> Any:
        """The value of an argument, ``None`` when not given, UNKNOWN when it cannot be told."""
        param = task.params.get(name)
        if param is None:
            return UNKNOWN if task.opaque else None
        return self._values.constant(param.value)

    def decorator(self, function: FunctionNode) -> ast.expr:
        """The ``@task`` of a TaskFlow function, as written."""
        return self._decorators[function]

    def is_mapped(self, function: FunctionNode) -> bool:
        """Whether a task function is expanded anywhere in the file."""
        if any(task.mapped and task.function is function for task in self.all):
            return True
        return any(task.mapped for task in self.operator_functions.get(function, ()))

    def runs(self, function: FunctionNode) -> list[Task]:
        """The tasks that run a function: its TaskFlow invocations and the operators given it as callable."""
        found = [task for task in self.all if task.function is function]
        return found + self.operator_functions.get(function, [])

    def _read_decorators(self) -> None:
        for function in self._tree.functions:
            for decorator in function.decorator_list:
                target = decorator.func if isinstance(decorator, ast.Call) else decorator
                qualified = self._tree.names.qualified(target)
                if _TASK.match(qualified):
                    self.task_functions[function] = qualified
                    self._decorators[function] = decorator
                elif _DAG.match(qualified):
                    self.dag_functions.add(function)
                elif _GROUP.match(qualified):
                    self.group_functions.add(function)

    def _read_calls(self) -> None:
        consumed: set[ast.Call] = set()
        for call in self._tree.calls:
            task = self._mapped(call, consumed)
            if task is None and call not in consumed:
                task = self._plain(call)
            if task is None:
                continue
            self.all.append(task)
            self.by_call[call] = task
            if task.given is not call:
                self.by_call[task.given] = task
            callable_ = task.own("python_callable")
            if callable_ is not None and (function := self.function(callable_)) is not None:
                self.operator_functions.setdefault(function, []).append(task)
        # A partial call begins where its expand call begins, so it may have been read first.
        self.all = [task for task in self.all if task.call not in consumed]
        self.all.sort(key=lambda task: start(task.call))

    def function(self, node: ast.expr) -> FunctionNode | None:
        """The function of this file that an expression names."""
        if not isinstance(node, ast.Name):
            return None
        binding = self._tree.names.binding(node)
        if binding and isinstance(binding.node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            return binding.node
        return None

    def _mapped(self, call: ast.Call, consumed: set[ast.Call]) -> Task | None:
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in ("expand", "expand_kwargs"):
            return None
        base = function.value
        if (
            isinstance(base, ast.Call)
            and isinstance(base.func, ast.Attribute)
            and base.func.attr == "partial"
        ):
            consumed.add(base)
            return self._make(call, base.func.value, [base, call], mapped=True)
        if (
            isinstance(base, ast.Call)
            and isinstance(base.func, ast.Attribute)
            and base.func.attr == "override"
        ):
            consumed.add(base)
            return self._make(call, base.func.value, [base, call], mapped=True)
        return self._make(call, base, [call], mapped=True)

    def _plain(self, call: ast.Call) -> Task | None:
        function = call.func
        if isinstance(function, ast.Call) and isinstance(function.func, ast.Attribute):
            if function.func.attr == "override":
                return self._make(call, function.func.value, [function, call], mapped=False)
            return None
        return self._make(call, function, [call], mapped=False)

    def _make(self, call: ast.Call, target: ast.expr, given: list[ast.Call], *, mapped: bool) -> Task | None:
        function = self.function(target)
        taskflow = function is not None and function in self.task_functions
        if taskflow and function is not None:
            cls = self.task_functions[function]
        else:
            cls = self._tree.names.qualified(target)
            if isinstance(target, ast.Call) or not self._is_operator(cls, target, given):
                return None
            function = None
        params: dict[str, Param] = {}
        opaque = False
        settings: list[ast.Call] = list(given)
        if function is not None and isinstance(decorator := self._decorators[function], ast.Call):
            settings.insert(0, decorator)
        inherited, whole = self._default_args(call, given)
        for name, value in inherited.items():
            params[name] = Param(value, "default_args")
        opaque = not whole
        for part in settings:
            for keyword in part.keywords:
                if keyword.arg is not None:
                    params[keyword.arg] = Param(keyword.value, "own")
                    continue
                entries, complete = self._values.mapping(keyword.value)
                params.update({name: Param(value, "own") for name, value in entries.items()})
                opaque = opaque or not complete
        task = Task(call, cls, given[0], params, self._base(cls), opaque, mapped, function)
        task.positional = [arg for part in given for arg in part.args]
        task_id = self._values.constant(task.own("task_id"))
        task.task_id = task_id if isinstance(task_id, str) else (function.name if function else "")
        return task

    def _base(self, cls: str) -> str:
        """The first class outside the file that a class comes from."""
        for _ in range(MAX_BASES):
            local = next((node for node in self._tree.classes if "." + node.name == cls), None)
            if local is None:
                return cls
            bases = [self._tree.names.qualified(base) for base in local.bases]
            # The operator among the bases, where mixins stand before it.
            cls = next((base for base in bases if catalog.is_operator(base)), bases[0] if bases else "")
        return cls

    def _is_operator(self, cls: str, target: ast.expr, given: list[ast.Call]) -> bool:
        name = catalog.leaf(cls) or (target.attr if isinstance(target, ast.Attribute) else "")
        if not name[:1].isupper() or not cls:
            return False
        if any(keyword.arg == "task_id" for part in given for keyword in part.keywords):
            return name not in ("TaskInstance", "XCom", "TaskInstanceKey", "XComArg")
        return catalog.is_operator(cls) and any(
            keyword.arg is None for part in given for keyword in part.keywords
        )

    def _default_args(self, call: ast.Call, given: list[ast.Call]) -> tuple[dict[str, ast.expr], bool]:
        """The ``default_args`` that hold for a task: its own, its groups', its Dag's; the inner ones win."""
        entries: dict[str, ast.expr] = {}
        complete = True
        for holder in self._holders(call, given):
            expression = next((kw.value for kw in holder.keywords if kw.arg == "default_args"), None)
            if expression is None:
                complete = complete and not any(kw.arg is None for kw in holder.keywords)
                continue
            more, whole = self._values.mapping(expression)
            entries = {**more, **entries}
            complete = complete and whole
        return entries, complete

    def _holders(self, call: ast.Call, given: list[ast.Call]) -> Iterator[ast.Call]:
        yield from given
        named = next((kw.value for part in given for kw in part.keywords if kw.arg == "dag"), None)
        bound_dag = self._tree.names.binding(named) if isinstance(named, ast.Name) else None
        if bound_dag is not None and isinstance(bound_dag.value, ast.Call):
            yield bound_dag.value
        for outer in self._tree.ancestors(call):
            if isinstance(outer, (ast.With, ast.AsyncWith)):
                for item in outer.items:
                    context = item.context_expr
                    if (
                        isinstance(context, ast.Name)
                        and (bound := self._tree.names.binding(context)) is not None
                    ):
                        context = bound.value or context
                    if isinstance(context, ast.Call):
                        yield context
            elif isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)) and (
                outer in self.dag_functions or outer in self.group_functions
            ):
                yield from (
                    decorator for decorator in outer.decorator_list if isinstance(decorator, ast.Call)
                )
