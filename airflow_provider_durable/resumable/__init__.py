"""
The mixin: decide, submit, wait, stop. Knows no service and imports no cloud library.

``ResumableJobMixin`` is Airflow 3.3's, made whole; below 3.3 it is a shim that always resubmits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_durable.resumable.compat import HAS_TASK_STATE_STORE
from airflow_provider_durable.resumable.exceptions import (
    JobFailedError,
    LostJobError,
    LostSubmissionError,
    RecoveryUnavailableError,
    ServiceThrottledError,
    StatusUnavailableError,
    SubmissionRejectedError,
    SubmissionUnclearError,
    TaskStoppedError,
    TriggerFailedError,
)

if TYPE_CHECKING or HAS_TASK_STATE_STORE:
    from airflow_provider_durable.resumable.mixin import ResumableJobMixin
else:
    from airflow_provider_durable.resumable.shim import ResumableJobMixin

__all__ = [
    "HAS_TASK_STATE_STORE",
    "JobFailedError",
    "LostJobError",
    "LostSubmissionError",
    "RecoveryUnavailableError",
    "ResumableJobMixin",
    "ServiceThrottledError",
    "StatusUnavailableError",
    "SubmissionRejectedError",
    "SubmissionUnclearError",
    "TaskStoppedError",
    "TriggerFailedError",
]
