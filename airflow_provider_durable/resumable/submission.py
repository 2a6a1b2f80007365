"""
Starting a job so that it can be found again: record, request, answer, in this order.

Functions on a ``JobRun``. A crash between any two steps, or a lost answer, leaves a record that is
newer than the stored id; ``recover`` settles it before anything is sent again.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_durable.resumable.compat import log_event
from airflow_provider_durable.resumable.exceptions import (
    LostSubmissionError,
    RecoveryUnavailableError,
    ServiceThrottledError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)
from airflow_provider_durable.resumable.poll import jitter
from airflow_provider_durable.resumable.record import SubmissionRecord, new_token, utcnow
from airflow_provider_durable.resumable.telemetry import count

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.run import JobRun

#: Requests of one submission within one try, while their answers stay unclear.
REQUESTS = 3
#: Longest pause, in seconds, between two requests that the service throttles.
MAX_PAUSE = 20.0


def submit(run: JobRun, *, resend: SubmissionRecord | None = None) -> None:
    """
    Submit a job and store its external id.

    :param run: the try
    :param resend: the record of a submission that started no job: sent again, under its token
    """
    earlier = run.record
    record = replace(
        _new_record(run),
        submission=earlier.submission + 1 if earlier else 1,
        details=run.operator.prepare_submission(run.context),
    )
    if resend:
        record = replace(
            record, token=resend.token, submission=resend.submission, requested_at=resend.requested_at
        )
    run.save(record)
    try:
        external_id = _request(run)
    except SubmissionRejectedError:
        # Certainly no job: the next try has nothing to look for.
        run.forget(record, earlier)
        raise
    _answer(run, record, external_id)


def adopt(run: JobRun, external_id: JsonValue) -> None:
    """
    Take over a job that Apache's operator started in this very try, and remember it.

    :param run: the try, which knows of no job
    :param external_id: the job; None does nothing
    """
    if external_id:
        record = _new_record(run)
        run.save(record)
        _answer(run, record, external_id)


def _new_record(run: JobRun) -> SubmissionRecord:
    now = utcnow()
    return SubmissionRecord(
        token=new_token(),
        submission=1,
        try_number=run.situation.try_number,
        max_tries=run.situation.max_tries,
        requested_at=now,
        submitted_at=now,
        previous_id=run.external_id,
    )


def recover(run: JobRun) -> bool:
    """
    Find the job of a submission whose answer was never stored, or submit.

    :param run: the try, whose record is newer than its external id
    :return: whether a job was submitted, rather than found
    :raises LostSubmissionError: nobody can tell, and ``on_lost_submission="fail"``
    """
    op, record = run.operator, run.record
    if record is None:
        raise ValueError("there is no submission to recover")
    try:
        found = op.recover_job(record.token, run.context)
    except RecoveryUnavailableError as error:
        _lost(run, record, str(error))
        return True
    if found is None:
        log_event(op.log, "info", "The submission started no job; sending it again")
        submit(run, resend=record)
        return True
    _found(run, found)
    if op.recovery_submits:
        # The job may have begun only now, and with it its time.
        record = replace(record, submitted_at=utcnow())
        run.save(record)
    _answer(run, record, found)
    return False


def _request(run: JobRun) -> JsonValue:
    """Send the request; settle an unclear answer before anything is sent again."""
    op, patience = run.operator, time.monotonic() + run.settings.poll_error_window.total_seconds()
    unclear = throttled = 0
    while True:
        try:
            return op.submit_job(run.context)
        except SubmissionRejectedError:
            raise
        except ServiceThrottledError as error:
            # Certainly no job: only time is missing.
            throttled += 1
            if time.monotonic() > patience:
                raise
            pause = min(2.0**throttled, MAX_PAUSE)
            log_event(op.log, "info", "The service asks for fewer requests", cause=str(error))
        except Exception as error:
            if not run.settings.recovers:
                raise
            found = _look_up(run, error)
            if found is not None:
                return found
            unclear += 1
            if not isinstance(error, SubmissionUnclearError) or unclear == REQUESTS:
                raise
            pause = float(unclear)
            log_event(op.log, "info", "The submission started no job; sending it again", request=unclear)
        run.sleep(jitter(pause))


def _look_up(run: JobRun, error: Exception) -> JsonValue:
    """Return the id of the job that a failed submission started all the same, or None."""
    op = run.operator
    log_event(
        op.log,
        "warning",
        "The submission failed; looking whether it started a job",
        cause=f"{type(error).__name__}: {error}",
    )
    try:
        found = op.recover_job(run.token, run.context)
    except Exception as unknown:  # the submission's own error is the one to raise
        # The record stays: the next try looks again.
        log_event(op.log, "warning", "Could not look", cause=f"{type(unknown).__name__}: {unknown}")
        raise error from unknown
    if found is not None:
        _found(run, found)
    return found


def _found(run: JobRun, external_id: JsonValue) -> None:
    count(run.operator, run.ti, "recovered")
    log_event(run.operator.log, "info", "Found the job that was started", external_id=external_id)


def _answer(run: JobRun, record: SubmissionRecord, external_id: JsonValue) -> None:
    """Store what the service answered, then see whether this try is to stop."""
    # What the operator learned from the answer, and: an id that was there before is an answer, too.
    complete = replace(
        record,
        details=run.details,
        previous_id=None if external_id == record.previous_id else record.previous_id,
    )
    try:
        if complete != record:
            run.save(complete)
        if run.store is not None and external_id is not None:
            run.store.save_id(external_id)
            log_event(
                run.operator.log,
                "debug",
                "Persisted external ID to task store",
                external_id_key=run.operator.external_id_key,
                external_id=external_id,
            )
    finally:
        # Also where nothing could be stored: a run that was deleted has no store, but its job is to end.
        run.external_id = external_id
        run.stopper.checkpoint()


def _lost(run: JobRun, record: SubmissionRecord, why: str) -> None:
    op = run.operator
    count(op, run.ti, "lost_submission")
    sent = record.submitted_at.isoformat(timespec="seconds")
    if run.settings.on_lost_submission == "fail" and not run.situation.cleared:
        raise LostSubmissionError(
            f"A job may have been started at {sent} (token {record.token}), but its id was never stored "
            f"and it cannot be looked up: {why} Look for it at the service, and stop it or let it end; "
            "then clear this task to submit again."
        )
    log_event(op.log, "warning", "A submission is lost; submitting a new job", sent=sent, cause=why)
    submit(run)
