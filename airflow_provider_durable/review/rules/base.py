"""What a rule is, and the registry of them. The engine knows no single rule, the rules no engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from airflow_provider_durable.review.dagfile import DagFile
from airflow_provider_durable.review.findings import Report

Check = Callable[[DagFile], Iterator[Report]]


@dataclass(frozen=True)
class Rule:
    """A check with a stable code.

    :param code: never used again for something else, once released.
    :param name: the same in words, for people.
    :param summary: one line for listings.
    """

    code: str
    name: str
    summary: str
    check: Check

    @property
    def page(self) -> str:
        """The rule's page in the documentation."""
        return f"docs/review/{self.code}.md"


REGISTRY: dict[str, Rule] = {}


def rule(code: str, name: str, summary: str) -> Callable[[Check], Check]:
    """Register a check under a code."""

    def register(check: Check) -> Check:
        if code in REGISTRY:
            raise ValueError(f"{code} is taken by {REGISTRY[code].name}")
        REGISTRY[code] = Rule(code, name, summary, check)
        return check

    return register


def nothing(dag_file: DagFile) -> Iterator[Report]:
    """Find nothing: for what the engine itself reports."""
    yield from ()
