"""Findings for people: place, code, what is wrong, and before and after for this code."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from rich.console import Console
from rich.text import Text

from airflow_provider_durable.review.findings import Level
from airflow_provider_durable.review.rules import ALL_RULES

if TYPE_CHECKING:
    from airflow_provider_durable.review.engine import Result
    from airflow_provider_durable.review.findings import Finding
    from airflow_provider_durable.review.versions import Target

_STYLES = {Level.ERROR: "bold red", Level.WARNING: "bold yellow", Level.NOTE: "bold cyan"}


def write(result: Result, target: Target, stream: TextIO) -> None:
    """Write all findings and a summary."""
    console = Console(file=stream, highlight=False, soft_wrap=True)
    for finding in result.findings:
        _finding(console, finding)
    console.print(Text(_summary(result, target)))


def _finding(console: Console, finding: Finding) -> None:
    head = Text()
    head.append(f"{finding.path}:{finding.line}:{finding.column}", style="bold")
    head.append(f" {finding.code} ", style=_STYLES[finding.level])
    head.append("note: " if finding.level is Level.NOTE else "")
    head.append(finding.message)
    console.print(head)
    for mark, text, style in (("-", finding.before, "red"), ("+", finding.after, "green")):
        # What is wrong is in the file already; it is worth its lines only next to what it should be.
        if text and finding.after:
            for line in text.split("\n"):
                console.print(Text(f"    {mark} {line}".rstrip(), style=style))
    if page := ALL_RULES[finding.code].page:
        console.print(Text(f"    {finding.name}: {page}", style="dim"))
    console.print()


def _summary(result: Result, target: Target) -> str:
    notes = sum(finding.level is Level.NOTE for finding in result.findings)
    found = len(result.findings) - notes
    parts = [_count(found, "finding")]
    if notes:
        parts.append(_count(notes, "note"))
    version = f"{target}, assumed: none is installed" if target.assumed else str(target)
    return f"{' and '.join(parts)} in {_count(result.files, 'file')} ({version})."


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
