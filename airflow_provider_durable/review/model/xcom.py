"""Who takes whose XCom: templates, ``.output``, TaskFlow results, and ``xcom_pull`` in a task's function."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from airflow_provider_durable.review.model.values import HOLE, UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.review.model.graph import Graph
    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.tasks import Task, Tasks
    from airflow_provider_durable.review.model.tree import Tree
    from airflow_provider_durable.review.model.values import Values

_TEMPLATE = re.compile(r"xcom_pull\s*\((?P<args>[^()]*)")
_TASK_IDS = re.compile(r"task_ids\s*=\s*(?P<ids>\[[^\]]*\]|\([^)]*|['\"][^'\"]*['\"])")
_KEY = re.compile(r"key\s*=\s*['\"](?P<key>[^'\"]*)['\"]")
_ITSELF = ("ti", "task_instance", "task", "self")
_QUOTED = re.compile(r"['\"]([^'\"]*)['\"]")


@dataclass(frozen=True, eq=False)
class Reference:
    """A task's use of another task's XCom.

    :param parameter: the argument of the consumer that holds it; empty for its function's body.
    """

    producer: Task
    consumer: Task
    parameter: str
    node: ast.AST


@dataclass(frozen=True)
class Pull:
    """A call of ``xcom_pull`` in code.

    :param task_ids: None when it names none: any task's XCom.
    :param own: it asks for the running task's own.
    :param earlier_runs: it also takes those of earlier runs, which no retry deletes.
    """

    call: ast.Call
    task_ids: tuple[str, ...] | None
    key: str | None
    own: bool
    earlier_runs: bool = False


class XComs:
    """The XCom references of a file."""

    def __init__(self, tree: Tree, values: Values, tasks: Tasks, graph: Graph) -> None:
        self._tree = tree
        self._values = values
        self._tasks = tasks
        self._graph = graph
        self._by_id: dict[str, list[Task]] = {}
        self._references: dict[Task, list[Reference]] = {}
        for task in tasks.all:
            if task.task_id:
                self._by_id.setdefault(task.task_id, []).append(task)

    @cached_property
    def pulled_templates(self) -> set[str]:
        """The keys that templates anywhere in the file pull; ``return_value`` where they name none."""
        keys: set[str] = set()
        for node in ast.walk(self._tree.module):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "xcom_pull" in node.value:
                for match in _TEMPLATE.finditer(node.value):
                    key = _KEY.search(match["args"])
                    keys.add(key["key"] if key else "return_value")
        return keys

    def references(self, consumer: Task) -> list[Reference]:
        """The XComs that a task uses, through its arguments and its function."""
        if consumer not in self._references:
            self._references[consumer] = list(self._find(consumer))
        return self._references[consumer]

    def _find(self, consumer: Task) -> Iterator[Reference]:
        for parameter, value in consumer.arguments():
            if parameter in ("task_id", "python_callable", "dag", "task_group", "default_args"):
                continue
            for producer in self.sources(value):
                if producer is not consumer:
                    yield Reference(producer, consumer, parameter, value)
        function = consumer.function or self._callable(consumer)
        if function is not None:
            for pull in self.pulls(function):
                for task_id in pull.task_ids or ():
                    for producer in self.named(task_id, pull.call):
                        if producer is not consumer:
                            yield Reference(producer, consumer, "", pull.call)

    def sources(self, value: ast.expr, depth: int = 0) -> list[Task]:
        """The tasks whose XCom an argument carries."""
        found: list[Task] = []
        for node in ast.walk(value):
            if isinstance(node, (ast.JoinedStr, ast.Constant)):
                found.extend(self._from_text(node))
            elif isinstance(node, ast.Attribute) and node.attr == "output":
                found.extend(self._graph.tasks_of(node.value))
            elif isinstance(node, ast.Name):
                tasks = self._graph.tasks_of(node)
                if tasks and self._graph.is_data(node):
                    found.extend(tasks)
                elif not tasks and depth == 0:
                    found.extend(self._through(node))
            elif isinstance(node, ast.Call) and (tasks := self._graph.tasks_of(node)):
                found.extend(tasks)
            elif (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "format"
            ):
                found.extend(
                    task
                    for argument in (*node.args, *(keyword.value for keyword in node.keywords))
                    for task in self._task_id_of(argument)
                )
        return list(dict.fromkeys(found))

    def pulls(self, function: FunctionNode) -> Iterator[Pull]:
        """The calls of ``xcom_pull`` in a function's body."""
        for call in self._tree.calls:
            if not isinstance(call.func, ast.Attribute) or call.func.attr != "xcom_pull":
                continue
            if self._tree.function_of(call) is function:
                yield self.pull(call)

    def pull(self, call: ast.Call) -> Pull:
        """What one ``xcom_pull`` asks for."""
        arguments = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
        ids = arguments.get("task_ids") or (call.args[0] if call.args else None)
        key = self._values.constant(arguments.get("key") or (call.args[2] if len(call.args) > 2 else None))
        value = self._values.constant(ids) if ids is not None else None
        names: tuple[str, ...] | None = None
        if isinstance(value, str):
            names = (value,)
        elif isinstance(value, list):
            names = tuple(item for item in value if isinstance(item, str))
        elif ids is not None and value is not None:
            names = ()
        own = isinstance(ids, ast.Attribute) and ids.attr == "task_id" and self._is_itself(ids.value)
        if isinstance(ids, ast.Attribute) and ids.attr == "task_id":
            names = tuple(task.task_id for task in self._graph.tasks_of(ids.value)) or names
        prior = self._values.constant(arguments.get("include_prior_dates"))
        return Pull(
            call,
            names,
            key if isinstance(key, str) else None,
            own,
            earlier_runs=prior not in (UNKNOWN, False),
        )

    def _is_itself(self, node: ast.expr) -> bool:
        """Whether an expression is the running task or its instance."""
        if isinstance(node, ast.Subscript):
            return self._values.constant(node.slice) in _ITSELF
        name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
        return name in _ITSELF and not self._graph.tasks_of(node)

    def named(self, task_id: str, near: ast.AST) -> list[Task]:
        """The tasks with this id, with or without their group's prefix; those of the same Dag first."""
        tasks = self._by_id.get(task_id) or self._by_id.get(task_id.rsplit(".", 1)[-1], [])
        if len(tasks) < 2:
            return tasks
        home = self._dag_of(near)
        same = [task for task in tasks if self._dag_of(task.call) is home]
        return same or tasks

    def _callable(self, task: Task) -> FunctionNode | None:
        value = task.own("python_callable")
        return self._tasks.function(value) if value is not None else None

    def _dag_of(self, node: ast.AST) -> ast.AST | None:
        outermost = None
        for outer in self._tree.ancestors(node):
            if isinstance(outer, (ast.With, ast.AsyncWith)) or outer in self._tasks.dag_functions:
                outermost = outer
        return outermost

    def _through(self, name: ast.Name) -> list[Task]:
        """An argument kept in a variable first: a template string, a dict of parameters."""
        binding = self._tree.names.binding(name)
        if binding is None or binding.kind != "assign" or binding.value is None:
            return []
        return self.sources(binding.value, depth=1)

    def _from_text(self, node: ast.JoinedStr | ast.Constant) -> list[Task]:
        text = self._values.text(node)
        if text is None or "xcom_pull" not in text:
            return []
        found: list[Task] = []
        for match in _TEMPLATE.finditer(text):
            for task_id in _template_ids(match["args"]):
                if HOLE not in task_id:
                    found.extend(self.named(task_id, node))
        if isinstance(node, ast.JoinedStr):
            for piece in node.values:
                if isinstance(piece, ast.FormattedValue):
                    found.extend(self._task_id_of(piece.value))
        return found

    def _task_id_of(self, node: ast.expr) -> list[Task]:
        if isinstance(node, ast.Attribute) and node.attr in ("task_id", "output"):
            return self._graph.tasks_of(node.value)
        return []


def _template_ids(arguments: str) -> list[str]:
    named = _TASK_IDS.search(arguments)
    if named:
        return _QUOTED.findall(named["ids"])
    first = re.match(r"\s*(\[[^\]]*\]|['\"][^'\"]*['\"])", arguments)
    return _QUOTED.findall(first[1]) if first else []
