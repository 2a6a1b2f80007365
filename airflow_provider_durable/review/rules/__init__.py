"""The rules, grouped by what they are about. Importing this package registers all of them.

DUR0xx reading the file, DUR1xx where state lives, DUR2xx submitting and waiting, DUR3xx durable
counterparts, DUR4xx the mixin, DUR5xx the state stores, DUR6xx Airflow versions.
"""

from __future__ import annotations

from airflow_provider_durable.review.rules import (
    mixin,
    reading,
    reconnect,
    split,
    store_keys,
    store_values,
    upstream,
    variables,
    versions,
    waiting,
)
from airflow_provider_durable.review.rules.base import REGISTRY, Rule

ALL_RULES: dict[str, Rule] = dict(sorted(REGISTRY.items()))

__all__ = [
    "ALL_RULES",
    "Rule",
    "mixin",
    "reading",
    "reconnect",
    "split",
    "store_keys",
    "store_values",
    "upstream",
    "variables",
    "versions",
    "waiting",
]
