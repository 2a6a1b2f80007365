"""How findings are written: for a terminal, for programs, for code scanning, for pull request annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import TextIO

from airflow_provider_durable.review.engine import Result
from airflow_provider_durable.review.formats import github, machine, sarif, terminal
from airflow_provider_durable.review.versions import Target

Writer = Callable[[Result, Target, TextIO], None]

FORMATS: dict[str, Writer] = {
    "text": terminal.write,
    "json": machine.write,
    "sarif": sarif.write,
    "github": github.write,
}

__all__ = ["FORMATS", "Writer"]
