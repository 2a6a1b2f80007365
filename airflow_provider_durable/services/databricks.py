"""
Databricks' Jobs API, as its reference describes it: states, errors, and what a request must have.

https://docs.databricks.com/api/workspace/jobs
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import (
    ServiceThrottledError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)

with requires_extra("databricks"):
    from requests import RequestException
    from tenacity import RetryError

#: ``idempotency_token``: "This token must have at most 64 characters."
TOKEN_LIMIT = 64
#: The status of a run that the service does not know: it was deleted, or is older than 60 days.
NOT_FOUND = "NOT_FOUND:"
#: How many failed tasks a message names: each one is a request.
_NAMED_TASKS = 10
_ERROR_LENGTH = 1000

#: ``life_cycle_state`` and ``status.state`` of a run that has ended. Every other state is one of a run
#: that goes on, also one that the service comes to know after this was written.
_ENDED = frozenset({"TERMINATED", "SKIPPED", "INTERNAL_ERROR"})
#: "A run is considered successful when its termination code is SUCCESS or SUCCESS_WITH_FAILURES" (Jobs
#: API, job completion triggers). With the latter some tasks failed, but all leaf tasks succeeded.
_SUCCEEDED = frozenset({"TERMINATED:SUCCESS", "TERMINATED:SUCCESS_WITH_FAILURES"})
#: Results of tasks that did not run, because of what became of others, or of a condition.
_NOT_RUN = frozenset({"UPSTREAM_FAILED", "UPSTREAM_CANCELED", "EXCLUDED", "DISABLED", "SKIPPED"})

#: What helps, where the service's own words do not say it.
_HINTS = {
    "MAXIMUM_CONCURRENT_RUNS_REACHED": "Raise the job's max_concurrent_runs, or enable its queue.",
    "MAX_CONCURRENT_RUNS_EXCEEDED": "Raise the job's max_concurrent_runs, or enable its queue.",
}


# -- states ------------------------------------------------------------------------------------


def status_of(run: Mapping[str, Any]) -> str:
    """
    Return a run's or task's status as ``<life cycle>:<result>``, the result empty before its end.

    Reads both state models of the API: ``state`` (deprecated, but all that older workspaces send), and
    ``status`` with its ``termination_details``.

    :param run: what ``jobs/runs/get`` returned, or one of its ``tasks``
    :raises ValueError: it holds neither
    """
    state = run.get("state") or {}
    status = run.get("status") or {}
    life_cycle = state.get("life_cycle_state") or status.get("state")
    if status.get("state") == "TERMINATED" and life_cycle not in _ENDED:
        # A state newer than this module; the other model says what it means.
        life_cycle = "TERMINATED"
    if not life_cycle:
        raise ValueError(f"Databricks sent a run without a state: {sorted(run)}")
    details = status.get("termination_details") or {}
    return f"{life_cycle}:{state.get('result_state') or details.get('code') or ''}"


def state_message(run: Mapping[str, Any]) -> str:
    """Return what the service says about the run's state."""
    details = (run.get("status") or {}).get("termination_details") or {}
    return str((run.get("state") or {}).get("state_message") or details.get("message") or "")


def is_active(status: str) -> bool:
    """Return whether a run of this status has not ended."""
    return status != NOT_FOUND and status.partition(":")[0] not in _ENDED


def is_succeeded(status: str) -> bool:
    """Return whether a run of this status has succeeded, as the service counts it."""
    return status in _SUCCEEDED


