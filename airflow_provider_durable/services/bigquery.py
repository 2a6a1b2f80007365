"""
BigQuery, as its REST reference describes it: configurations, job ids, places, states and errors.

https://cloud.google.com/bigquery/docs/reference/rest/v2/jobs
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import (
    ServiceThrottledError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)

with requires_extra("google"):
    from google.api_core.exceptions import ClientError, GoogleAPICallError, RetryError

#: What a status is beside a job's ``state``, which is PENDING or RUNNING until it is DONE.
SUCCEEDED = "success"
FAILED = "error"
NOT_FOUND = "not_found"
ENDED = frozenset({SUCCEEDED, FAILED, NOT_FOUND})

#: Seconds for which a job that was accepted may not be visible yet, even where a 409 says that it exists:
#: https://github.com/googleapis/python-bigquery/issues/2134
VISIBLE_AFTER = 15.0

#: A configuration names one of them; the rest of its keys (labels, dryRun, …) hold for all.
#: https://cloud.google.com/bigquery/docs/reference/rest/v2/Job#jobconfiguration
JOB_TYPES = ("query", "load", "copy", "extract")

#: https://cloud.google.com/bigquery/docs/reference/rest/v2/JobReference
MAX_JOB_ID = 1024
_JOB_ID = re.compile(r"[A-Za-z0-9_-]+")
#: What follows an author's job id: an underscore and a token or a hash.
_SUFFIX = 33

#: The label that tells a job with a computed id, which anybody could compute, from somebody else's.
MARK_LABEL = "airflow-durable"
#: https://cloud.google.com/bigquery/docs/labels-intro#requirements
_LABEL_VALUE = re.compile(r"[\w-]{0,63}")

#: Reasons that say nothing about the job itself: the same work, sent again, may well succeed.
#: https://cloud.google.com/bigquery/docs/error-messages
_PASSING = frozenset(
    {
        "backendError",
        "internalError",
        "jobBackendError",
        "jobInternalError",
        "jobRateLimitExceeded",
        "quotaExceeded",
        "rateLimitExceeded",
        "stopped",  # cancelled
    }
)


@dataclass(frozen=True)
class Place:
    """
    Where a job is: jobs outside US and EU are not found without their location.

    :param project: the project's id; None for the credentials'
    :param location: the region or multi-region; None for wherever the data is
    """

    project: str | None
    location: str | None

    def __str__(self) -> str:
        return f"{self.project}:{self.location or '(no location)'}"

    @classmethod
    def of(cls, job: Any) -> Place:
        """Return where ``job`` is, as BigQuery says."""
        return cls(job.project, job.location)


# -- what an author writes ---------------------------------------------------------------------


def check_configuration(configuration: Any, where: str, *, rendered: bool) -> None:
    """
    Check a job's configuration as far as BigQuery's rules for its type go.

    :param configuration: the operator's
    :param where: what the error begins with
    :param rendered: whether its values are known, or templates
    :raises ValueError: there is none, or it does not name one type of job
    """
    if not configuration or not isinstance(configuration, Mapping):
        raise ValueError(
            f"{where}: configuration={configuration!r} is no job configuration. Write a dictionary that "
            'names a job type, such as {"query": {"query": "SELECT 1", "useLegacySql": False}}.'
        )
    named = [job_type for job_type in JOB_TYPES if job_type in configuration]
    if len(named) != 1:
        what = f"names {len(named)} job types ({', '.join(named)})" if named else "names no job type"
        raise ValueError(
            f"{where}: configuration {what}; its keys are {sorted(configuration)}. Name exactly one of "
            f"{', '.join(JOB_TYPES)}; more jobs are more tasks."
        )
    details = configuration[named[0]]
    if rendered and not isinstance(details, Mapping):
        raise ValueError(f"{where}: configuration[{named[0]!r}]={details!r} is no dictionary.")
    if rendered and named == ["query"] and not str(details.get("query") or "").strip():
        raise ValueError(f"{where}: configuration['query']['query'] is empty. BigQuery needs a query here.")


def check_job_id(job_id: Any, where: str) -> None:
    """
    Check an author's job id, which gets a suffix of 33 characters.

    :param job_id: the id
    :param where: what the error begins with
    :raises ValueError: what is wrong with it
    """
    longest = MAX_JOB_ID - _SUFFIX
    if not isinstance(job_id, str) or not _JOB_ID.fullmatch(job_id) or len(job_id) > longest:
        shown = job_id if len(str(job_id)) <= 80 else f"{str(job_id)[:80]}…"
        raise ValueError(
            f"{where}: job_id={shown!r} ({len(str(job_id))} characters) is no job id for BigQuery. Use 1 to "
            f"{longest} letters, digits, underscores and dashes; a suffix of {_SUFFIX} characters follows."
        )


def clean_job_id(job_id: str) -> str:
    """Return ``job_id`` with an underscore for each character that BigQuery does not take."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", job_id)


