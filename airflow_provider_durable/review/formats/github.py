"""Findings as workflow commands, which GitHub shows in a pull request's lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from airflow_provider_durable.review.findings import Level

if TYPE_CHECKING:
    from airflow_provider_durable.review.engine import Result
    from airflow_provider_durable.review.versions import Target

_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def write(result: Result, target: Target, stream: TextIO) -> None:
    """Write one command a finding."""
    for finding in result.findings:
        message = finding.message if not finding.after else f"{finding.message}\n\nInstead:\n{finding.after}"
        properties = {
            "title": f"{finding.code} {finding.name}",
            "file": finding.path,
            "line": finding.line,
            "col": finding.column,
            "endLine": finding.end_line,
            "endColumn": finding.end_column,
        }
        listed = ",".join(f"{key}={_property(str(value))}" for key, value in properties.items())
        stream.write(f"::{_COMMANDS[finding.level]} {listed}::{_data(message)}\n")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
