"""The command: ``airflow-durable review PATH...``.

Exit status: 0 when there is nothing but notes, 1 when there are findings, 2 when it was called wrongly.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.review import config, discovery, engine
from airflow_provider_durable.review.formats import FORMATS
from airflow_provider_durable.review.rules import ALL_RULES
from airflow_provider_durable.review.versions import target

if TYPE_CHECKING:
    from collections.abc import Sequence

DESCRIPTION = "Review Dag files: what should be durable, and what only looks so."
EPILOG = (
    "Reads the files as text: it never imports or runs them and needs no Airflow database. "
    "Silence one place with '# noqa: CODE'. Settings can stand in pyproject.toml under "
    # No brackets: the help formatter of Airflow's own command line takes them for markup.
    f"{config.TABLE}."
)


@dataclass(frozen=True)
class Option:
    """An argument of the command, described once for both command lines that offer it."""

    flags: tuple[str, ...]
    settings: dict[str, Any]


OPTIONS: tuple[Option, ...] = (
    Option(("paths",), {"metavar": "PATH", "nargs": "*", "help": "Dag files, or folders to search for them"}),
    Option(
        ("--select",),
        {
            "metavar": "CODES",
            "action": "append",
            "default": None,
            "help": "run only rules whose code begins with one of these (comma-separated)",
        },
    ),
    Option(
        ("--ignore",),
        {"metavar": "CODES", "action": "append", "default": None, "help": "leave out rules, likewise"},
    ),
    Option(
        ("--exclude",),
        {
            "metavar": "PATTERN",
            "action": "append",
            "default": None,
            "help": "leave out files and folders whose name or path matches",
        },
    ),
    Option(
        ("--format",),
        {
            "dest": "output_format",
            "choices": sorted(FORMATS),
            "default": "text",
            "help": "how to write findings (default: text)",
        },
    ),
    Option(
        ("--airflow-version",),
        {
            "metavar": "VERSION",
            "default": None,
            "help": "give advice for this version (default: the installed one)",
        },
    ),
    Option(
        ("--config",),
        {"metavar": "FILE", "default": None, "help": "the pyproject.toml to use (default: the nearest one)"},
    ),
    Option(("--exit-zero",), {"action": "store_true", "help": "exit with 0 even when there are findings"}),
    Option(("--list-rules",), {"action": "store_true", "help": "list the rules and exit"}),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``airflow-durable``; returns the exit status."""
    parser = argparse.ArgumentParser(prog="airflow-durable", description="Tools for durable Airflow Dags.")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    command = commands.add_parser("review", help=DESCRIPTION, description=DESCRIPTION, epilog=EPILOG)
    for option in OPTIONS:
        command.add_argument(*option.flags, **option.settings)
    return run(parser.parse_args(argv))


def run(arguments: argparse.Namespace) -> int:
    """Run a review with parsed arguments; returns the exit status."""
    if arguments.list_rules:
        for rule in ALL_RULES.values():
            sys.stdout.write(f"{rule.code}  {rule.name}: {rule.summary}\n")
        return 0
    paths = [Path(path) for path in arguments.paths]
    try:
        settings, version = _settings(arguments, paths)
    except ValueError as error:
        sys.stderr.write(f"airflow-durable review: {error}\n")
        return 2
    result = engine.review(discovery.find(paths, settings.exclude), settings.selection, version)
    try:
        FORMATS[arguments.output_format](result, version, sys.stdout)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever reads (head, a pager that was left) has seen enough; the interpreter must not flush again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if result.failed and not arguments.exit_zero else 0


def _settings(arguments: argparse.Namespace, paths: Sequence[Path]) -> tuple[config.Settings, Any]:
    if not paths:
        raise ValueError("no PATH given: name Dag files or folders")
    for path in paths:
        if not path.exists():
            raise ValueError(f"no such file or folder: {path}")
    if arguments.config is not None and not Path(arguments.config).is_file():
        raise ValueError(f"--config: no such file: {arguments.config}")
    file = Path(arguments.config) if arguments.config is not None else config.nearest(paths)
    settings = config.override(
        config.load(file),
        select=arguments.select or (),
        ignore=arguments.ignore or (),
        exclude=arguments.exclude or (),
    )
    return settings, target(arguments.airflow_version or settings.airflow_version)


if __name__ == "__main__":
    sys.exit(main())
