"""
BigQuery in the triggerer: jobs.get where the job is, on the Google client in a thread.

https://cloud.google.com/bigquery/docs/reference/rest/v2/jobs/get
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.triggers.base import JobTrigger
from airflow_provider_durable.triggers.service import JobService

with requires_extra("google"):
    from google.api_core.exceptions import Forbidden, GoogleAPICallError, NotFound, Unauthorized
    from google.auth.exceptions import GoogleAuthError

    from airflow_provider_durable.services import bigquery
    from airflow_provider_durable.services.bigquery import Place

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Unpack

    from airflow_provider_durable.services.bigquery_jobs import BigQueryJobs
    from airflow_provider_durable.triggers.base import WaitOptions


class BigQueryJobService(JobService):
    """
    The jobs of one connection in one place.

    :param gcp_conn_id: the Airflow connection
    :param impersonation_chain: the service account to act as, or a chain of them
    :param place: the jobs' project and location
    """

    # jobs.get takes one id, and jobs.list none.
    ids_per_request = 1
    visible_after = bigquery.VISIBLE_AFTER

    def __init__(
        self, gcp_conn_id: str, impersonation_chain: str | Sequence[str] | None, place: Place
    ) -> None:
        self._gcp_conn_id = gcp_conn_id
        self._chain = impersonation_chain
        self._place = place
        self._jobs: BigQueryJobs | None = None
        self._lock = threading.Lock()

    @property
    def key(self) -> Hashable:
        """Connection, account and place."""
        chain = self._chain if self._chain is None or isinstance(self._chain, str) else tuple(self._chain)
        return type(self), self._gcp_conn_id, chain, self._place

    def jobs(self) -> BigQueryJobs:
        """Return what asks, made from the connection when it is first needed."""
        with self._lock:
            if self._jobs is None:
                # Here and not above: seconds of imports, which would stall the triggerer's loop.
                from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook

                from airflow_provider_durable.services.bigquery_jobs import BigQueryJobs

                hook = BigQueryHook(
                    gcp_conn_id=self._gcp_conn_id,
                    impersonation_chain=self._chain,
                    use_legacy_sql=False,
                )
                # Sent once: the poller does the repeating, so that it knows how often BigQuery is asked.
                self._jobs = BigQueryJobs(hook, retry=None)
            return self._jobs

    def _forget(self, jobs: BigQueryJobs) -> None:
        """Read the connection again before the next request: its credentials do not work any longer."""
        with self._lock:
            if self._jobs is jobs:
                self._jobs = None

    def ask(self, external_ids: Sequence[JsonValue]) -> dict[JsonValue, str]:
        """Send jobs.get."""
        jobs = self.jobs()
        try:
            return {name: bigquery.status_of(jobs.get(str(name), self._place)) for name in external_ids}
        except NotFound:
            return {}
        except (Forbidden, GoogleAuthError, Unauthorized):
            self._forget(jobs)
            raise

    def is_active(self, status: str) -> bool:
        """Return whether a job of this status has not ended."""
        return status not in bigquery.ENDED

    def is_succeeded(self, status: str) -> bool:
        """Return whether a job of this status has succeeded."""
        return status == bigquery.SUCCEEDED

    def cancel(self, external_id: JsonValue, reason: str) -> None:
        """Send jobs.cancel, which takes no reason."""
        jobs = self.jobs()
        try:
            jobs.cancel(str(external_id), self._place)
        except (GoogleAPICallError, GoogleAuthError):
            self._forget(jobs)
            raise


class BigQueryJobTrigger(JobTrigger):
    """
    Waits for the end of a BigQuery job. Its event also has ``job_id``, ``project_id`` and ``location``.

    :param job_id: the job's id
    :param project_id: the project that it runs in
    :param location: where it runs; without it, jobs in US and EU are found
    :param gcp_conn_id: the Airflow connection
    :param impersonation_chain: the service account to act as, or a chain of them
    :param options: how to wait: see :class:`~airflow_provider_durable.triggers.base.JobTrigger`
    """

    def __init__(
        self,
        *,
        job_id: str,
        project_id: str | None = None,
        location: str | None = None,
        gcp_conn_id: str = "google_cloud_default",
        impersonation_chain: str | Sequence[str] | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        super().__init__(external_id=job_id, **options)
        self.job_id = job_id
        self.place = Place(project_id, location)
        self.gcp_conn_id = gcp_conn_id
        self.impersonation_chain = impersonation_chain

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON."""
        parameters = super().parameters()
        return {
            "job_id": parameters.pop("external_id"),
            "project_id": self.place.project,
            "location": self.place.location,
            "gcp_conn_id": self.gcp_conn_id,
            "impersonation_chain": self.impersonation_chain,
            **parameters,
        }

    def event(self, status: str, message: str) -> dict[str, Any]:
        """
        Return the event, with what became of the job in ``outcome``.

        Apache's operator, should the Dag go back to it, reads ``job_id``, and takes any ``status`` but
        ``error`` for success.
        """
        return {
            **super().event("success" if status == "success" else "error", message),
            "outcome": status,
            "job_id": self.job_id,
            "project_id": self.place.project,
            "location": self.place.location,
        }

    def service(self) -> JobService:
        """Return BigQuery, as this trigger's connection reaches it."""
        return BigQueryJobService(self.gcp_conn_id, self.impersonation_chain, self.place)
