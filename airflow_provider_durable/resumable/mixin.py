"""
``ResumableJobMixin`` for Airflow 3.3 and later.

A subclass of Airflow's own mixin: what is written against that one holds for ours.
"""

from __future__ import annotations

from airflow_provider_durable.resumable.compat import AirflowResumableJobMixin
from airflow_provider_durable.resumable.hooks import JobHooks


class ResumableJobMixin(JobHooks, AirflowResumableJobMixin):
    """
    Mixin for operators that start one job in an external system and wait for it.

    **Purpose:** whatever dies while the job runs, the next try finds the job again: it neither runs the
    work twice, nor loses the result, nor leaves the job running with nobody waiting for it.

    **How it works:** it keeps the contract of ``airflow.sdk.ResumableJobMixin``: six hooks,
    ``external_id_key``, ``durable``. An operator with just these works unchanged, and its reconnected
    tries return ``get_job_result`` like its first ones. Three more hooks are optional. ``recover_job``
    closes the window between submission and storage: a token, stored before the request leaves,
    travels with it and finds the job. ``cancel_job`` lets an eviction leave the job running where a
    person's click stops it. ``make_trigger`` lets the task wait in the triggerer, as durable as in the
    worker.

    **What it does not do:** it cannot find a job that carries no token (see ``on_lost_submission``), and
    it streams no logs.

    **Known limitation:** with ``mode="reschedule"`` no process of the task exists between two polls. A
    task that is marked failed, or whose run is deleted, at such a moment leaves its job running; one that
    is cleared reconnects to it.

    :param durable: remember the job across tries; False submits always and stores nothing
    :param wait_for_termination: wait for the end of the job; False returns its external id once it is
        accepted and stored
    :param deferrable: wait in the triggerer (default: Airflow's ``[operators] default_deferrable``)
    :param mode: ``"poke"`` holds the worker between polls, ``"reschedule"`` frees it, without a triggerer
    :param poll_interval: seconds, or a timedelta, between two status requests
    :param poll_error_window: for how long status requests may fail in a row; seconds or a timedelta
    :param cancel_on_kill: False never cancels the job, whoever stops the task
    :param on_clear: after a clear, ``"resubmit"`` runs a finished job anew, ``"resume"`` returns the result
        of a job that succeeded
    :param on_lost_submission: when nobody can tell whether a submission started a job, ``"resubmit"``
        takes the risk of a second one, ``"fail"`` fails the task without a retry
    :param state_retention: how long the store keeps the job's keys: a timedelta,
        ``airflow.sdk.NEVER_EXPIRE``, or None for Airflow's ``[state_store] default_retention_days``

    Example::

        class RenderOperator(ResumableJobMixin, BaseOperator):
            external_id_key = "render_job_id"

            def execute(self, context):
                return self.execute_resumable(context)

            def submit_job(self, context):
                return self.hook.submit(name=self.submission_token)

            def recover_job(self, token, context):
                return self.hook.find(name=token)

            def get_job_status(self, external_id, context):
                return self.hook.status(external_id)

            def is_job_active(self, status):
                return status in ("QUEUED", "RUNNING")

            def is_job_succeeded(self, status):
                return status == "DONE"

            def get_job_result(self, external_id, context):
                return self.hook.result(external_id)

            def cancel_job(self, external_id, context):
                self.hook.cancel(external_id)
    """
