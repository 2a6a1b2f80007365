"""Our operators differ from Apache's as docs/differences.md says, and in nothing else."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import re
from typing import TYPE_CHECKING

import pytest

import airflow_provider_durable.operators
from airflow_provider_durable.resumable import ResumableJobMixin
from harness.moving import MODULES
from parity.differences import DIFFERENCES, PAGE, meant, rows
from parity.observed import KINDS
from parity.pairs import PAIRS

if TYPE_CHECKING:
    from parity.pairs import Pair

each_pair = pytest.mark.parametrize("pair", PAIRS, ids=str)


@each_pair
@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_is_what_is_listed(pair: Pair, kind: str) -> None:
    assert KINDS[kind](pair) == meant(pair, kind)


@each_pair
def test_the_name_is_apaches_and_every_task_is_one_of_its_class(pair: Pair) -> None:
    theirs, ours = pair.both
    assert ours.__name__ == theirs.__name__
    assert issubclass(ours, theirs)
    assert ours(**pair.given()).task_type == theirs(**pair.given()).task_type


def test_every_operator_is_compared() -> None:
    package = airflow_provider_durable.operators
    ours = {
        (module.name, name)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        for name, value in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(value, ResumableJobMixin) and value.__module__ == module.name and name[0] != "_"
    }
    assert ours == {(pair.module, pair.name) for pair in PAIRS}


def test_the_page_about_moving_over_names_every_import_line() -> None:
    page = (PAGE.parent / "moving-over.md").read_text()
    named = set(re.findall(r"^\| `(airflow\.providers[\w.]+)` \| `([\w.]+)` \|$", page, re.MULTILINE))
    assert (
        named == {(pair.apache_module, pair.module) for pair in PAIRS} == {(b, a) for a, b in MODULES.items()}
    )


def test_every_row_is_about_something_and_says_why() -> None:
    names = {pair.name for pair in PAIRS}
    for difference in DIFFERENCES:
        assert difference.operators <= names, difference
        assert difference.kind in KINDS, difference
        assert difference.names, difference
        assert difference.reason, difference


def test_what_they_do_is_shown_by_tests() -> None:
    shown = [row[-1] for row in rows("What they do")]
    assert len(shown) > 5
    for cell in shown:
        name, place = re.fullmatch(r"\[`(\w+)`\]\(([^)]+)\)", cell).groups()  # type: ignore[union-attr]
        tree = ast.parse((PAGE.parent / place).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, cell
