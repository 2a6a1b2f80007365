"""Findings as JSON, for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from airflow_provider_durable.review.engine import Result
    from airflow_provider_durable.review.findings import Finding
    from airflow_provider_durable.review.versions import Target


def write(result: Result, target: Target, stream: TextIO) -> None:
    """Write one JSON object. Keys are only ever added."""
    document = {
        "airflow_version": str(target.version),
        "files": result.files,
        "findings": [as_dict(finding) for finding in result.findings],
    }
    json.dump(document, stream, indent=2)
    stream.write("\n")


def as_dict(finding: Finding) -> dict[str, Any]:
    """A finding as plain values."""
    return {
        "code": finding.code,
        "name": finding.name,
        "path": finding.path,
        "line": finding.line,
        "column": finding.column,
        "end_line": finding.end_line,
        "end_column": finding.end_column,
        "level": finding.level.value,
        "message": finding.message,
        "before": finding.before,
        "after": finding.after,
        "related_lines": list(finding.related),
    }
