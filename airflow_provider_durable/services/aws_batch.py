"""
AWS Batch, as its API reference describes it: names, errors, limits, and finding a job by its token.

https://docs.aws.amazon.com/batch/latest/APIReference/
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import (
    RecoveryUnavailableError,
    ServiceThrottledError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)

with requires_extra("amazon"):
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
    from botocore.exceptions import ConnectionError as BotoConnectionError

#: The job parameter that carries the token. DescribeJobs returns parameters that no placeholder uses.
TOKEN_PARAMETER = "airflow_durable_token"  # noqa: S105 - a name, not a secret
#: DescribeJobs: "A list of up to 100 AWS Batch job IDs".
DESCRIBE_LIMIT = 100
#: The status of a job that DescribeJobs does not return: Batch forgets jobs some days after their end.
NOT_FOUND = "NOT_FOUND"
ACTIVE = frozenset({"SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"})
SUCCEEDED = "SUCCEEDED"

#: SubmitJob, jobName: up to 128 characters, the first one alphanumeric.
_JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
#: A worker's clock and that of AWS differ by less.
_CLOCK_SKEW = timedelta(minutes=5)
_THROTTLED = frozenset(
    {"TooManyRequestsException", "ThrottlingException", "Throttling", "RequestLimitExceeded", "SlowDown"}
)
_DENIED = frozenset({"AccessDeniedException", "AccessDenied", "UnauthorizedOperation"})


def check_job_name(name: Any, where: str) -> None:
    """
    Check a job name as SubmitJob does.

    :param name: the name
    :param where: what the error begins with
    :raises ValueError: what is wrong with it
    """
    if not isinstance(name, str) or not _JOB_NAME.fullmatch(name):
        raise ValueError(
            f"{where}: job_name={name!r} ({len(str(name))} characters) is no job name for AWS Batch. Use 1 "
            "to 128 letters, digits, hyphens and underscores, and begin with a letter or digit."
        )


def is_throttled(error: Exception) -> bool:
    """Return whether AWS turned a request away only because there were too many."""
    return isinstance(error, ClientError) and (_code(error) in _THROTTLED or _http_status(error) == 429)


def is_denied(error: Exception) -> bool:
    """Return whether the credentials lack the permission."""
    return isinstance(error, ClientError) and _code(error) in _DENIED


def submission_error(error: BaseException, place: str) -> Exception:
    """
    Return what an error of SubmitJob says about the job.

    :param error: what boto3 raised
    :param place: the queue and job definition, for the message
    :return: ``ServiceThrottledError`` or ``SubmissionRejectedError``: certainly no job;
        ``SubmissionUnclearError``: there may be one
    """
    if isinstance(error, ClientError):
        if is_throttled(error):
            return ServiceThrottledError(str(error))
        if _http_status(error) >= 500:
            return SubmissionUnclearError(f"AWS Batch failed while it took the job: {error}")
        hint = " The credentials lack batch:SubmitJob." if is_denied(error) else ""
        return SubmissionRejectedError(f"AWS Batch refused the job ({place}): {error}{hint}")
    if isinstance(error, BotoCoreError) and not isinstance(error, (HTTPClientError, BotoConnectionError)):
        return SubmissionRejectedError(f"The job was not sent to AWS Batch ({place}): {error}")
    return SubmissionUnclearError(f"AWS Batch did not answer: {type(error).__name__}: {error}")


def find_by_token(client: Any, token: str, queue: str, name: str, since: datetime | None) -> str | None:
    """
    Return the id of the job that carries ``token``, or None.

    :param client: a boto3 client for ``batch``
    :param token: the value of its ``TOKEN_PARAMETER``
    :param queue: the job queue's name or ARN
    :param name: the job's name
    :param since: no job of this token is older; None searches all that Batch remembers
    :raises RecoveryUnavailableError: the credentials lack ``batch:ListJobs``
    """
    try:
        for ids in _chunks(_jobs_named(client, queue, name, since), DESCRIBE_LIMIT):
            for job in client.describe_jobs(jobs=ids)["jobs"]:
                if (job.get("parameters") or {}).get(TOKEN_PARAMETER) == token:
                    return str(job["jobId"])
    except ClientError as error:
        if not is_denied(error):
            raise
        raise RecoveryUnavailableError(
            "the credentials lack batch:ListJobs, which finds a job whose submission was never answered "
            f"({error})."
        ) from error
    return None


def _jobs_named(client: Any, queue: str, name: str, since: datetime | None) -> Iterator[str]:
    """Yield the ids of the queue's jobs of this name, the latest first."""
    floor = (since - _CLOCK_SKEW).timestamp() * 1000 if since else 0.0
    request = {"jobQueue": queue, "filters": [{"name": "JOB_NAME", "values": [name]}]}
    while True:
        # With a filter, jobs in every state are listed, sorted by createdAt, the latest first.
        answer = client.list_jobs(**request)
        for job in answer["jobSummaryList"]:
            if job.get("createdAt", floor) < floor:
                return
            yield job["jobId"]
        if not answer.get("nextToken"):
            return
        request["nextToken"] = answer["nextToken"]


def _chunks(items: Iterable[str], size: int) -> Iterator[list[str]]:
    chunk: list[str] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def failure_summary(job: Mapping[str, Any]) -> str:
    """
    Return what is known of a failed job: reason, exit code, log stream, children by status.

    :param job: an element of ``jobs`` in DescribeJobs' answer
    """
    container = job.get("container") or {}
    attempts = job.get("attempts") or []
    last = (attempts[-1].get("container") or {}) if attempts else {}
    children = (job.get("arrayProperties") or {}).get("statusSummary") or {}
    facts = {
        "status reason": job.get("statusReason"),
        "container reason": container.get("reason") or last.get("reason"),
        "exit code": container.get("exitCode", last.get("exitCode")),
        "log stream": container.get("logStreamName") or last.get("logStreamName"),
        "attempts": len(attempts) if len(attempts) > 1 else None,
        "array children": ", ".join(f"{number} {state}" for state, number in children.items() if number),
    }
    return "; ".join(f"{name}: {fact}" for name, fact in facts.items() if fact not in (None, ""))


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _http_status(error: ClientError) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
