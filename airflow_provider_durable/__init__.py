"""Durable operators for Apache Airflow: one task instance, one external job, whatever dies.

The public names live in :mod:`airflow_provider_durable.resumable` and are loaded on first use, so that
importing the package, which Airflow does to list its providers, costs nothing and needs no cloud library.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_durable.resumable import ResumableJobMixin
    from airflow_provider_durable.resumable.exceptions import (
        JobFailedError,
        LostSubmissionError,
        RecoveryUnavailableError,
        SubmissionRejectedError,
        SubmissionUnclearError,
    )

__version__ = "0.1.0"

__all__ = [
    "JobFailedError",
    "LostSubmissionError",
    "RecoveryUnavailableError",
    "ResumableJobMixin",
    "SubmissionRejectedError",
    "SubmissionUnclearError",
    "__version__",
]

_RESUMABLE = "airflow_provider_durable.resumable"
_LAZY = {name: f"{_RESUMABLE}.exceptions" for name in __all__ if name.endswith("Error")}
_LAZY["ResumableJobMixin"] = _RESUMABLE


def __getattr__(name: str) -> Any:
    """Import a public name's module when the name is first asked for (PEP 562)."""
    try:
        module = _LAZY[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