def failed_tasks(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the last attempt of each of a run's tasks that ran and did not succeed."""
    last: dict[str, Mapping[str, Any]] = {}
    for task in run.get("tasks") or []:
        key = str(task.get("task_key"))
        if task.get("attempt_number", 0) >= last.get(key, {}).get("attempt_number", 0):
            last[key] = task
    return [task for task in last.values() if _has_failed(task)]


def _has_failed(task: Mapping[str, Any]) -> bool:
    try:
        status = status_of(task)
    except ValueError:
        return False
    ran = status.partition(":")[2] not in _NOT_RUN and status != "SKIPPED:"
    return ran and not is_active(status) and not is_succeeded(status)


def failure_summary(hook: Any, run: Mapping[str, Any]) -> str:
    """
    Return what is known of a run that ended without success: its message, failed tasks and their errors.

    :param hook: a ``DatabricksHook``; asked for each failed task's output
    :param run: what ``jobs/runs/get`` returned
    """
    facts = [state_message(run)] if state_message(run) else []
    tasks = failed_tasks(run)
    if not run.get("tasks") and run.get("run_id"):
        # Runs in the single-task format of the older API have the output themselves.
        facts += [error] if (error := _output_error(hook, run)) else []
    for task in tasks[:_NAMED_TASKS]:
        result = status_of(task).strip(":").rpartition(":")[2]
        error = _output_error(hook, task) or state_message(task) or "no error message"
        facts.append(f"task {task.get('task_key')!r} {result}: {error}")
    if len(tasks) > _NAMED_TASKS:
        facts.append(f"and {len(tasks) - _NAMED_TASKS} more failed tasks")
    result = status_of(run).rpartition(":")[2]
    facts += [_HINTS[result]] if result in _HINTS else []
    facts += [f"see {run['run_page_url']}"] if run.get("run_page_url") else []
    return "; ".join(fact.strip().rstrip(".;") for fact in facts)


def _output_error(hook: Any, task: Mapping[str, Any]) -> str:
    """Return the error in a task's output. Best effort: outputs expire, and need a permission."""
    try:
        output = hook.get_run_output(task["run_id"])
    except Exception:  # noqa: BLE001 - that the task failed is known without its output
        return ""
    error = str(output.get("error") or "")
    return error if len(error) <= _ERROR_LENGTH else f"{error[:_ERROR_LENGTH]}…"


# -- errors ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class HttpFailure:
    """
    An HTTP answer that is an error.

    :param status: the HTTP status
    :param code: the API's ``error_code``; None where the body is not the API's
    :param message: the API's ``message``
    :param has_body: whether the body is known at all
    """

    status: int
    code: str | None = None
    message: str = ""
    has_body: bool = True


def http_failure(error: BaseException) -> HttpFailure | None:
    """
    Return the HTTP answer behind an error of the provider's hook, or None if there was no answer.

    The hook's errors differ between versions of the provider; what they wrap does not.
    """
    for seen in (error, error.__cause__ or error.__context__):
        cause = _last_attempt(seen)
        if (response := getattr(cause, "response", None)) is not None:
            return _read(response)
    status = getattr(error, "http_status_code", None)
    return HttpFailure(status, has_body=False) if status else None


def _last_attempt(error: BaseException | None) -> BaseException | None:
    return error.last_attempt.exception() if isinstance(error, RetryError) else error


def _read(response: Any) -> HttpFailure:
    try:
        body = response.json()
    except ValueError:
        body = None
    if not isinstance(body, Mapping):
        return HttpFailure(response.status_code)
    return HttpFailure(response.status_code, body.get("error_code"), str(body.get("message", "")))


def is_unknown_run(error: BaseException) -> bool:
    """
    Return whether an error of ``jobs/runs/get`` says that there is no such run.

    That is HTTP 400 INVALID_PARAMETER_VALUE "Run 1 does not exist." and 404 RESOURCE_DOES_NOT_EXIST. A
    404 that is not the API's, of a gateway or a wrong host, says nothing about the run.
    """
    failure = http_failure(error)
    if failure is None:
        return False
    if failure.status == 404:
        known = failure.code is not None and failure.code != "ENDPOINT_NOT_FOUND"
        return known or not failure.has_body
    gone = failure.code == "INVALID_PARAMETER_VALUE" and "does not exist" in failure.message
    return failure.status == 400 and gone


def is_throttled(error: BaseException) -> bool:
    """Return whether the service turned a request away only because there were too many."""
    failure = http_failure(error)
    return failure is not None and failure.status == 429


def is_refused(error: BaseException) -> bool:
    """Return whether the service understood a request and said no to what is in it."""
    failure = http_failure(error)
    return failure is not None and failure.status in (400, 404, 409, 422) and not _may_pass(failure)


def _may_pass(failure: HttpFailure) -> bool:
    return failure.status == 429 or failure.status >= 500 or failure.code == "COULD_NOT_ACQUIRE_LOCK"


def submission_error(error: Exception, earlier: list[BaseException]) -> Exception:
    """
    Return what an error of a submission says about the run.

    :param error: what the hook raised
    :param earlier: errors of the attempts before it, which the hook had repeated
    :return: ``ServiceThrottledError`` or ``SubmissionRejectedError``: certainly no run;
        ``SubmissionUnclearError``: there may be one; or ``error`` itself
    """
    failure = http_failure(error)
    if failure is None:
        sent = any(isinstance(_last_attempt(seen), RequestException) for seen in (error, error.__context__))
        return SubmissionUnclearError(f"Databricks did not answer: {error}") if sent or earlier else error
    if any(_may_have_started(attempt) for attempt in earlier) or failure.status >= 500:
        return SubmissionUnclearError(f"Databricks failed while it took the run: {error}")
    if _may_pass(failure):
        return ServiceThrottledError(str(error))
    said = f"HTTP {failure.status} {failure.code or ''}".strip()
    return SubmissionRejectedError(f"Databricks refused the run: {said}: {failure.message or error}")


def _may_have_started(attempt: BaseException) -> bool:
    failure = http_failure(attempt)
    return failure is None or failure.status >= 500


@contextmanager
def attempts_of(hook: Any) -> Iterator[list[BaseException]]:
    """
    Collect the errors of a request that the hook repeats by itself.

    A refusal after a lost answer is no proof that there is no run.

    :param hook: a ``DatabricksHook``
    """
    errors: list[BaseException] = []
    patient = hook.retry_args
    report = patient.get("after")

    def after(attempt: Any) -> None:
        if attempt.outcome is not None and (error := attempt.outcome.exception()):
            errors.append(error)
        if report is not None:
            report(attempt)

    hook.retry_args = {**patient, "after": after}
    try:
        yield errors
    finally:
        hook.retry_args = patient


# -- requests ----------------------------------------------------------------------------------


def check_token(token: Any, where: str) -> None:
    """
    Check an author's ``idempotency_token``.

    :param token: the token, rendered
    :param where: what the error begins with
    :raises ValueError: what is wrong with it
    """
    if not isinstance(token, str) or len(token) > TOKEN_LIMIT:
        raise ValueError(
            f"{where}: idempotency_token={token!r} ({len(str(token))} characters) is no token for "
            f"Databricks. Use a string of up to {TOKEN_LIMIT} characters, or leave it out: a token is made "
            "for every submission."
        )


def check_submit(payload: Any, where: str) -> None:
    """
    Check the body of a ``jobs/runs/submit`` request.

    :param payload: the body
    :param where: what the error begins with
    :raises ValueError: it is no JSON object, has no task, or a token that is too long
    """
    _check_body(payload, where)
    if not payload.get("tasks") and not any(key.endswith("_task") and payload[key] for key in payload):
        raise ValueError(
            f"{where}: there is nothing to run. Give tasks=[...], or one of the parameters that end in "
            "_task, by itself or inside json."
        )


def check_run_now(payload: Any, where: str) -> None:
    """
    Check the body of a ``jobs/run-now`` request.

    :param payload: the body, with ``job_id`` or ``job_name``
    :param where: what the error begins with
    :raises ValueError: it is no JSON object, names no job or two, or has a token that is too long
    """
    _check_body(payload, where)
    given = [name for name in ("job_id", "job_name") if payload.get(name)]
    if len(given) != 1:
        raise ValueError(
            f"{where}: {'both job_id and job_name are' if given else 'neither job_id nor job_name is'} "
            "given. Give one of them, by itself or inside json."
        )


def _check_body(payload: Any, where: str) -> None:
    if not isinstance(payload, Mapping):
        raise ValueError(  # noqa: TRY004 - wrong parameters are one kind of error
            f"{where}: json is a {type(payload).__name__}. It must be a dictionary: the body of the request."
        )
    if payload.get("idempotency_token"):
        check_token(payload["idempotency_token"], where)


#: The check of a request's body, by the name of the hook's method that sends it.
CHECKS = {"submit_run": check_submit, "run_now": check_run_now}
