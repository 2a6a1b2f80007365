"""The differences that are meant: the first table of ``docs/differences.md``, which has no other copy."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE
from parity.pairs import parameters_of

if TYPE_CHECKING:
    from parity.pairs import Pair

REPOSITORY = Path(__file__).parents[2]
PAGE = REPOSITORY / "docs" / "differences.md"


@dataclass(frozen=True)
class Difference:
    """One row."""

    operators: frozenset[str]
    kind: str
    names: frozenset[str]
    where: str
    reason: str

    def holds_for(self, pair: Pair) -> bool:
        """Return whether the row is about this operator."""
        return not self.operators or pair.name in self.operators

    def names_for(self, pair: Pair) -> set[str]:
        """Return what is to be found, with the Airflow and the provider package that are installed."""
        apaches = parameters_of(pair.apache).keys()
        if self.where == "where Apache's has none":
            assert self.kind == "parameter, new"
            return set(self.names - apaches)
        holds = any(_holds(condition, apaches) for condition in self.where.split(", or "))
        return set(self.names) if holds else set()


def _holds(condition: str, apaches: Collection[str]) -> bool:
    if condition == "on Airflow 3.3":
        return HAS_TASK_STATE_STORE
    if condition.startswith("where Apache's has `"):
        return code_in(condition) <= set(apaches)
    assert condition == "everywhere", condition
    return True


def rows(heading: str) -> Iterator[list[str]]:
    """Yield the cells of each row of the table under this heading."""
    section = PAGE.read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    for line in lines[2:]:
        yield [cell.strip() for cell in line.strip("|").split("|")]


def code_in(cell: str) -> frozenset[str]:
    """Return what a cell has in backticks."""
    return frozenset(re.findall(r"`([^`]+)`", cell))


DIFFERENCES = [
    Difference(code_in(operators), kind, code_in(names), where, reason)
    for operators, kind, names, where, reason in rows("What can be told from outside")
]


def meant(pair: Pair, kind: str) -> set[str]:
    """Return what is to differ in this way."""
    found: set[str] = set()
    for difference in DIFFERENCES:
        if difference.kind == kind and difference.holds_for(pair):
            found |= difference.names_for(pair)
    return found
