"""
BigQuery: the job id carries the token, so a submission that is repeated meets its own job.

A job is found again where BigQuery put it: its location is learned from the answer and kept.
"""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import (
    ResumableJobMixin,
    SubmissionRejectedError,
)
from airflow_provider_durable.resumable.compat import AirflowException, log_event
from airflow_provider_durable.resumable.record import new_token, utcnow

with requires_extra("google"):
    from airflow.providers.google.cloud.hooks.bigquery import BigQueryHook
    from airflow.providers.google.cloud.links.bigquery import BigQueryJobDetailLink, BigQueryTableLink
    from airflow.providers.google.cloud.operators.bigquery import (
        BigQueryInsertJobOperator as ApacheBigQueryInsertJobOperator,
    )
    from google.api_core.exceptions import NotFound

    from airflow_provider_durable.services import bigquery
    from airflow_provider_durable.services.bigquery import Place
    from airflow_provider_durable.services.bigquery_jobs import BigQueryJobs

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.compat import Context

#: Seconds between the first status requests in the worker: most queries take no longer.
_FIRST_PAUSES = (0.5, 1.0, 2.0)


class BigQueryInsertJobOperator(ResumableJobMixin, ApacheBigQueryInsertJobOperator):
    """
    Run a BigQuery job and return its id: one job, whatever dies while it runs, in any location.

    A drop-in for ``airflow.providers.google.cloud.operators.bigquery.BigQueryInsertJobOperator``: its
    parameters, template fields, links and labels, and the parameters of
    :class:`~airflow_provider_durable.ResumableJobMixin`. It needs the permission ``bigquery.jobs.create``
    and no other: whoever creates a job may read and cancel it, and list his own.

    The job id is ``<job_id>_<token>``, or ``airflow_<dag>_<task>_<time>_<token>`` without a ``job_id``. With
    ``force_rerun=False`` it ends in the hash of the configuration, as Apache's does. If there is a job of
    that id already and this task instance started it, the task reconnects, also to its result or failure;
    a job that failed for a reason that passes (``rateLimitExceeded``, ``backendError``), or was cancelled,
    is followed by one whose id ends in the token. If somebody else started it, ``reattach_states`` says what
    to do.

    ``poll_interval`` (seconds) holds in every way of waiting. ``result_retry`` and ``result_timeout``
    (seconds) apply to each status request; they do not end the wait for a job that is alive,
    ``execution_timeout`` does. A job with ``dryRun`` is not waited for: BigQuery starts none.
    """

    external_id_key = "bigquery_job_id"
    resume_method = "execute_complete"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._job: Any = None
        self._linked: tuple[str, bool] | None = None
        #: Where the author wants the job; None until the connection was read.
        self._given: Place | None = None
        self._given_job_id: str | None = None
        #: Where a trigger found the job, for where no store remembers it.
        self._event_place: Place | None = None
        self._check(rendered=False)

    @property
    def _where(self) -> str:
        return f"{type(self).__name__}(task_id={self.task_id!r})"

    def _check(self, *, rendered: bool) -> None:
        configuration: Any = self.configuration
        if rendered or not configuration or isinstance(configuration, dict):
            bigquery.check_configuration(configuration, self._where, rendered=rendered)
        job_id: Any = self._given_job_id if rendered else self.job_id
        # A template or an XComArg is checked when its value is known.
        if job_id and (rendered or (isinstance(job_id, str) and "{" not in job_id)):
            bigquery.check_job_id(job_id, self._where)

    def execute(self, context: Context) -> Any:
        """
        Find the job of an earlier try or submit one, and wait for it.

        :return: the job id
        :raises JobFailedError: the job failed; its errors are in the message
        """
        self._connect()
        configuration: Any = self.configuration
        if isinstance(configuration, dict) and configuration.get("dryRun"):
            return self._dry_run()
        return self.execute_resumable(context)

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,
        external_id: JsonValue = None,
        submitted_at: str | None = None,
    ) -> Any:
        """Take up the wait after a deferral, also after one that Apache's operator began."""
        self._connect()
        if event and "location" in event:
            self._event_place = Place(event.get("project_id"), event["location"])
        if external_id is None and event and "external_id" not in event:
            store = context.get("task_state_store") if self.durable else None
            if not (store and store.get(self.external_id_key)):
                # Apache's trigger names the job, or says why it cannot.
                external_id = event.get("job_id")
                if not external_id:
                    raise AirflowException(event.get("message") or f"The trigger's event: {event}")
        return self.resume_job(context, event, external_id, submitted_at)

    # -- submit --------------------------------------------------------------------------------

    def prepare_submission(self, context: Context) -> dict[str, JsonValue]:
        """Check the rendered parameters. Project and the id's beginning find the job again."""
        configuration: Any = self.configuration
        if isinstance(configuration, str):
            try:
                self.configuration = json.loads(configuration)
            except ValueError as error:
                shown = f"configuration was rendered to {configuration[:80]!r}, which is no JSON"
                raise ValueError(f"{self._where}: {shown}: {error}.") from error
        self._check(rendered=True)
        earlier = self.submission_details
        if "prefix" in earlier and "location" not in earlier:
            # Sent before and never answered: a request that is still under way must meet the same id.
            return dict(earlier)
        computed = self._computed_job_id(context)
        details: dict[str, JsonValue] = {
            "project_id": self._place.project,
            "prefix": computed.rpartition("_")[0],
        }
        if not self.force_rerun:
            details.update(job_id=computed, mark=earlier.get("mark") or new_token())
        return details

    def _computed_job_id(self, context: Context) -> str:
        """Return ``[job_id | airflow_{dag_id}_{task_id}_{time}]_{hash of the configuration}``."""
        add_labels = getattr(ApacheBigQueryInsertJobOperator, "_add_job_labels", None)
        # Apache's operator of google 22 adds its labels before it computes the hash, earlier ones after.
        labels_first = add_labels is None or "hook" in inspect.signature(add_labels).parameters
        hook: Any = self._hook
        if hasattr(hook, "get_run_after_or_logical_date"):
            when = {"logical_date": None, "run_after": hook.get_run_after_or_logical_date(context)}
        else:
            when = {"logical_date": context.get("logical_date") or utcnow()}
        computed = hook.generate_job_id(
            job_id=self._given_job_id,
            dag_id=self.dag_id,
            task_id=self.task_id,
            configuration=self._labelled if labels_first else self.configuration,
            force_rerun=False,
            **when,
        )
        return bigquery.clean_job_id(computed)

    def submit_job(self, context: Context) -> str:
        """
        Send jobs.insert with an id that holds the token.

        The Google client repeats the request by itself; a repeat is answered 409, and the job is ours.

        :return: the job id
        :raises SubmissionRejectedError: BigQuery said no, or the id is somebody else's
        :raises SubmissionUnclearError: BigQuery may have started the job
        :raises ServiceThrottledError: BigQuery did not look at the request
        """
        details = self.submission_details
        if self.sql:
            self.log.info("SQL query:\n%s", self.sql)
        if "mark" in details:
            job = self._insert_computed(str(details["job_id"]), str(details["mark"]))
        else:
            job, _ = self._jobs.insert(self._own_job_id, self._labelled, self._place)
        return self._found(job, context)

    @property
    def _own_job_id(self) -> str:
        return f"{self.submission_details['prefix']}_{self.submission_token}"

    def _insert_computed(self, job_id: str, mark: str) -> Any:
        """Submit under an id that another try, task or Dag may have used before."""
        configuration = self._labelled
        configuration["labels"] = {**configuration.get("labels", {}), bigquery.MARK_LABEL: mark}
        job, existed = self._jobs.insert(job_id, configuration, self._place)
        if not existed:
            return job
        if self._is_ours(job, mark):
            if bigquery.may_succeed_next_time(job):
                job, _ = self._jobs.insert(self._own_job_id, configuration, self._place)
            return job
        if job.state != "DONE" and job.state in self.reattach_states:
            log_event(self.log, "info", "Reattaching to an existing job", job_id=job_id, state=job.state)
            return job
        raise SubmissionRejectedError(
            f"There is a BigQuery job {Place.of(job)}.{job_id} already, in state {job.state}, which this "
            "task instance did not start. Set force_rerun=True to run the same configuration again"
            + ("." if job.state == "DONE" else f", or add {job.state!r} to reattach_states to wait for it.")
        )

    def _is_ours(self, job: Any, mark: str) -> bool:
        """Return whether this task instance started ``job``: it has its mark, or is the one it had stored."""
        return job.labels.get(bigquery.MARK_LABEL) == mark or (
            self._job is not None and self._job.job_id == job.job_id
        )

    def recover_job(self, token: str, context: Context) -> JsonValue:
        """Look for the job whose id holds the token; with a computed id, for the one with our mark, too."""
        details = self.submission_details
        own, mark = f"{details['prefix']}_{token}", details.get("mark")
        for job in self._search([own, str(details["job_id"])] if mark else [own]):
            ours = job.job_id == own or self._is_ours(job, str(mark))
            if ours and (job.job_id == own or not bigquery.may_succeed_next_time(job)):
                return self._found(job, context)
        return None

    def _dry_run(self) -> str | None:
        """Have BigQuery check the job. It starts none, and gives it no id."""
        self._check(rendered=True)
        job = self._hook.insert_job(
            configuration=self._labelled,
            project_id=cast("str", self._place.project),
            location=self._place.location,
            nowait=True,
        )
        processed = getattr(job, "total_bytes_processed", None)
        log_event(self.log, "info", "BigQuery accepts the job (dryRun)", bytes_to_process=processed)
        self.job_id = job.job_id
        return self.job_id

    # -- ask -----------------------------------------------------------------------------------

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """
        Return PENDING, RUNNING, ``success`` or ``error``; ``not_found`` if BigQuery does not know the job.

        :raises ServiceThrottledError: BigQuery wants fewer requests
        """
        job_id = str(external_id)
        place = self._place_of(job_id)
        try:
            job = self._jobs.get(job_id, place)
        except NotFound:
            job = None
            if place.location is None:
                # Apache's operator stores no location. No job of this run is older than the run.
                run: Any = context.get("dag_run")
                job = next(self._search([job_id], since=getattr(run, "run_after", None)), None)
        if job is None:
            submitted = self.job_submitted_at
            fresh = submitted is not None and (utcnow() - submitted).total_seconds() < bigquery.VISIBLE_AFTER
            return "PENDING" if fresh else bigquery.NOT_FOUND
        self._take(job, context)
        return bigquery.status_of(job)

    def is_job_active(self, status: str) -> bool:
        """Return whether the job has not ended."""
        return status not in bigquery.ENDED

    def is_job_succeeded(self, status: str) -> bool:
        """Return whether the job has succeeded."""
        return status == bigquery.SUCCEEDED

    def get_job_result(self, external_id: JsonValue, context: Context) -> str:  # type: ignore[override]
        """Return the job id."""
        for error in (self._job.errors if self._job else None) or ():
            log_event(self.log, "warning", "The job succeeded in spite of an error", error=error)
        return str(external_id)

    def describe_failure(self, external_id: JsonValue, status: str, context: Context) -> str:
        """Return the error message: the job's errors, or where it was looked for."""
        name = f"{self._place_of(str(external_id))}.{external_id}"
        if status == bigquery.NOT_FOUND or self._job is None:
            return f"BigQuery job {name} is not known to BigQuery (any more)."
        text = f"BigQuery job {name} failed: {bigquery.failure_summary(self._job) or status}"
        if not self.force_rerun and not bigquery.may_succeed_next_time(self._job):
            text += " (force_rerun=False does not run the same configuration again; force_rerun=True does.)"
        return text

    # -- wait ----------------------------------------------------------------------------------

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """Wait in the worker, and see a short query end without waiting for a whole ``poll_interval``."""
        run = self._job_run
        if run is not None:
            read = run.status_reader()
            for pause in _FIRST_PAUSES:
                status = read()
                if pause >= run.settings.poll_seconds or (status and not self.is_job_active(status)):
                    break
                run.sleep(pause)
        super().poll_until_complete(external_id, context)

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:
        """Send jobs.cancel, which BigQuery accepts in any state; cancelling a script ends its children."""
        job_id = str(external_id)
        self._jobs.cancel(job_id, self._place_of(job_id))

    def make_trigger(self, external_id: JsonValue, context: Context) -> Any:
        """Return the trigger that waits for the job where it is."""
        from airflow_provider_durable.triggers.bigquery import BigQueryJobTrigger

        place = self._place_of(str(external_id))
        return BigQueryJobTrigger(
            job_id=str(external_id),
            project_id=place.project,
            location=place.location,
            gcp_conn_id=self.gcp_conn_id,
            impersonation_chain=self.impersonation_chain,
            **self.trigger_options,
        )

    # -- where the job is ----------------------------------------------------------------------

    def _connect(self) -> None:
        """Read the connection, and keep what the author gave: hook, ids and place are overwritten later."""
        if self._given is not None:
            return
        hook = BigQueryHook(
            gcp_conn_id=self.gcp_conn_id, impersonation_chain=self.impersonation_chain, use_legacy_sql=False
        )
        self.hook = hook
        self._given_job_id = self.job_id or None
        self._given = Place(self.project_id or hook.project_id or None, self.location or hook.location)

    @property
    def _hook(self) -> BigQueryHook:
        self._connect()
        return cast("BigQueryHook", self.hook)

    @property
    def _place(self) -> Place:
        self._connect()
        return cast("Place", self._given)

    @property
    def _labelled(self) -> dict[str, Any]:
        return bigquery.labelled(self.configuration, self._hook.labels, self.dag_id, self.task_id)

    @functools.cached_property
    def _jobs(self) -> BigQueryJobs:
        return BigQueryJobs(self._hook, self.result_retry, self.result_timeout)

    def _search(self, job_ids: list[str], since: datetime | None = None) -> Iterator[Any]:
        project = self.submission_details.get("project_id") or self._place.project
        place = Place(cast("str | None", project), self._place.location)
        return self._jobs.search(job_ids, place, self.submission_requested_at or since)

    def _place_of(self, job_id: str) -> Place:
        """Return where the job is: as BigQuery said in this try or an earlier one, else as the author did."""
        details = self.submission_details
        if self._job is not None and self._job.job_id == job_id:
            return Place.of(self._job)
        if "location" in details:
            return Place(cast("str", details["project_id"]), cast("str | None", details["location"]))
        return self._event_place or self._place

    def _found(self, job: Any, context: Context) -> str:
        """Keep where the submission's job is; stored before its id."""
        self.submission_details.update(project_id=job.project, location=job.location)
        self._take(job, context)
        return str(job.job_id)

    def _take(self, job: Any, context: Context) -> None:
        """Take ``job`` for the one at hand: listeners and OpenLineage read these attributes."""
        self._job = job
        self.job_id, self.project_id, self.location = job.job_id, job.project, job.location
        # Again when it is done, as only then a query's destination is known for certain.
        state, ti = (job.job_id, job.state == "DONE"), context.get("ti")
        if ti is None or self._linked == state:
            return
        place = {"project_id": job.project, "location": job.location}
        try:
            ti.xcom_push(key="job_id_path", value=f"{job.project}:{job.location or 'US'}:{job.job_id}")
            ti.xcom_push(key=BigQueryJobDetailLink.key, value={**place, "job_id": job.job_id})
            for table in bigquery.tables_of(job):
                ti.xcom_push(key=BigQueryTableLink.key, value=table)
        except Exception as error:  # noqa: BLE001 - the job matters more than the links to it
            log_event(self.log, "warning", "The links to the job are not available", cause=repr(error))
        else:
            self._linked = state
