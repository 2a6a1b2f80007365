"""What a rule reports and what a reader gets: value objects without behaviour of their own."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ast


class Level(str, enum.Enum):
    """How much a finding weighs: notes are shown, but do not make the command fail."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True)
class Report:
    """One thing that a rule saw, before it is tied to a file and a code.

    :param node: the code it is about; its first line is where the finding is shown.
    :param message: one or two sentences: what is wrong for this code, and what to do.
    :param before: the code as it is, where a rewrite can be shown.
    :param after: the same code as it should be.
    :param related: further line numbers that the message speaks of.
    """

    node: ast.AST
    message: str
    level: Level = Level.WARNING
    before: str | None = None
    after: str | None = None
    related: tuple[int, ...] = ()


@dataclass(frozen=True)
class Finding:
    """A report at its place in a file. Lines and columns count from 1."""

    code: str
    name: str
    path: str
    line: int
    column: int
    end_line: int
    end_column: int
    level: Level
    message: str
    before: str | None = None
    after: str | None = None
    related: tuple[int, ...] = ()

    @property
    def sort_key(self) -> tuple[str, int, int, str, str]:
        """The order in which findings are shown: by place, then by code."""
        return (self.path, self.line, self.column, self.code, self.message)