def labelled(
    configuration: Mapping[str, Any], hook_labels: Mapping[str, str] | None, dag_id: str, task_id: str
) -> dict[str, Any]:
    """
    Return ``configuration`` with the labels that Apache's operator gives its jobs.

    :param configuration: the author's, left as it is
    :param hook_labels: the connection's labels; the author's win
    :param dag_id: becomes the label ``airflow-dag``, if its characters allow
    :param task_id: becomes the label ``airflow-task``, likewise
    """
    given = configuration.get("labels", {})
    if not isinstance(given, Mapping):
        return dict(configuration)  # not ours to mend; BigQuery says what is wrong with it
    labels = {**(hook_labels or {}), **given}
    dag, task = dag_id.lower(), task_id.lower().replace(".", "-")
    if _LABEL_VALUE.fullmatch(dag) and _LABEL_VALUE.fullmatch(task):
        labels.update({"airflow-dag": dag, "airflow-task": task})
    return {**configuration, "labels": labels} if labels else dict(configuration)


# -- what the answers mean ---------------------------------------------------------------------


def place_in_conflict(error: Exception, job_id: str) -> Place | None:
    """
    Return where the job is that a 409 of jobs.insert names, or None if it names none.

    BigQuery writes ``Already Exists: Job <project>:<location>.<job id>``, and the like of tables.
    """
    named = re.search(rf"Job (\S+):([A-Za-z0-9-]+)\.{re.escape(job_id)}\b", str(error))
    return Place(named[1], named[2]) if named else None


def status_of(job: Any) -> str:
    """
    Return a job's status: its state until it is DONE, then whether it has an ``errorResult``.

    https://cloud.google.com/bigquery/docs/reference/rest/v2/Job#jobstatus
    """
    if job.state != "DONE":
        return str(job.state)
    return FAILED if job.error_result else SUCCEEDED


def may_succeed_next_time(job: Any) -> bool:
    """Return whether a job failed for a reason that passes, or was cancelled."""
    return bool(job.error_result) and job.error_result.get("reason") in _PASSING


def tables_of(job: Any) -> Iterator[dict[str, str]]:
    """Yield source and destination of ``job``, as the links to the console have them."""
    for details in (job.to_api_repr().get("configuration") or {}).values():
        for name in ("sourceTable", "destinationTable"):
            table = details.get(name) if isinstance(details, Mapping) else None
            if isinstance(table, Mapping) and "tableId" in table:
                yield {
                    "project_id": table.get("projectId") or job.project,
                    "dataset_id": table["datasetId"],
                    "table_id": table["tableId"],
                }


def failure_summary(job: Any) -> str:
    """Return why a job failed: its ``errorResult``, then the errors on the way there."""
    result = job.error_result or {}
    others = [error for error in job.errors or [] if error != result]
    return "; ".join(_one_line(error) for error in [result, *others] if error)


def _one_line(error: Mapping[str, Any]) -> str:
    where = f" ({error['location']})" if error.get("location") else ""
    return f"{error.get('reason') or 'error'}{where}: {error.get('message') or 'no message'}"


def is_throttled(error: BaseException) -> bool:
    """
    Return whether BigQuery turned a request away only because there were too many.

    It answers 403 with the reason ``rateLimitExceeded``, or 429.
    """
    error = _cause(error)
    return isinstance(error, GoogleAPICallError) and (
        error.code == 429 or any(reason == "rateLimitExceeded" for reason in _reasons(error))
    )


def submission_error(error: Exception) -> Exception:
    """
    Return what an error of jobs.insert says about the job.

    :param error: what the Google client raised, after its own repeats
    :return: ``SubmissionRejectedError``: BigQuery refused this request; ``ServiceThrottledError``: later;
        ``SubmissionUnclearError``: there may be a job
    """
    cause = _cause(error)
    if is_throttled(cause):
        return ServiceThrottledError(str(cause))
    if isinstance(cause, ClientError) and cause.code not in (401, 408):
        return SubmissionRejectedError(f"BigQuery refused the job: {cause}")
    return SubmissionUnclearError(f"BigQuery did not take the job: {type(cause).__name__}: {cause}")


def _cause(error: BaseException) -> BaseException:
    """Return what the client gave up on."""
    return error.cause if isinstance(error, RetryError) and error.cause else error


def _reasons(error: GoogleAPICallError) -> Iterator[str]:
    for detail in error.errors or ():
        if isinstance(detail, Mapping):
            yield str(detail.get("reason"))
