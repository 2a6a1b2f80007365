"""Steps as they happen: a moving line for the one that runs, a tick for each that is done.

Without a terminal (a pipe, CI) the same steps are plain lines.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table


@dataclass
class Step:
    """What a step found out, shown beside its tick."""

    result: str = ""


@dataclass
class Screen:
    """Where the demo shows what it does."""

    console: Console = field(default_factory=lambda: Console(highlight=False))

    @contextmanager
    def step(self, title: str) -> Iterator[Step]:
        """Show that ``title`` is under way, then how long it took and its result."""
        started = time.monotonic()
        step = Step()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        try:
            with Progress(
                *columns, console=self.console, transient=True, disable=not self.console.is_terminal
            ) as progress:
                progress.add_task(title)
                yield step
        except BaseException:
            self.console.print(f"[red]✗[/] {title}")
            raise
        seconds = f"{time.monotonic() - started:5.1f} s"
        self.console.print(
            f"[green]✓[/] {title:<46} [dim]{seconds}[/]  [bold]{step.result}[/]", soft_wrap=True
        )

    def table(self, title: str, rows: Mapping[str, object]) -> None:
        """A small table of names and values."""
        table = Table(title=title, show_header=False, title_justify="left", min_width=60)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in rows.items():
            table.add_row(name, str(value))
        self.console.print()
        self.console.print(table)

    def say(self, text: str) -> None:
        """One line for a person."""
        self.console.print(text, soft_wrap=True)
