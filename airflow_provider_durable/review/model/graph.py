"""Dependencies between tasks: ``>>``, ``<<``, chain, set_downstream, TaskFlow data, task groups."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from airflow_provider_durable.review.model import catalog

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.tasks import Task, Tasks
    from airflow_provider_durable.review.model.tree import Tree

MAX_DEPTH = 40


@dataclass(frozen=True, eq=False)
class Edge:
    """A dependency and the code that makes it."""

    up: Task
    down: Task
    node: ast.AST


@dataclass(frozen=True)
class _Group:
    """The tasks of a group: the whole of them when it is spoken of, its ends when something is hung on it."""

    members: tuple[Task, ...]


class Graph:
    """The dependencies of a file."""

    def __init__(self, tree: Tree, tasks: Tasks) -> None:
        self._tree = tree
        self._tasks = tasks
        self.edges: list[Edge] = []
        self._down: dict[Task, list[Edge]] = {}
        self._up: dict[Task, list[Edge]] = {}
        self._later: list[tuple[list[Task | _Group], list[Task | _Group], ast.AST]] = []
        self._read_data()
        self._read_operations()
        self._read_calls()
        # Dependencies inside a group decide which of its tasks are its ends, so groups come last.
        for up, down, node in self._later:
            self._connect(self._leaves(up), self._roots(down), node)

    def downstream(self, task: Task) -> list[Edge]:
        """The dependencies that lead out of a task."""
        return self._down.get(task, [])

    def reachable(self, task: Task) -> set[Task]:
        """All tasks that come after a task."""
        seen: set[Task] = set()
        todo = [task]
        while todo:
            for edge in self._down.get(todo.pop(), []):
                if edge.down not in seen:
                    seen.add(edge.down)
                    todo.append(edge.down)
        return seen

    def tasks_of(self, node: ast.AST | None, depth: int = 0) -> list[Task]:
        """The tasks that an expression stands for."""
        found: list[Task] = []
        for item in self._items(node, depth):
            found.extend(item.members if isinstance(item, _Group) else [item])
        return found

    def _items(self, node: ast.AST | None, depth: int = 0) -> list[Task | _Group]:
        if node is None or depth > MAX_DEPTH:
            return []
        if isinstance(node, ast.Call):
            return self._call_items(node, depth)
        if isinstance(node, ast.Name):
            return self._name_items(node, depth)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return [item for element in node.elts for item in self._items(element, depth + 1)]
        if isinstance(node, ast.Attribute) and node.attr == "output":
            return self._items(node.value, depth + 1)
        if isinstance(node, ast.Subscript):
            # result["key"] of a task, and tasks[i] of a list of tasks: in both cases the tasks meant.
            return self._items(node.value, depth + 1)
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self._items(node.elt, depth + 1)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.RShift, ast.LShift)):
            return self._items(node.right, depth + 1)
        if isinstance(node, ast.NamedExpr):
            return self._items(node.value, depth + 1)
        return []

    def _call_items(self, node: ast.Call, depth: int) -> list[Task | _Group]:
        task = self._tasks.by_call.get(node)
        if task is not None:
            return [task]
        name = catalog.leaf(self._tree.names.qualified(node.func))
        if name == "XComArg" and node.args:
            return self._items(node.args[0], depth + 1)
        function = self._tasks.function(node.func)
        if function is not None and function in self._tasks.group_functions:
            return [_Group(self._inside(function))]
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("as_setup", "as_teardown"):
            return self._items(node.func.value, depth + 1)
        return []

    def _name_items(self, node: ast.Name, depth: int) -> list[Task | _Group]:
        binding = self._tree.names.binding(node)
        if binding is None:
            return []
        if binding.kind == "with":
            is_group = isinstance(binding.value, ast.Call) and catalog.is_airflow(
                self._tree.names.qualified(binding.value.func), "TaskGroup"
            )
            return [_Group(self._inside(binding.node))] if is_group else []
        if binding.kind != "assign":
            return []
        items = self._items(binding.value, depth + 1)
        if not items and isinstance(binding.value, (ast.List, ast.Call)):
            items = self._appended(node, depth)
        return items

    def _appended(self, name: ast.Name, depth: int) -> list[Task | _Group]:
        """What ``name.append(...)`` puts into a list of tasks."""
        found: list[Task | _Group] = []
        for call in self._tree.calls:
            function = call.func
            if (
                isinstance(function, ast.Attribute)
                and function.attr == "append"
                and isinstance(function.value, ast.Name)
                and function.value.id == name.id
                and call.args
            ):
                found.extend(self._items(call.args[0], depth + 1))
        return found

    def _inside(self, outer: ast.AST | FunctionNode) -> tuple[Task, ...]:
        return tuple(task for task in self._tasks.all if self._tree.within(task.call, outer))

    def _read_data(self) -> None:
        for task in self._tasks.all:
            for _, value in task.arguments():
                for node in ast.walk(value):
                    if isinstance(node, (ast.Name, ast.Call)) or (
                        isinstance(node, ast.Attribute) and node.attr == "output"
                    ):
                        if isinstance(node, ast.Name) and not self.is_data(node):
                            continue
                        self._connect(self.tasks_of(node), [task], node)

    def is_data(self, name: ast.Name) -> bool:
        """Whether a name stands for a task's result: a bare operator would be no XCom."""
        parent = self._tree.parents.get(name)
        if isinstance(parent, ast.Attribute) and parent.attr == "output":
            return True
        if any(task.is_taskflow for task in self.tasks_of(name)):
            return True
        node: ast.AST | None = name
        for _ in range(MAX_DEPTH):
            if isinstance(node, ast.Subscript):
                node = node.value
            elif isinstance(node, ast.Name):
                binding = self._tree.names.binding(node)
                node = binding.value if binding is not None and binding.kind == "assign" else None
            else:
                break
        if isinstance(node, ast.Call):
            return catalog.leaf(self._tree.names.qualified(node.func)) == "XComArg"
        return isinstance(node, ast.Attribute) and node.attr == "output"

    def _read_operations(self) -> None:
        for operation in self._tree.operations:
            if not isinstance(operation.op, (ast.RShift, ast.LShift)):
                continue
            left, right = self._shift_left(operation.left), self._items(operation.right)
            if isinstance(operation.op, ast.RShift):
                self._relate(left, right, operation)
            else:
                self._relate(right, left, operation)

    def _shift_left(self, node: ast.expr, depth: int = 0) -> list[Task | _Group]:
        """What the left side of a shift hands on: a Label in the middle of a chain is transparent."""
        if (
            isinstance(node, ast.BinOp)
            and isinstance(node.op, (ast.RShift, ast.LShift))
            and depth < MAX_DEPTH
        ):
            if self._is_label(node.right):
                return self._shift_left(node.left, depth + 1)
            return self._items(node.right)
        return self._items(node)

    def _is_label(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and catalog.is_airflow(
            self._tree.names.qualified(node.func), "Label"
        )

    def _read_calls(self) -> None:
        for call in self._tree.calls:
            name = self._tree.names.qualified(call.func)
            if catalog.is_airflow(name, "chain", "chain_linear"):
                self._read_chain(call, in_pairs=catalog.leaf(name) == "chain")
            elif catalog.is_airflow(name, "cross_downstream") and len(call.args) == 2:
                self._relate(self._items(call.args[0]), self._items(call.args[1]), call)
            elif isinstance(call.func, ast.Attribute) and call.args:
                one, other = call.func.value, call.args[0]
                if call.func.attr == "set_downstream":
                    self._relate(self._items(one), self._items(other), call)
                elif call.func.attr == "set_upstream":
                    self._relate(self._items(other), self._items(one), call)

    def _read_chain(self, call: ast.Call, *, in_pairs: bool) -> None:
        steps = [arg for arg in call.args if not self._is_label(arg)]
        for first, second in pairwise(steps):
            up, down = self._items(first), self._items(second)
            lists = isinstance(first, (ast.List, ast.Tuple)) and isinstance(second, (ast.List, ast.Tuple))
            # chain() joins two lists of one length item by item; chain_linear() all with all.
            if in_pairs and lists and len(up) == len(down):
                for one, other in zip(up, down, strict=True):
                    self._relate([one], [other], call)
            else:
                self._relate(up, down, call)

    def _relate(self, up: list[Task | _Group], down: list[Task | _Group], node: ast.AST) -> None:
        if any(isinstance(item, _Group) for item in (*up, *down)):
            self._later.append((up, down, node))
        else:
            self._connect(self._leaves(up), self._roots(down), node)

    def _leaves(self, items: Iterable[Task | _Group]) -> list[Task]:
        found: list[Task] = []
        for item in items:
            if isinstance(item, _Group):
                inside = set(item.members)
                found += [
                    task for task in item.members if not self._reaches(self._down.get(task, []), inside)
                ]
            else:
                found.append(item)
        return found

    def _roots(self, items: Iterable[Task | _Group]) -> list[Task]:
        found: list[Task] = []
        for item in items:
            if isinstance(item, _Group):
                inside = set(item.members)
                found += [
                    task
                    for task in item.members
                    if not any(edge.up in inside for edge in self._up.get(task, []))
                ]
            else:
                found.append(item)
        return found

    @staticmethod
    def _reaches(edges: list[Edge], inside: set[Task]) -> bool:
        return any(edge.down in inside for edge in edges)

    def _connect(self, ups: Iterable[Task], downs: Iterable[Task], node: ast.AST) -> None:
        downs = list(downs)
        for up in ups:
            for down in downs:
                if up is down or any(edge.down is down for edge in self._down.get(up, [])):
                    continue
                edge = Edge(up, down, node)
                self.edges.append(edge)
                self._down.setdefault(up, []).append(edge)
                self._up.setdefault(down, []).append(edge)
