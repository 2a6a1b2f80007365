"""
``ResumableJobMixin`` for Airflow below 3.3, where there is no task state store.

The same hooks and parameters; every try submits a new job, as with ``durable=False``.
"""

from __future__ import annotations

import warnings

from airflow_provider_durable.resumable.hooks import JobHooks


class ResumableJobMixin(JobHooks):
    """
    Mixin for operators that start one job in an external system and wait for it.

    **Purpose:** one operator, one Dag, for Airflow 2.11 up to the latest.

    **How it works:** ``submit_job``, wait, ``get_job_result``. A stopped try cancels its job, because no
    later try could find it. ``deferrable=True`` works.

    **What it does not do:** remember anything from one try to the next. That takes Airflow 3.3.

    **Known limitation:** ``mode="reschedule"`` holds the worker, and says so.

    Parameters as on Airflow 3.3; ``durable`` reads False.
    """

    #: The providers' own stand-in warns of it in words of its own.
    _kept_back = frozenset({"durable"})

    def _settle_durable(self, *, given: bool) -> None:
        asked, self.durable = getattr(self, "durable", False), False
        if given and asked:
            warnings.warn(
                "durable=True needs Airflow 3.3 or later, which brought the task state store. Here every "
                "try submits a new job.",
                UserWarning,
                stacklevel=2,
            )
        if getattr(self, "mode", "poke") == "reschedule":
            warnings.warn(
                "mode='reschedule' needs Airflow 3.3 or later, which brought the task state store. Here the "
                "task holds its worker while the job runs.",
                UserWarning,
                stacklevel=2,
            )
