"""Findings as SARIF 2.1.0, which code scanning services read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from airflow_provider_durable.review.rules import ALL_RULES

if TYPE_CHECKING:
    from airflow_provider_durable.review.engine import Result
    from airflow_provider_durable.review.findings import Finding
    from airflow_provider_durable.review.versions import Target

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def write(result: Result, target: Target, stream: TextIO) -> None:
    """Write one SARIF log with one run."""
    codes = sorted({finding.code for finding in result.findings})
    rules = [
        {
            "id": code,
            "name": ALL_RULES[code].name,
            "shortDescription": {"text": ALL_RULES[code].summary},
            "help": {"text": f"See {ALL_RULES[code].page}."},
        }
        for code in codes
    ]
    document = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": {"name": "airflow-durable review", "rules": rules}},
                "columnKind": "unicodeCodePoints",
                "properties": {"airflowVersion": str(target.version)},
                "results": [_result(finding, codes.index(finding.code)) for finding in result.findings],
            }
        ],
    }
    json.dump(document, stream, indent=2)
    stream.write("\n")


def _result(finding: Finding, index: int) -> dict[str, Any]:
    text = finding.message
    if finding.after:
        text += f"\n\nInstead:\n{finding.after}"
    return {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": finding.level.value,
        "message": {"text": text},
        "locations": [{"physicalLocation": _location(finding)}],
        "relatedLocations": [
            {"physicalLocation": {"artifactLocation": _artifact(finding.path), "region": {"startLine": line}}}
            for line in finding.related
        ],
    }


def _location(finding: Finding) -> dict[str, Any]:
    return {
        "artifactLocation": _artifact(finding.path),
        "region": {
            "startLine": finding.line,
            "startColumn": finding.column,
            "endLine": finding.end_line,
            "endColumn": finding.end_column,
        },
    }


def _artifact(path: str) -> dict[str, str]:
    if Path(path).is_absolute():
        return {"uri": Path(path).as_uri()}
    return {"uri": quote(path)}
