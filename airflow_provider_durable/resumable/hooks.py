"""
What an operator and the mixin say to each other: parameters, hooks and their defaults.

``ResumableJobMixin`` is this class with Airflow's own mixin behind it on Airflow 3.3+, and this class
alone, always resubmitting, below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from airflow_provider_durable.resumable.compat import BaseOperatorMeta, log_event
from airflow_provider_durable.resumable.exceptions import JobFailedError, RecoveryUnavailableError
from airflow_provider_durable.resumable.parameters import (
    NOT_GIVEN,
    check,
    default_of,
    mode_gives_way,
    parameters_behind,
)
from airflow_provider_durable.resumable.signature import OperatorSignature

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.compat import Context
    from airflow_provider_durable.resumable.run import JobRun


class JobHooks:
    """The part of the mixin that is the same on every version of Airflow."""

    if TYPE_CHECKING:
        # From BaseOperator, from the parameters below, and from the six hooks of Airflow's contract.
        log: Any
        execution_timeout: timedelta | None
        durable: bool
        wait_for_termination: bool
        deferrable: bool
        mode: str
        poll_interval: Any
        poll_error_window: float | timedelta
        cancel_on_kill: bool
        on_clear: str
        on_lost_submission: str
        state_retention: timedelta | None
        defer: Callable[..., Any]
        submit_job: Callable[[Context], JsonValue]
        get_job_status: Callable[[JsonValue, Context], str]
        is_job_active: Callable[[str], bool]
        is_job_succeeded: Callable[[str], bool]
        get_job_result: Callable[[JsonValue, Context], Any]

    __signature__ = OperatorSignature()

    #: Key of the external id in the task state store. Renaming it orphans jobs in flight.
    external_id_key: str = "remote_job_id"

    #: The method that Airflow calls after a deferral; it calls ``resume_job``.
    resume_method: ClassVar[str] = "resume_job"
    #: What the trigger of Apache's operator calls the job's id in its event: a deferral that began before
    #: the Dag moved over ends here.
    event_id_key: ClassVar[str] = "external_id"
    #: The parameter that holds the seconds between two status requests.
    poll_interval_parameter: ClassVar[str] = "poll_interval"
    #: The parameter that says whether to wait for the end of the job.
    wait_parameter: str = "wait_for_termination"
    #: ``mode="reschedule"`` leaves the worker for no less: Airflow's LocalExecutor reports the end of a
    #: try late, and takes a task that is back before that report for one that died.
    min_reschedule_interval: ClassVar[timedelta] = timedelta(seconds=30)
    #: Whether ``recover_job`` starts the job if there was none, so that its time begins then.
    recovery_submits: ClassVar[bool] = False

    #: Whether the author, not the configuration, asked for ``deferrable``.
    deferrable_given: bool = False
    #: Parameters that are not passed on, although the next class takes them.
    _kept_back: ClassVar[frozenset[str]] = frozenset()
    _job_run: JobRun | None = None
    #: Whether the task was told to stop before it came to look for its job.
    was_killed_early: bool = False

    # Explicitly decorated, because this class is not made by the metaclass that would do it; this is
    # what lets default_args reach the parameters.
    @BaseOperatorMeta._apply_defaults  # type: ignore[type-var]
    def __init__(
        self,
        *,
        durable: bool = NOT_GIVEN,
        wait_for_termination: bool = NOT_GIVEN,
        deferrable: bool = NOT_GIVEN,
        mode: str = NOT_GIVEN,
        poll_interval: float | timedelta = NOT_GIVEN,
        poll_error_window: float | timedelta = NOT_GIVEN,
        cancel_on_kill: bool = NOT_GIVEN,
        on_clear: str = NOT_GIVEN,
        on_lost_submission: str = NOT_GIVEN,
        state_retention: timedelta | None = NOT_GIVEN,
        **kwargs: Any,
    ) -> None:
        parameters = {
            "durable": durable,
            "wait_for_termination": wait_for_termination,
            "deferrable": deferrable,
            "mode": mode,
            "poll_interval": poll_interval,
            "poll_error_window": poll_error_window,
            "cancel_on_kill": cancel_on_kill,
            "on_clear": on_clear,
            "on_lost_submission": on_lost_submission,
            "state_retention": state_retention,
        }
        given = {name for name, value in parameters.items() if value is not NOT_GIVEN}
        behind = parameters_behind(type(self), JobHooks) - self._kept_back  # type: ignore[arg-type]
        if "mode" not in behind and mode_gives_way(parameters, kwargs.get("default_args")):
            given.discard("mode")
        super().__init__(**kwargs, **{name: parameters[name] for name in given & behind})
        for name, value in parameters.items():
            if name not in behind:
                setattr(self, name, value if name in given else default_of(name))
        self.deferrable_given = "deferrable" in given
        self._settle_durable(given=durable is not NOT_GIVEN)
        check(self, given, own=given - behind)

    def _settle_durable(self, *, given: bool) -> None:
        """Have the last word on ``durable``, where Airflow cannot keep it."""

    # -- hooks with a default ------------------------------------------------------------------

    def should_wait(self) -> bool | None:
        """
        Return whether to wait for the end of the job; None while that is a template, not yet rendered.

        :raises ValueError: a template that was rendered to neither true nor false
        """
        value = getattr(self, self.wait_parameter)
        if not isinstance(value, str):
            return bool(value)
        if "{" in value:
            return None
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if (word := value.strip().lower()) not in words:
            raise ValueError(f"{self.wait_parameter} was rendered to {value!r}; it must be True or False.")
        return words[word]

    def prepare_submission(self, context: Context) -> dict[str, JsonValue]:
        """
        Check the rendered parameters before anything is sent, and say what finds the job again.

        :param context: Airflow's context
        :return: what ``recover_job`` will need, kept in the submission record: names, ids, places;
            never a payload or a credential
        :raises ValueError: parameters that the service would not take
        """
        return {}

    def recover_job(self, token: str, context: Context) -> JsonValue:
        """
        Return the external id of the job that a submission with ``token`` started.

        Overriding this switches the write-ahead record on: ``submit_job`` then sends
        ``self.submission_token`` along, and ``self.submission_details`` holds what
        ``prepare_submission`` returned.

        :param token: the token of the submission in question
        :param context: Airflow's context
        :return: the external id, or None if no job was started
        :raises RecoveryUnavailableError: nobody can tell; ``on_lost_submission`` decides
        """
        raise RecoveryUnavailableError(f"{type(self).__name__} does not look jobs up by their token.")

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:
        """
        Stop the job; safe to call twice. The default is what the next class does in ``on_kill``.

        :param external_id: the job's external id
        :param context: Airflow's context
        """
        if callable(inherited := getattr(super(), "on_kill", None)):
            inherited()

    def make_trigger(self, external_id: JsonValue, context: Context) -> Any:
        """
        Return the trigger to defer on. Its event may say ``status``: ``"error"`` or ``"timeout"``, or say so
        in ``outcome`` where ``status`` has another reader.

        The job's outcome is asked of the service when the task resumes, not read from the event.

        :param external_id: the job's external id
        :param context: Airflow's context
        """
        raise NotImplementedError(f"{type(self).__name__} defines no make_trigger")

    def describe_failure(self, external_id: JsonValue, status: str, context: Context) -> str:
        """Return the error message for a job that ended in ``status`` without success."""
        return f"Job {external_id} ended without success: {status}"

    def poll_until_complete(self, external_id: JsonValue, context: Context) -> None:
        """
        Ask ``get_job_status`` every ``poll_interval`` until the job has ended.

        Failing requests are tolerated for ``poll_error_window``; a stop request ends the wait at once.

        :raises JobFailedError: it ended without success
        :raises StatusUnavailableError: its status could not be read for too long
        :raises AirflowTaskTimeout: ``execution_timeout``, counted from the submission, has passed
        """
        run = self._job_run or self._new_run(context)
        run.external_id = external_id
        read = run.status_reader()
        while True:
            status = read()
            if status is not None and not self.is_job_active(status):
                if self.is_job_succeeded(status):
                    return
                raise JobFailedError(self.describe_failure(external_id, status, context))
            run.pause()

    # -- what the operator calls ---------------------------------------------------------------

    def execute_resumable(self, context: Context) -> Any:
        """
        Run one try: find the job of an earlier one or submit, wait, return the job's result.

        Call it from ``execute``.

        :param context: Airflow's context
        :return: what ``get_job_result`` returns; the external id with ``wait_for_termination=False``
        :raises JobFailedError: the job ended without success
        """
        if type(self).on_kill is not JobHooks.on_kill:
            log_event(
                self.log,
                "info",
                "on_kill is overridden, so the job is stopped whenever the worker is. Rename it to "
                "cancel_job(self, external_id, context) to have evictions leave the job running",
                operator=type(self).__name__,
            )
        self._job_run = self._new_run(context)
        return self._job_run.execute()

    def _new_run(self, context: Context) -> JobRun:
        # Not at the top: Dag files are parsed more often than tasks run.
        from airflow_provider_durable.resumable.run import JobRun

        return JobRun(self, context)

    def resume_job(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,
        external_id: JsonValue = None,
        submitted_at: str | None = None,
    ) -> Any:
        """
        Take up the wait after a deferral. The job's outcome decides, whatever the event says.

        :param context: Airflow's context
        :param event: the trigger's event
        :param external_id: the job, where no store remembers it
        :param submitted_at: when it was submitted, likewise, in ISO 8601
        :return: as ``execute_resumable``
        """
        self._job_run = run = self._new_run(context)
        if external_id:
            run.external_id = external_id
        if submitted_at:
            run.submitted_at = datetime.fromisoformat(submitted_at)
        return run.execute(event=event or {})

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,
        external_id: JsonValue = None,
        submitted_at: str | None = None,
    ) -> Any:
        """Take up the wait after a deferral, also after one that Apache's operator began."""
        return self.resume_job(context, event, external_id, submitted_at)

    def on_kill(self) -> None:
        """Stop, for whichever reason Airflow has; the stop table decides what becomes of the job."""
        if self._job_run is not None:
            self._job_run.stopper.on_kill()
            return
        self.was_killed_early = True
        if callable(inherited := getattr(super(), "on_kill", None)):
            try:
                inherited()
            except Exception as error:  # noqa: BLE001 - some expect a job; raised here it would come out anywhere
                log_event(self.log, "info", "There is no job to stop yet", cause=repr(error))

    # -- what the hooks may read ---------------------------------------------------------------

    @property
    def submission_token(self) -> str:
        """The token to send with the submission at hand."""
        return self._job_run.token if self._job_run else ""

    @property
    def submission_details(self) -> dict[str, JsonValue]:
        """
        What is remembered of the submission at hand, beside its token.

        ``submit_job`` may add what it learns from the answer; it is stored before the external id.
        """
        return self._job_run.details if self._job_run else {}

    def remember(self, **facts: JsonValue) -> None:
        """
        Add to what is remembered of the submission at hand, and store it.

        :param facts: ids, numbers, states; never a payload or a credential
        """
        if (run := self._job_run) is not None and run.record is not None:
            run.save(replace(run.record, details={**run.details, **facts}))

    @property
    def is_first_submission(self) -> bool:
        """Whether this task instance has submitted no job yet."""
        run = self._job_run
        return run is None or (run.record is None and not run.external_id)

    @property
    def is_job_current(self) -> bool:
        """Whether the job at hand is still wanted: neither told to stop, nor from before a clear."""
        run = self._job_run
        return run is None or not (run.situation.cleared or (run.record and run.record.cancelled_at))

    @property
    def is_job_to_be_cancelled(self) -> bool:
        """Whether the task was told to stop, and its job with it: for a ``submit_job`` that takes long."""
        return self._job_run is not None and self._job_run.stopper.is_to_cancel

    @property
    def trigger_options(self) -> dict[str, Any]:
        """What every trigger on ``triggers.base.JobTrigger`` takes: for ``make_trigger``."""
        return {
            "poll_interval": getattr(self, self.poll_interval_parameter),
            "deadline": self.job_deadline,
            "cancel_on_kill": self.cancel_on_kill,
            "poll_error_window": self.poll_error_window,
        }

    @property
    def submission_requested_at(self) -> datetime | None:
        """When the token of the submission at hand was made: no job of it is older."""
        record = self._job_run.record if self._job_run else None
        return record.requested_at if record else None

    @property
    def job_submitted_at(self) -> datetime | None:
        """When the job at hand was submitted."""
        return self._job_run.submitted_at if self._job_run else None

    @property
    def job_deadline(self) -> datetime | None:
        """When ``execution_timeout``, counted from the submission, will have passed."""
        return self._job_run.deadline if self._job_run else None
