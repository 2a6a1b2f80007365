"""From paths to findings: runs the chosen rules over each file and applies ``# noqa`` and the settings."""

from __future__ import annotations

import ast
import multiprocessing
import os
import re
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_durable.review.dagfile import DagFile
from airflow_provider_durable.review.findings import Finding, Level
from airflow_provider_durable.review.rules import ALL_RULES
from airflow_provider_durable.review.rules.reading import UNREADABLE
from airflow_provider_durable.review.source import UnreadableError, parse, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from airflow_provider_durable.review.findings import Report
    from airflow_provider_durable.review.rules import Rule
    from airflow_provider_durable.review.source import SourceFile
    from airflow_provider_durable.review.versions import Target

# Starting a process costs as much as reviewing some fifty files.
FILES_PER_JOB = 100
MAX_JOBS = 8

# A file without these words cannot hold a Dag, an operator or a store: only parsing it matters.
_MENTIONS = re.compile(r"airflow|task_state_store|asset_state_store", re.IGNORECASE)


@dataclass(frozen=True)
class Selection:
    """Which rules run. A prefix covers all codes that begin with it; the longer prefix wins."""

    select: tuple[str, ...] = ("DUR",)
    ignore: tuple[str, ...] = ()
    per_file_ignores: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def rules(self, path: str = "") -> list[Rule]:
        """The rules for a file."""
        ignored = list(self.ignore)
        for pattern, codes in self.per_file_ignores:
            if fnmatch(path, pattern) or fnmatch(Path(path).name, pattern):
                ignored += codes
        return [
            rule
            for rule in ALL_RULES.values()
            if _longest(rule.code, self.select) > _longest(rule.code, ignored)
        ]


@dataclass
class Result:
    """What a run found."""

    files: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether there is anything more than notes."""
        return any(finding.level is not Level.NOTE for finding in self.findings)


def review(
    paths: Iterable[tuple[Path, str]], selection: Selection, target: Target, *, jobs: int | None = None
) -> Result:
    """Review files, given with the path under which each is shown.

    :param jobs: how many processes to use; by default one a core, when there are enough files for that.
    """
    files = list(paths)
    if jobs is None:
        jobs = min(os.cpu_count() or 1, MAX_JOBS, len(files) // FILES_PER_JOB)
    parts = _in_processes(files, selection, target, jobs) if jobs > 1 else None
    if parts is None:
        parts = [_review_part(files, selection, target)]
    result = Result(len(files), [finding for part in parts for finding in part])
    result.findings.sort(key=lambda finding: finding.sort_key)
    return result


def _in_processes(
    files: list[tuple[Path, str]], selection: Selection, target: Target, jobs: int
) -> list[list[Finding]] | None:
    """The same in several processes; None where none can be started."""
    # Fresh processes: a fork of one with threads, such as Airflow's own command line, may hang.
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(jobs, mp_context=context) as pool:
            futures = [pool.submit(_review_part, files[job::jobs], selection, target) for job in range(jobs)]
            return [future.result() for future in futures]
    except (OSError, BrokenProcessPool):
        # No semaphores or no processes to be had, as in some containers.
        return None


def _review_part(files: list[tuple[Path, str]], selection: Selection, target: Target) -> list[Finding]:
    findings: list[Finding] = []
    for path, shown in files:
        findings += _review_file(path, shown, selection, target)
    return findings


def _review_file(path: Path, shown: str, selection: Selection, target: Target) -> list[Finding]:
    try:
        source = read(path, shown)
    except UnreadableError as error:
        return unreadable(error, shown, selection)
    return review_source(source, selection, target)


def review_text(text: str | bytes, path: str, selection: Selection, target: Target) -> list[Finding]:
    """Review a file that is already in memory."""
    data = text.encode() if isinstance(text, str) else text
    try:
        source = parse(data, path)
    except UnreadableError as error:
        return unreadable(error, path, selection)
    return sorted(review_source(source, selection, target), key=lambda finding: finding.sort_key)


def review_source(source: SourceFile, selection: Selection, target: Target) -> list[Finding]:
    """Run the rules over one parsed file."""
    if not _MENTIONS.search(source.text):
        return []
    try:
        return list(_run(source, selection, target))
    except RecursionError:
        # The parser's limit is higher than ours for some shapes of code.
        reason = UnreadableError("is nested too deeply to be reviewed")
        return unreadable(reason, source.path, selection)
    except Exception as error:  # noqa: BLE001 a fault of a rule in one file must not hide what the others hold
        reason = UnreadableError(f"could not be reviewed, a fault of the review: {error!r}")
        return unreadable(reason, source.path, selection)


def unreadable(error: UnreadableError, path: str, selection: Selection) -> list[Finding]:
    """The one finding of a file that cannot be read."""
    rule = next((rule for rule in selection.rules(path) if rule.code == UNREADABLE), None)
    if rule is None:
        return []
    place = (error.line, error.column, error.line, error.column)
    return [Finding(rule.code, rule.name, path, *place, Level.ERROR, f"The file {error.reason}.")]


def _run(source: SourceFile, selection: Selection, target: Target) -> Iterator[Finding]:
    dag_file = DagFile(source, target)
    seen: set[tuple[str, int, int, str]] = set()
    for rule in selection.rules(source.path):
        for report in rule.check(dag_file):
            finding = _finding(rule, report, source)
            key = (finding.code, finding.line, finding.column, finding.message)
            if key in seen or dag_file.in_unit_test(report.node):
                continue
            if source.suppressed(finding.code, _noqa_lines(dag_file, report.node)):
                continue
            seen.add(key)
            yield finding


def _finding(rule: Rule, report: Report, source: SourceFile) -> Finding:
    node = report.node
    line = getattr(node, "lineno", 1)
    column = getattr(node, "col_offset", 0)
    return Finding(
        code=rule.code,
        name=rule.name,
        path=source.path,
        line=line,
        column=_characters(source, line, column) + 1,
        end_line=getattr(node, "end_lineno", None) or line,
        end_column=_characters(source, getattr(node, "end_lineno", None) or line, _end_column(node)) + 1,
        level=report.level,
        message=report.message,
        before=report.before,
        after=report.after if report.after != report.before else None,
        related=report.related,
    )


def _end_column(node: ast.AST) -> int:
    column: int | None = getattr(node, "end_col_offset", None)
    return column if column is not None else getattr(node, "col_offset", 0)


def _characters(source: SourceFile, line: int, column: int) -> int:
    """Columns of the syntax tree count bytes; editors count characters."""
    if not 1 <= line <= len(source.lines):
        return column
    text = source.lines[line - 1]
    return column if text.isascii() else len(text.encode()[:column].decode(errors="ignore"))


def _noqa_lines(dag_file: DagFile, node: ast.AST) -> tuple[int, ...]:
    """Where a comment can stand: first and last line of a finding, or of the short statement around it."""
    first = getattr(node, "lineno", 1)
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return (first,)
    places = [first, getattr(node, "end_lineno", None) or first]
    statement = dag_file.tree.statement(node)
    if statement is not None and not hasattr(statement, "body"):
        places += [statement.lineno, statement.end_lineno or statement.lineno]
    return tuple(dict.fromkeys(places))


def _longest(code: str, prefixes: Iterable[str]) -> int:
    lengths = [len(prefix) for prefix in prefixes if prefix == "ALL" or code.startswith(prefix)]
    return max((0 if length == 0 else length for length in lengths), default=0)
