"""
One try's way through the life of its job: decide, submit or reconnect, wait, return.

``JobRun`` holds what is known while a try runs; the operator's hooks do what the service needs. The
decision is in ``decision``, starting a job in ``submission``, the rules for stopping in ``stop``.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_durable.resumable.compat import (
    AirflowRescheduleException,
    AirflowTaskTimeout,
)
from airflow_provider_durable.resumable.decision import Decision, JobState, Situation, decide
from airflow_provider_durable.resumable.exceptions import (
    JobFailedError,
    TriggerFailedError,
)
from airflow_provider_durable.resumable.poll import StatusReader, jitter
from airflow_provider_durable.resumable.record import JobStore, utcnow
from airflow_provider_durable.resumable.settings import Settings
from airflow_provider_durable.resumable.stopper import Stopper
from airflow_provider_durable.resumable.submission import adopt, recover, submit
from airflow_provider_durable.resumable.telemetry import count, decision_span, report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

    from airflow_provider_durable.resumable.compat import Context
    from airflow_provider_durable.resumable.hooks import JobHooks
    from airflow_provider_durable.resumable.record import SubmissionRecord

#: In the context: the keys of what this task instance has executed.
_EXECUTED = "airflow_durable_executed"


class JobRun:
    """
    One try's run.

    :param operator: the operator whose hooks are called
    :param context: Airflow's context of this try
    """

    def __init__(self, operator: JobHooks, context: Context) -> None:
        self.operator = operator
        self.context = context
        self.settings = Settings.of(operator)
        self.ti: Any = context.get("ti")
        self.store = self._open_store()
        #: While it waits, and only then, a signal may interrupt the run anywhere.
        self.is_waiting = False
        self.is_done = False
        #: Whether it has done its part, and the task is about to wait without a worker.
        self.has_left_worker = False
        self.external_id: JsonValue = None
        self.record: SubmissionRecord | None = None
        self.submitted_at: datetime | None = None
        self.details: dict[str, JsonValue] = {}
        self.stopper = Stopper(self)

    # -- what is known -------------------------------------------------------------------------

    def _open_store(self) -> JobStore | None:
        if not self.operator.durable:
            return None
        store = self.context.get("task_state_store")
        if store is None:
            self.operator.log.warning(
                "task_state_store not available in context, crash recovery is disabled for this run"
            )
            return None
        return JobStore(store, self.operator.external_id_key, self.operator.state_retention)

    @property
    def keeps_record(self) -> bool:
        """
        Whether a submission is recorded before it leaves.

        An operator with Airflow's six hooks alone gets what Airflow's mixin stores: the id. Whoever can
        recover, wants to fail on a loss, or leaves the worker while it waits needs more.
        """
        return self.store is not None and self.ti is not None and self.settings.wants_record

    @property
    def token(self) -> str:
        """The token of the submission at hand; empty before there is one."""
        return self.record.token if self.record else ""

    @property
    def is_answered(self) -> bool:
        """Whether the external id is that of the submission at hand, not of the one before."""
        return self.record is None or self.record.answered_by(self.external_id)

    @property
    def situation(self) -> Situation:
        """All that is known, short of what only the service can tell."""
        return Situation(
            external_id=self.external_id,
            record=self.record,
            try_number=getattr(self.ti, "try_number", None) or 1,
            max_tries=getattr(self.ti, "max_tries", None) or 0,
            on_clear=self.settings.on_clear,
            waits=self.settings.waits,
        )

    @property
    def deadline(self) -> datetime | None:
        """When ``execution_timeout``, counted from the submission, has passed; None without one."""
        timeout: timedelta | None = self.operator.execution_timeout
        # A job that was told to stop is only waited for until it has: its time is over already.
        if timeout is None or self.submitted_at is None or self.situation.stopped:
            return None
        return self.submitted_at + timeout

    def save(self, record: SubmissionRecord) -> None:
        """Take ``record`` for the submission at hand, and store it where records are kept."""
        self._know(record)
        if self.keeps_record and self.store is not None:
            self.store.save_record(record)

    def forget(self, record: SubmissionRecord, earlier: SubmissionRecord | None) -> None:
        """Go back to the ``earlier`` record: the submission of ``record`` was refused."""
        self.record = earlier
        if self.keeps_record and self.store is not None:
            if earlier is None or earlier.token == record.token:
                self.store.delete_record()
            else:
                self.store.save_record(earlier)

    def _know(self, record: SubmissionRecord) -> None:
        self.record = record
        self.submitted_at = record.submitted_at
        self.details = dict(record.details)

    # -- the way through -----------------------------------------------------------------------

    def execute(self, event: Mapping[str, Any] | None = None) -> Any:
        """
        Run this try: from ``execute``, or with the trigger's ``event`` after a deferral.

        :return: what ``get_job_result`` returns, or the external id of a job that is not waited for
        :raises JobFailedError: the job ended without success
        """
        try:
            if event is None:
                self._claim_task()
            self._load(event)
            if self.operator.was_killed_early:
                self.stopper.on_early_kill()
            while True:
                decision, status = self._decide()
                if decision is Decision.FINISHED:
                    return self._result()
                if decision is Decision.FAILED:
                    reason = self.operator.describe_failure(self.external_id, status or "", self.context)
                    raise JobFailedError(reason)
                self.stopper.checkpoint()
                if decision is Decision.SUBMIT:
                    submit(self)
                elif decision is Decision.RECOVER:
                    if not recover(self):
                        continue
                else:
                    self._reconnect(event)
                event = None
                if not self.situation.awaits_end or self._wait():
                    return self._result()
        finally:
            self.is_done = True

    def _claim_task(self) -> None:
        """
        Refuse a second operator that the code of one task executes.

        It would find the first one's job, take itself for its next try, and start nothing.

        :raises ValueError: it is one
        """
        if self.store is None:
            return
        executed = cast("dict[str, set[str]]", self.context).setdefault(_EXECUTED, set())
        key = self.operator.external_id_key
        if key in executed:
            raise ValueError(
                f"{type(self.operator).__name__} was executed a second time in one task instance, whose job "
                f"is stored under {key!r} already. Make each job a task of its own (.expand() for many of a "
                "kind), or write durable=False."
            )
        executed.add(key)

    def _load(self, event: Mapping[str, Any] | None) -> None:
        """Learn of the job: from the store, or from the event of a trigger that was not ours."""
        if self.store is None:
            if event:
                self._learn_from(event)
            return
        self.external_id = self.external_id or self.store.load_id()
        if self.keeps_record and (record := self.store.load_record()):
            self._know(record)
        if event and not self.external_id and self.record is None:
            adopt(self, event.get(self.operator.event_id_key))

    def _learn_from(self, event: Mapping[str, Any]) -> None:
        """Learn of the job from the event alone: nothing else remembers it."""
        self.external_id = self.external_id or event.get("external_id", event.get(self.operator.event_id_key))
        timeout = self.operator.execution_timeout
        if self.submitted_at is None and timeout is not None and (deadline := event.get("deadline")):
            self.submitted_at = datetime.fromisoformat(deadline) - timeout

    def _result(self) -> Any:
        if not self.settings.waits:
            return self.external_id
        return self.operator.get_job_result(self.external_id, self.context)

    def _decide(self) -> tuple[Decision, str | None]:
        """Decide, asking the service only if the decision depends on it."""
        if self.store is None:
            return self._decide_without_store()
        with decision_span(self.operator) as span:
            situation, status = self.situation, None
            decision = decide(situation)
            if decision is Decision.ASK:
                if not situation.same_try:
                    count(self.operator, self.ti, "reconnect_attempt")
                status = self._ask(situation)
                if status is None:
                    return Decision.RECONNECT, None
                situation = replace(situation, state=self._state_of(status))
                decision = decide(situation)
            report(self, span, decision, situation, status)
        return decision, status

    def _decide_without_store(self) -> tuple[Decision, str | None]:
        """Nothing is remembered: a job is known only to the process that comes back for it."""
        if self.operator.durable:
            with decision_span(self.operator) as span:
                span.set_attribute("resumable.decision", "no_task_state_store")
        if not self.external_id:
            return Decision.SUBMIT, None
        read = self.status_reader()
        while (status := read()) is None:
            self.pause()
        decisions = {JobState.ACTIVE: Decision.RECONNECT, JobState.SUCCEEDED: Decision.FINISHED}
        return decisions.get(self._state_of(status), Decision.FAILED), status

    def _state_of(self, status: str) -> JobState:
        if self.operator.is_job_active(status):
            return JobState.ACTIVE
        return JobState.SUCCEEDED if self.operator.is_job_succeeded(status) else JobState.ENDED

    def _ask(self, situation: Situation) -> str | None:
        """
        Return the job's status, or None if the wait may go on without it.

        A new try that cannot ask fails, and Airflow's retry rules decide. One that comes back to the
        worker is in the middle of its wait, which tolerates as much as any other.
        """
        record = self.record
        if record is None or not (self.settings.leaves_worker and situation.same_try):
            return self.operator.get_job_status(self.external_id, self.context)
        reader = self.status_reader(failing_since=record.unreachable_since)
        status = reader()
        if reader.failing_since != record.unreachable_since:
            self.save(replace(record, unreachable_since=reader.failing_since))
        return status

    # -- wait ----------------------------------------------------------------------------------

    def _reconnect(self, event: Mapping[str, Any] | None) -> None:
        """Take over the job that an earlier try started, or that a trigger has been waiting for."""
        op, record = self.operator, self.record
        outcome = event.get("outcome", event.get("status")) if event else None
        if event and outcome == "error":
            raise TriggerFailedError(
                f"The trigger failed while job {self.external_id} goes on; the next try reconnects to it. "
                f"The trigger's event: {dict(event)}"
            )
        if outcome == "timeout":
            raise AirflowTaskTimeout(f"execution_timeout={op.execution_timeout} passed")
        if record is None or record.try_number == self.situation.try_number:
            return
        if record.cancelled_at and self.settings.cancel_on_kill:
            # The try that stopped it may have died before the service heard of it.
            op.cancel_job(self.external_id, self.context)
        self.save(replace(record, try_number=self.situation.try_number, unreachable_since=None))

    def _wait(self) -> bool:
        """Wait for the job: return whether it succeeded, False if its end is no news to this try."""
        op = self.operator
        self.check_deadline()
        if self.settings.defers:
            resume = None
            trigger = op.make_trigger(self.external_id, self.context)
            # Apache's operators, should the Dag go back to them meanwhile, take the event and nothing else.
            if self.store is None and not getattr(trigger, "event_names_job", False):
                submitted_at = self.submitted_at.isoformat() if self.submitted_at else None
                resume = {"external_id": self.external_id, "submitted_at": submitted_at}
            self._leave_worker()
            op.defer(trigger=trigger, method_name=op.resume_method, kwargs=resume)
        if self.settings.reschedules:
            now = utcnow()
            back = now + timedelta(seconds=self.settings.poll_seconds)
            if self.deadline is not None:
                back = min(back, self.deadline)
            back = max(back, now + op.min_reschedule_interval)
            self._leave_worker()
            raise AirflowRescheduleException(back)  # type: ignore[no-untyped-call]
        self.is_waiting = True
        try:
            op.poll_until_complete(self.external_id, self.context)
        except JobFailedError:
            # The end of a job that we stopped, or of before a clear, is not this try's failure.
            if decide(replace(self.situation, state=JobState.ENDED)) is Decision.SUBMIT:
                return False
            raise
        finally:
            self.is_waiting = False
        return True

    def _leave_worker(self) -> None:
        self.stopper.checkpoint()
        self.has_left_worker = True

    def status_reader(self, failing_since: datetime | None = None) -> StatusReader:
        """Return a reader of this job's status that tolerates failing requests."""
        op = self.operator
        return StatusReader(
            lambda: op.get_job_status(self.external_id, self.context),
            self.settings.poll_error_window,
            op.log,
            failing_since,
        )

    def pause(self) -> None:
        """Sleep until it is time to ask again."""
        self.sleep(jitter(self.settings.poll_seconds))

    def sleep(self, seconds: float) -> None:
        """Sleep, not past the deadline, nor past a stop."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.stopper.checkpoint()
            self.check_deadline()
            # A signal handler that had no time to finish leaves a mark, which is seen within a second.
            time.sleep(min(left, 1.0))

    def check_deadline(self) -> None:
        """
        Raise when the whole wait has lasted too long.

        :raises AirflowTaskTimeout: Airflow answers it as its own, and calls ``on_kill``
        """
        if self.deadline is not None and utcnow() >= self.deadline:
            raise AirflowTaskTimeout(
                f"execution_timeout={self.operator.execution_timeout} passed since job "
                f"{self.external_id} was submitted at {self.submitted_at}"
            )
