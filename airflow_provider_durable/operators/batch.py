"""
AWS Batch: a job is found again by a parameter that travels with its submission.

SubmitJob has no client token, and boto3 repeats requests by itself: it is sent once, and an answer
that is lost is settled by looking for the job.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import ResumableJobMixin, ServiceThrottledError
from airflow_provider_durable.resumable.compat import AirflowException, log_event
from airflow_provider_durable.resumable.parameters import NOT_GIVEN

with requires_extra("amazon"):
    from airflow.providers.amazon.aws.links.batch import (
        BatchJobDefinitionLink,
        BatchJobDetailsLink,
        BatchJobQueueLink,
    )
    from airflow.providers.amazon.aws.links.logs import CloudWatchEventsLink
    from airflow.providers.amazon.aws.operators.batch import BatchOperator as ApacheBatchOperator
    from airflow.providers.amazon.aws.utils.task_log_fetcher import AwsTaskLogFetcher
    from botocore.config import Config
    from botocore.exceptions import ClientError

    from airflow_provider_durable.services import aws_batch

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.compat import Context

#: A job that was accepted less long ago may not be listed or described yet.
_VISIBLE_AFTER = timedelta(seconds=15)
#: GetLogEvents returns no more: what is shown of the log of a job that nobody watched.
_LOG_LIMIT = 10_000


class BatchOperator(ResumableJobMixin, ApacheBatchOperator):
    """
    Run a job on AWS Batch and return its id: one job, whatever dies while it runs.

    A drop-in for ``airflow.providers.amazon.aws.operators.batch.BatchOperator``: its parameters, template
    fields and links, and the parameters of :class:`~airflow_provider_durable.ResumableJobMixin`. It needs
    the permissions ``batch:SubmitJob``, ``batch:DescribeJobs``, ``batch:TerminateJob`` and, to find a job
    whose submission was never answered, ``batch:ListJobs``.

    ``poll_interval`` (seconds) holds in every way of waiting. ``max_retries`` and ``status_retries`` go
    to the hook; they do not end the wait for a job that is alive, ``execution_timeout`` does.

    :param wait_for_termination: wait for the end of the job; False returns its id once it is accepted
    :param wait_for_completion: Apache's name for the same switch (templated)
    """

    external_id_key = "batch_job_id"
    resume_method = "execute_complete"
    event_id_key = "job_id"

    def __init__(
        self, *, wait_for_termination: bool = NOT_GIVEN, wait_for_completion: bool = NOT_GIVEN, **kwargs: Any
    ) -> None:
        both = {"wait_for_termination": wait_for_termination, "wait_for_completion": wait_for_completion}
        given = {name: value for name, value in both.items() if value is not NOT_GIVEN}
        if len({str(value) for value in given.values()}) > 1:
            raise ValueError(
                f"BatchOperator(task_id={kwargs.get('task_id')!r}): wait_for_termination="
                f"{wait_for_termination!r} and wait_for_completion={wait_for_completion!r} are one switch "
                "with two values. Leave one of the two out."
            )
        for name, value in given.items():
            self.wait_parameter = name
            kwargs.update(wait_for_termination=value, wait_for_completion=value)
        super().__init__(**kwargs)
        self._job: dict[str, Any] = {}
        self._log_fetcher: AwsTaskLogFetcher | None = None
        self._follows_log = False
        self._linked_job: JsonValue = None
        self._check_names(rendered=False)

    @property
    def wait_for_termination(self) -> bool:
        """Apache's ``wait_for_completion``, under this package's name."""
        return self.wait_for_completion

    @wait_for_termination.setter
    def wait_for_termination(self, value: bool) -> None:
        self.wait_for_completion = value

    def _check_names(self, *, rendered: bool) -> None:
        where = f"BatchOperator(task_id={self.task_id!r})"
        for name in ("job_name", "job_queue", "job_definition"):
            value = getattr(self, name)
            if not rendered and not (isinstance(value, str) and "{" not in value):
                continue  # a template or an XComArg: checked when its value is known
            if not isinstance(value, str) or not value.strip():
                raise ValueError(f"{where}: {name}={value!r} is empty. AWS Batch needs a name here.")
            if name == "job_name":
                aws_batch.check_job_name(value, where)

    def execute(self, context: Context) -> Any:
        """
        Find the job of an earlier try or submit one, and wait for it.

        :return: the job id
        :raises JobFailedError: the job failed; reason, exit code and log stream are in the message
        """
        return self.execute_resumable(context)

    # -- submit --------------------------------------------------------------------------------

    def prepare_submission(self, context: Context) -> dict[str, JsonValue]:
        """Check the rendered names. The job's name and queue find it again."""
        self._check_names(rendered=True)
        return {"job_name": self.job_name, "job_queue": self.job_queue}

    def submit_job(self, context: Context) -> JsonValue:
        """
        Send SubmitJob, once, with the token.

        :return: the job id
        :raises SubmissionRejectedError: AWS said no
        :raises SubmissionUnclearError: AWS may have started the job
        :raises ServiceThrottledError: AWS did not look at the request
        """
        parameters = self.parameters
        self.parameters = {**parameters, aws_batch.TOKEN_PARAMETER: self.submission_token}
        try:
            with self._sending_once():
                # Not super(): Airflow's mixin, whose submit_job is abstract, stands in between.
                ApacheBatchOperator.submit_job(self, context)
        except AirflowException as error:
            # Apache's operator wraps whatever SubmitJob raised.
            place = f"job queue {self.job_queue!r}, job definition {self.job_definition!r}"
            raise aws_batch.submission_error(error.__context__ or error, place) from error
        finally:
            self.parameters = parameters
        return cast("str", self.job_id)

    @contextmanager
    def _sending_once(self) -> Iterator[None]:
        """Have the hook send each request once: a SubmitJob that boto3 repeats is a second job."""
        patient = self.hook
        once = copy.copy(patient)
        once.conn = patient.get_client_type(
            region_name=patient.region_name,
            config=patient.config.merge(Config(retries={"total_max_attempts": 1})),
        )
        self.__dict__["hook"] = once  # where its cached property looks
        try:
            yield
        finally:
            self.__dict__["hook"] = patient

    def recover_job(self, token: str, context: Context) -> JsonValue:
        """
        Look for the token among the jobs of the submission's name and queue.

        :raises RecoveryUnavailableError: the credentials lack ``batch:ListJobs``
        """
        details = {"job_name": self.job_name, "job_queue": self.job_queue, **self.submission_details}
        while True:
            found = aws_batch.find_by_token(
                self.hook.client,
                token,
                queue=str(details["job_queue"]),
                name=str(details["job_name"]),
                since=self.submission_requested_at,
            )
            if found or not self._may_be_invisible():
                return found
            time.sleep(2)

    def _may_be_invisible(self) -> bool:
        submitted_at = self.job_submitted_at
        return submitted_at is not None and datetime.now(tz=timezone.utc) - submitted_at < _VISIBLE_AFTER

    # -- ask -----------------------------------------------------------------------------------

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """
        Return the job's status; ``NOT_FOUND`` if AWS Batch has forgotten the job.

        :raises ServiceThrottledError: AWS wants fewer requests
        """
        self.job_id = cast("str", external_id)
        try:
            jobs = self.hook.client.describe_jobs(jobs=[self.job_id])["jobs"]
        except ClientError as error:
            if aws_batch.is_throttled(error):
                raise ServiceThrottledError(str(error)) from error
            raise
        self._job = jobs[0] if jobs else {}
        if not jobs:
            return "SUBMITTED" if self._may_be_invisible() else aws_batch.NOT_FOUND
        self._persist_job_links(context)
        if self._follows_log and self._log_fetcher is None and self._job["status"] == "RUNNING":
            self._log_fetcher = self._make_log_fetcher()
            if self._log_fetcher is not None:
                self._log_fetcher.start()
        return cast("str", self._job["status"])

    def is_job_active(self, status: str) -> bool:
        """Return whether the job has not ended."""
        return status in aws_batch.ACTIVE

    def is_job_succeeded(self, status: str) -> bool:
        """Return whether the job has succeeded."""
        return status == aws_batch.SUCCEEDED

    def get_job_result(self, external_id: JsonValue, context: Context) -> JsonValue:
        """Return the job id."""
        self._finish_logs(context)
        return external_id

    def describe_failure(self, external_id: JsonValue, status: str, context: Context) -> str:
        """Return the error message: status reason, exit code and log stream."""
        if status == aws_batch.NOT_FOUND:
            return f"AWS Batch job {external_id} is not known to AWS Batch (any more)."
        self._finish_logs(context)
        return f"AWS Batch job {external_id} failed: {aws_batch.failure_summary(self._job) or status}"

    # -- wait ----------------------------------------------------------------------------------

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """Wait in the worker, by the author's ``waiters`` if there are any, and follow the log."""
        if self.waiters:
            self.waiters.wait_for_job(external_id)
        self._follows_log = self.awslogs_enabled
        try:
            super().poll_until_complete(external_id, context)
        finally:
            self._follows_log = False
            if self._log_fetcher is not None:
                self._log_fetcher.stop()  # type: ignore[no-untyped-call]
                self._log_fetcher.join()

    def make_trigger(self, external_id: JsonValue, context: Context) -> Any:
        """Return the trigger that waits together with all others of this connection."""
        from airflow_provider_durable.triggers.batch import BatchJobTrigger

        return BatchJobTrigger(
            job_id=cast("str", external_id),
            aws_conn_id=self.aws_conn_id,
            region_name=self.region_name,
            verify=self.verify,
            botocore_config=self.botocore_config,
            **self.trigger_options,
        )

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:
        """Send TerminateJob, which AWS accepts for jobs in any state."""
        ti = context.get("ti")
        by = f" by Airflow: {ti.dag_id}.{ti.task_id}, run {ti.run_id}" if ti else " by Airflow"
        self.hook.terminate_job(job_id=cast("str", external_id), reason=f"Task stopped{by}"[:1024])

    # -- links and logs ------------------------------------------------------------------------

    def _persist_job_links(self, context: Context) -> None:
        """Push what the links in the UI need; Airflow deletes it before each try. Best effort."""
        if self._linked_job == self._job["jobId"]:
            return
        try:
            where = {
                "context": context,
                "operator": self,
                "region_name": self.hook.conn_region_name,
                "aws_partition": self.hook.conn_partition,
            }
            BatchJobDetailsLink.persist(**where, job_id=self._job["jobId"])
            if definition := self._job.get("jobDefinition"):
                BatchJobDefinitionLink.persist(**where, job_definition_arn=definition)
            if queue := self._job.get("jobQueue"):
                BatchJobQueueLink.persist(**where, job_queue_arn=queue)
        except Exception as error:  # noqa: BLE001 - the job matters more than the links to it
            log_event(self.log, "warning", "The links to the job are not available", cause=repr(error))
        else:
            self._linked_job = self._job["jobId"]

    def _finish_logs(self, context: Context) -> None:
        """Show the log of a job that nobody watched, and link to CloudWatch. Best effort."""
        if not self._job or not (self.awslogs_enabled or self.do_xcom_push):
            return
        try:
            if self.awslogs_enabled and self._log_fetcher is None and (log := self._make_log_fetcher()):
                for message in log.get_last_log_messages(_LOG_LIMIT):
                    self.log.info(message)
            streams = self.hook.get_job_all_awslogs_info(self._job["jobId"]) if self.do_xcom_push else None
            if streams and context.get("ti"):
                CloudWatchEventsLink.persist(
                    context=context,
                    operator=self,
                    region_name=self.hook.conn_region_name,
                    aws_partition=self.hook.conn_partition,
                    **streams[0],
                )
        except Exception as error:  # noqa: BLE001 - the job's outcome matters more than its log
            log_event(self.log, "warning", "The job's CloudWatch log is not available", cause=str(error))

    def _make_log_fetcher(self) -> AwsTaskLogFetcher | None:
        stream = self.hook.get_job_awslogs_info(self._job["jobId"])
        if not stream:
            return None
        return AwsTaskLogFetcher(
            aws_conn_id=self.aws_conn_id,
            region_name=stream["awslogs_region"],
            log_group=stream["awslogs_group"],
            log_stream_name=stream["awslogs_stream_name"],
            fetch_interval=self.awslogs_fetch_interval,
            logger=self.log,
        )
