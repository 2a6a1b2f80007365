"""All that is known of one Dag file: what rules are given."""

from __future__ import annotations

import ast
from functools import cached_property
from pathlib import PurePath
from typing import TYPE_CHECKING

from airflow_provider_durable.review.model.graph import Graph
from airflow_provider_durable.review.model.stores import Stores
from airflow_provider_durable.review.model.tasks import Tasks
from airflow_provider_durable.review.model.tree import Tree
from airflow_provider_durable.review.model.values import Values
from airflow_provider_durable.review.model.xcom import XComs

if TYPE_CHECKING:
    from airflow_provider_durable.review.model.scopes import FunctionNode
    from airflow_provider_durable.review.model.tasks import Task
    from airflow_provider_durable.review.source import SourceFile
    from airflow_provider_durable.review.versions import Target

_TEST_FOLDERS = frozenset(("test", "tests", "testing", "system_tests"))


class DagFile:
    """One file, with its model built part by part when a rule first asks."""

    def __init__(self, source: SourceFile, target: Target) -> None:
        self.source = source
        self.target = target

    @cached_property
    def tree(self) -> Tree:
        """Parents, scopes and names."""
        return Tree(self.source.tree)

    @cached_property
    def values(self) -> Values:
        """Constants and the like."""
        return Values(self.tree.names)

    @cached_property
    def tasks(self) -> Tasks:
        """The tasks."""
        return Tasks(self.tree, self.values)

    @cached_property
    def graph(self) -> Graph:
        """Their dependencies."""
        return Graph(self.tree, self.tasks)

    @cached_property
    def xcoms(self) -> XComs:
        """Who takes whose XCom."""
        return XComs(self.tree, self.values, self.tasks, self.graph)

    @cached_property
    def stores(self) -> Stores:
        """Uses of the state stores and of Variables."""
        return Stores(self.tree, self.values)

    @cached_property
    def is_test(self) -> bool:
        """Whether the file's place or name says that it is a test."""
        path = PurePath(self.source.path)
        name = path.name
        return (
            any(part in _TEST_FOLDERS for part in path.parts[:-1])
            or name.startswith(("test_", "conftest"))
            or name.endswith("_test.py")
        )

    def qualified(self, node: ast.AST) -> str:
        """The dotted name of an expression."""
        return self.tree.names.qualified(node)

    def calls_in(self, function: FunctionNode) -> list[ast.Call]:
        """The calls in a function's own body, those of nested functions left out."""
        return self._calls_by_function.get(function, [])

    @cached_property
    def _calls_by_function(self) -> dict[FunctionNode, list[ast.Call]]:
        found: dict[FunctionNode, list[ast.Call]] = {}
        for call in self.tree.calls:
            function = self.tree.function_of(call)
            if function is not None:
                found.setdefault(function, []).append(call)
        return found

    def task_code(self, node: ast.AST) -> FunctionNode | None:
        """The function that a node lies in, if that runs when a task runs and not when the Dag is parsed."""
        function = self.tree.function_of(node)
        if function is None or function in self.tasks.dag_functions or function in self.tasks.group_functions:
            return None
        if function in self._building_functions:
            return None
        if self.is_test and function not in self.tasks.task_functions and not self.tasks_running(function):
            # What a test does to Variables and XComs is no task's doing.
            return None
        return function

    def in_unit_test(self, node: ast.AST) -> bool:
        """Whether a node lies in a test, or its fixture, of a test file: it makes operators to try them."""
        if not self.is_test:
            return False
        for outer in self.tree.ancestors(node):
            if isinstance(outer, ast.ClassDef) and outer.name.startswith("Test"):
                return True
            if isinstance(outer, (ast.FunctionDef, ast.AsyncFunctionDef)):
                fixture = any("fixture" in ast.unparse(decorator) for decorator in outer.decorator_list)
                if fixture or outer.name.startswith("test"):
                    return True
        return False

    @cached_property
    def _building_functions(self) -> set[FunctionNode]:
        """Functions that make tasks or Dags: they run at parse time."""
        building: set[FunctionNode] = set()
        for task in self.tasks.all:
            function = self.tree.function_of(task.call)
            if function is not None and function not in self.tasks.task_functions:
                building.add(function)
        return building

    def tasks_running(self, function: FunctionNode) -> list[Task]:
        """The tasks that run a function."""
        return self.tasks.runs(function)
