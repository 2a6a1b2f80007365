"""
What an operator's parameters come to in a run.

A module of its own, because a Dag file's operators are parsed more often than they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from airflow_provider_durable.resumable.hooks import JobHooks
from airflow_provider_durable.resumable.parameters import check_wait, seconds_of


@dataclass(frozen=True)
class Settings:
    """An operator's parameters as they act in a run: after templates and Airflow's configuration."""

    waits: bool
    defers: bool
    reschedules: bool
    recovers: bool
    cancel_on_kill: bool
    on_clear: str
    on_lost_submission: str
    poll_seconds: float
    poll_error_window: timedelta

    @property
    def leaves_worker(self) -> bool:
        """Whether the worker is free while the job runs, so that a later process takes up the wait."""
        return self.defers or self.reschedules

    @property
    def wants_record(self) -> bool:
        """Whether anything but the external id has to be remembered."""
        return self.recovers or self.on_lost_submission == "fail" or self.leaves_worker

    @classmethod
    def of(cls, operator: JobHooks) -> Settings:
        """
        Return the settings of ``operator``.

        :raises ValueError: rendered parameters that cannot be combined
        """
        waits = operator.should_wait()
        check_wait(operator, waits)
        waits = waits is not False
        overrides = {name: getattr(type(operator), name) for name in ("make_trigger", "recover_job")}
        reschedules = waits and operator.mode == "reschedule" and bool(operator.durable)
        defers = waits and not reschedules and bool(operator.deferrable)
        return cls(
            waits=waits,
            defers=defers and overrides["make_trigger"] is not JobHooks.make_trigger,
            reschedules=reschedules,
            recovers=overrides["recover_job"] is not JobHooks.recover_job,
            cancel_on_kill=bool(operator.cancel_on_kill),
            on_clear=operator.on_clear,
            on_lost_submission=operator.on_lost_submission,
            poll_seconds=seconds_of(getattr(operator, operator.poll_interval_parameter)),
            poll_error_window=timedelta(seconds=seconds_of(operator.poll_error_window)),
        )
