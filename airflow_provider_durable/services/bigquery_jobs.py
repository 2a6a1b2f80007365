"""
The requests about BigQuery jobs: start one under an id, ask, look for it, cancel it.

On the public methods of the provider's hook, and on the Google client that it makes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import (
    ServiceThrottledError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)
from airflow_provider_durable.resumable.compat import AirflowException
from airflow_provider_durable.resumable.record import utcnow
from airflow_provider_durable.services import bigquery
from airflow_provider_durable.services.bigquery import Place

with requires_extra("google"):
    from google.api_core.exceptions import Conflict, NotFound
    from google.cloud.bigquery import DEFAULT_RETRY

if TYPE_CHECKING:
    from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
    from google.api_core.retry import Retry
    from google.cloud.bigquery import Client

#: A worker's clock and that of Google differ by less.
_CLOCK_SKEW = timedelta(minutes=5)
#: Seconds for which the client repeats a request, by default, and that one attempt may take. What lasts
#: longer is seen, logged and repeated by whoever asks.
_PATIENCE = 60.0
_TIMEOUT = 30.0
#: The client repeats jobs.insert for ten minutes.
_LONGEST_INSERT = timedelta(minutes=15)


class BigQueryJobs:
    """
    The jobs that a connection reaches.

    :param hook: the provider's hook
    :param retry: how the client repeats a failing request: the client's default gives up after a minute
        here, not after ten; None has it sent once
    :param timeout: seconds for each attempt
    """

    def __init__(
        self, hook: BigQueryHook, retry: Retry | None = DEFAULT_RETRY, timeout: float | None = None
    ) -> None:
        self._hook = hook
        self._retry: Any = DEFAULT_RETRY.with_timeout(_PATIENCE) if retry is DEFAULT_RETRY else retry
        self._timeout = timeout or _TIMEOUT
        # One for each thread: a cancellation runs beside a status request, and sessions are not shared.
        self._clients = threading.local()

    def _client(self, project: str | None) -> Client:
        clients: dict[Any, Any] = self._clients.__dict__
        if project not in clients:
            clients[project] = self._hook.get_client(project_id=cast("str", project))
        client: Client = clients[project]
        return client

    def get(self, job_id: str, place: Place) -> Any:
        """
        Send jobs.get.

        :param job_id: the job's id
        :param place: where it is; without a location, jobs in US and EU are found
        :raises NotFound: there is no such job in that place
        :raises ServiceThrottledError: BigQuery wants fewer requests
        """
        try:
            return self._client(place.project).get_job(
                job_id,
                project=place.project,
                location=place.location,
                retry=self._retry,
                timeout=self._timeout,
            )
        except Exception as error:
            if bigquery.is_throttled(error):
                raise ServiceThrottledError(str(error)) from error
            raise

    def search(self, job_ids: Sequence[str], place: Place, since: datetime | None) -> Iterator[Any]:
        """
        Yield those of the jobs that exist, wherever they are.

        jobs.list takes no location and returns the caller's own jobs of the last six months, the latest
        first, for which it needs no permission.
        https://cloud.google.com/bigquery/docs/reference/rest/v2/jobs/list

        :param job_ids: the jobs' ids
        :param place: where to look; without a location, everywhere
        :param since: no job of these ids is older; None searches all that BigQuery lists
        """
        missing = []
        for job_id in job_ids:
            try:
                yield self.get(job_id, place)
            except NotFound:  # noqa: PERF203 - one or two of them
                missing.append(job_id)
        if place.location is not None or not missing:
            return
        listed = self._client(place.project).list_jobs(
            project=place.project,
            min_creation_time=since - _CLOCK_SKEW if since else None,
            page_size=1000,
            retry=self._retry,
            timeout=self._timeout,
        )
        for job in listed:
            if job.job_id in missing:
                missing.remove(job.job_id)
                yield self.get(job.job_id, Place.of(job))
                if not missing:
                    return

    def insert(self, job_id: str, configuration: dict[str, Any], place: Place) -> tuple[Any, bool]:
        """
        Send jobs.insert.

        The client repeats it by itself, for up to ten minutes, which the id makes harmless: BigQuery
        answers 409 to a repeat of what it accepted.

        :param job_id: the job's id
        :param configuration: its configuration
        :param place: where to run it; without a location, where the data is
        :return: the job of this id, and whether it was there before or an earlier repeat started it
        :raises SubmissionRejectedError: BigQuery refused it, and there is no job of this id
        :raises SubmissionUnclearError: there may be a job
        :raises ServiceThrottledError: later
        """
        try:
            job = self._hook.insert_job(
                configuration=configuration,
                job_id=job_id,
                project_id=cast("str", place.project),
                location=place.location,
                nowait=True,
            )
        except Conflict as conflict:
            return self._existing(job_id, place, conflict), True
        except AirflowException:
            raise
        except Exception as error:
            problem = bigquery.submission_error(error)
            if not isinstance(problem, SubmissionRejectedError):
                raise problem from error
            # The answer to the last repeat: an earlier one may have been accepted.
            if (found := self._look(job_id, place, problem)) is None:
                raise problem from error
            return found, True
        return job, False

    def _existing(self, job_id: str, place: Place, conflict: Conflict) -> Any:
        """Return the job that a 409 speaks of."""
        named = bigquery.place_in_conflict(conflict, job_id)
        deadline = time.monotonic() + (bigquery.VISIBLE_AFTER if named else 0.0)
        while True:
            try:
                return self.get(job_id, named or place)
            except NotFound as error:
                if named is None:
                    # Of a table, say, that a statement was to create.
                    raise SubmissionRejectedError(f"BigQuery refused the job: {conflict}") from conflict
                if time.monotonic() > deadline:
                    raise SubmissionUnclearError(f"{conflict}, but: {error}") from conflict
            time.sleep(1.0)

    def _look(self, job_id: str, place: Place, problem: SubmissionRejectedError) -> Any:
        try:
            return next(self.search([job_id], place, since=utcnow() - _LONGEST_INSERT), None)
        except Exception as error:
            raise SubmissionUnclearError(str(problem)) from error

    def cancel(self, job_id: str, place: Place) -> None:
        """
        Send jobs.cancel, which returns at once, and which BigQuery accepts for jobs in any state.

        A job that does not exist needs no cancelling.
        """
        try:
            self._cancel(job_id, place)
        except NotFound:
            if place.location is None:
                for job in self.search([job_id], place, since=None):
                    self._cancel(job_id, Place.of(job))

    def _cancel(self, job_id: str, place: Place) -> None:
        self._client(place.project).cancel_job(
            job_id,
            project=place.project,
            location=place.location,
            retry=self._retry,
            timeout=self._timeout,
        )
