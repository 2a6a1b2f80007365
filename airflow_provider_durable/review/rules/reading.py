"""DUR001: what cannot be read cannot be reviewed. The engine reports it; here it gets its code."""

from __future__ import annotations

from airflow_provider_durable.review.rules.base import nothing, rule

UNREADABLE = "DUR001"

rule(UNREADABLE, "unreadable-file", "the file cannot be read or parsed, so nothing in it was reviewed")(
    nothing
)
