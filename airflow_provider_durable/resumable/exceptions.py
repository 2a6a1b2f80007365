"""
What can go wrong with a job, as exceptions.

Operators raise the submission errors to tell the mixin what a failed request means; Dag authors meet
the others in their task logs.
"""

from __future__ import annotations

from airflow_provider_durable.resumable.compat import AirflowException, AirflowFailException


class JobFailedError(AirflowException):
    """The job ended without success, was cancelled, or is no longer known to the service."""


class SubmissionRejectedError(AirflowException):
    """
    The service refused the submission: no job was started.

    Raise it from ``submit_job`` when the answer says so for certain. Nothing is recovered then.
    """


class SubmissionUnclearError(AirflowException):
    """
    Nobody knows whether the job was started: a timeout, a dropped connection, a 5xx.

    Raise it from ``submit_job``. The mixin asks ``recover_job`` and submits again, with the same
    token, only when there is no such job.
    """


class RecoveryUnavailableError(AirflowException):
    """
    ``recover_job`` cannot tell whether the job was started.

    Raise it when the service has no way to say, or forbids the question. ``on_lost_submission``
    decides what happens next.
    """


class LostSubmissionError(AirflowFailException):
    """
    A submission was sent, its answer is lost and the job cannot be looked up.

    Raised with ``on_lost_submission="fail"``. Retrying would not help, so Airflow does not; clearing
    the task submits again.
    """


class LostJobError(AirflowFailException):
    """
    The job goes on under a name that the service does not tell.

    Raise it from ``get_job_status``. Submitting again would run the work twice, waiting would have no
    end, so Airflow does not retry; clearing the task submits again.
    """


class StatusUnavailableError(AirflowException):
    """The service could not be asked for the job's status for longer than ``poll_error_window``."""


class ServiceThrottledError(AirflowException):
    """
    The service answered that it was asked too often.

    Raise it from ``get_job_status``, where it is asked again later and never counts as a failing
    request, because the service is evidently alive; or from ``submit_job``, where it says that no job
    was started, and the submission is sent again.
    """


class TriggerFailedError(AirflowException):
    """The trigger ended with an error while the job goes on; the next try reconnects."""


class TaskStoppedError(BaseException):
    """
    This try was told to stop while it waited for its job.

    Like Airflow's ``AirflowTaskTimeout`` no ``Exception``, so that a retry loop around a status
    request does not swallow it. Airflow counts it as a failed try.
    """
