"""
AWS Batch in the triggerer: DescribeJobs for a hundred jobs at a time, on plain boto3 in a thread.

https://docs.aws.amazon.com/batch/latest/APIReference/API_DescribeJobs.html
"""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.triggers.base import JobTrigger
from airflow_provider_durable.triggers.service import JobService, RequestRejectedError

with requires_extra("amazon"):
    from botocore.exceptions import (
        BotoCoreError,
        ClientError,
        EndpointConnectionError,
        HTTPClientError,
        ParamValidationError,
    )

    from airflow_provider_durable.services import aws_batch

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Unpack

    from airflow_provider_durable.triggers.base import WaitOptions

#: What AWS answers to credentials it does not, or no longer, accept; some of it comes with HTTP 400.
_CREDENTIALS_REFUSED = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidSignatureException",
        "MissingAuthenticationToken",
        "UnrecognizedClientException",
    }
)


class BatchJobs(JobService):
    """
    The jobs of one account and region.

    :param aws_conn_id: the Airflow connection; None for boto3's own search
    :param region_name: the region, if not the connection's
    :param verify: whether to check TLS certificates, or a path to a CA bundle
    :param botocore_config: parameters of ``botocore.config.Config``
    """

    ids_per_request = aws_batch.DESCRIBE_LIMIT
    visible_after = 15.0

    def __init__(
        self,
        aws_conn_id: str | None,
        region_name: str | None,
        verify: bool | str | None,
        botocore_config: dict[str, Any] | None,
    ) -> None:
        self._aws_conn_id = aws_conn_id
        self._region_name = region_name
        self._verify = verify
        self._config = botocore_config
        self._client: Any = None
        self._lock = threading.Lock()

    @property
    def key(self) -> Hashable:
        """Connection, region and how to reach it."""
        config = json.dumps(self._config, sort_keys=True, default=repr)
        return type(self), self._aws_conn_id, self._region_name, self._verify, config

    def client(self) -> Any:
        """Return the boto3 client, made from the connection when it is first needed."""
        with self._lock:
            if self._client is None:
                # Here and not above: a second of imports, which would stall the triggerer's loop.
                from airflow.providers.amazon.aws.hooks.batch_client import BatchClientHook
                from botocore.config import Config

                hook = BatchClientHook(
                    aws_conn_id=self._aws_conn_id,
                    region_name=self._region_name,
                    verify=self._verify,
                    config=self._config,
                )
                # The poller does the repeating, so that it knows how often AWS is asked.
                ours = Config(connect_timeout=5, read_timeout=20, retries={"total_max_attempts": 1})
                self._client = hook.get_client_type(
                    region_name=hook.region_name, config=ours.merge(hook.config)
                )
            return self._client

    def _forget(self, client: Any) -> None:
        """Read the connection again before the next request: its credentials do not work any longer."""
        with self._lock:
            if self._client is client:
                self._client = None

    def ask(self, external_ids: Sequence[JsonValue]) -> dict[JsonValue, str]:
        """Send DescribeJobs."""
        client = self.client()
        try:
            jobs = client.describe_jobs(jobs=list(external_ids))["jobs"]
        except ClientError as error:
            if aws_batch.is_throttled(error):
                raise ServiceThrottledError(str(error)) from error
            code = error.response.get("Error", {}).get("Code")
            http_status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode")
            if code in _CREDENTIALS_REFUSED or http_status in (401, 403):
                self._forget(client)
            elif http_status == 400:
                raise RequestRejectedError(str(error)) from error
            raise
        except ParamValidationError as error:
            raise RequestRejectedError(str(error)) from error
        except BotoCoreError as error:
            if not isinstance(error, (HTTPClientError, EndpointConnectionError)):
                # No credentials, or they could not be refreshed.
                self._forget(client)
            raise
        # An id may be a job's ARN.
        return {name: job["status"] for job in jobs for name in (job["jobId"], job.get("jobArn"))}

    def is_active(self, status: str) -> bool:
        """Return whether a job of this status has not ended."""
        return status in aws_batch.ACTIVE

    def is_succeeded(self, status: str) -> bool:
        """Return whether a job of this status has succeeded."""
        return status == aws_batch.SUCCEEDED

    def cancel(self, external_id: JsonValue, reason: str) -> None:
        """Send TerminateJob, which AWS accepts for jobs in any state."""
        client = self.client()
        try:
            client.terminate_job(jobId=external_id, reason=reason[:1024])
        except ClientError:
            self._forget(client)
            raise


class BatchJobTrigger(JobTrigger):
    """
    Waits for the end of an AWS Batch job. Its event also has ``job_id``, as Apache's has.

    :param job_id: the job's id
    :param aws_conn_id: the Airflow connection; None for boto3's own search
    :param region_name: the region, if not the connection's
    :param verify: whether to check TLS certificates, or a path to a CA bundle
    :param botocore_config: parameters of ``botocore.config.Config``, as JSON
    :param options: how to wait: see :class:`~airflow_provider_durable.triggers.base.JobTrigger`
    """

    def __init__(
        self,
        *,
        job_id: str,
        aws_conn_id: str | None = "aws_default",
        region_name: str | None = None,
        verify: bool | str | None = None,
        botocore_config: dict[str, Any] | None = None,
        **options: Unpack[WaitOptions],
    ) -> None:
        super().__init__(external_id=job_id, **options)
        self.aws_conn_id = aws_conn_id
        self.region_name = region_name
        self.verify = verify
        self.botocore_config = botocore_config

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON."""
        parameters = super().parameters()
        return {
            "job_id": parameters.pop("external_id"),
            "aws_conn_id": self.aws_conn_id,
            "region_name": self.region_name,
            "verify": self.verify,
            "botocore_config": self.botocore_config,
            **parameters,
        }

    def event(self, status: str, message: str) -> dict[str, Any]:
        """Return the event; Apache's operator, should the Dag go back to it, reads ``job_id``."""
        return {**super().event(status, message), "job_id": self.external_id}

    def service(self) -> JobService:
        """Return AWS Batch, as this trigger's connection reaches it."""
        return BatchJobs(self.aws_conn_id, self.region_name, self.verify, self.botocore_config)
