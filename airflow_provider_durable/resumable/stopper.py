"""
Carrying a stop out: from Airflow's ``on_kill`` to a job that is cancelled or left running.

``on_kill`` runs in a signal handler on the task's own thread, which may be in the middle of a request
to the API server, whose lock is not reentrant. So a helper thread asks why and acts, the handler waits
for it as long as it may, and what is left is finished at the next safe point.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_durable.resumable.compat import AirflowTaskTimeout, log_event
from airflow_provider_durable.resumable.exceptions import TaskStoppedError
from airflow_provider_durable.resumable.record import utcnow
from airflow_provider_durable.resumable.stop import (
    StopAction,
    StopReason,
    ask_server,
    choose,
    has_try_left,
)
from airflow_provider_durable.resumable.telemetry import count

if TYPE_CHECKING:
    from airflow_provider_durable.resumable.run import JobRun

#: How long the signal handler waits for the server's answer; SIGKILL may follow after 5 s.
ASK_SECONDS = 2.0
#: How long it then waits for the service to take the cancellation.
CANCEL_SECONDS = 2.5
#: How long a safe point waits for what the handler had to leave unfinished.
SETTLE_SECONDS = 30.0


class Stopper:
    """
    Stops one run.

    :param run: the run
    """

    def __init__(self, run: JobRun) -> None:
        self._run = run
        self._is_told = False
        self._thread: threading.Thread | None = None
        self._answered = threading.Event()
        self._reason = StopReason.UNKNOWN
        self._act_lock = threading.Lock()
        self._done = False

    def on_kill(self) -> None:
        """
        Find out why the run is to stop, and do what that means for its job.

        :raises TaskStoppedError: when the run was waiting, and all that had to be done is done
        """
        if isinstance(sys.exc_info()[1], AirflowTaskTimeout):
            self._on_timeout()
            return
        if self._run.is_done and not (self._run.has_left_worker and self._run.store):
            return
        self._is_told = True
        if self._run.store is None:
            # There is nobody to reconnect: the job ends with the task.
            self._reason = StopReason.NOT_DURABLE
            self._answered.set()
            self._act()
        else:
            if self._thread is None:
                self._thread = threading.Thread(target=self._ask_and_act, name="durable-stop", daemon=True)
                self._thread.start()
            if self._answered.wait(ASK_SECONDS):
                self._thread.join(CANCEL_SECONDS)
            if self._run.is_waiting and not self._thread.is_alive():
                # The server answered while this thread stood still, so this thread is not in the middle
                # of a request to it, and can be interrupted.
                self.checkpoint()

    def on_early_kill(self) -> None:
        """
        Act on a stop that came before there was a run.

        :raises TaskStoppedError: at once without a store; else the next safe point does it
        """
        self.on_kill()
        if self._run.store is None:
            raise TaskStoppedError("Stopped, before a job was started or waited for.")

    def checkpoint(self) -> None:
        """
        Stop here if the run was told to: a safe point, where no request is under way.

        :raises TaskStoppedError: it was
        """
        if not self._is_told or (self._run.store is None and self._done):
            return  # without a store, what was done is all: the wait shows how the job ends
        if self._thread is not None:
            self._thread.join(SETTLE_SECONDS)
        if not self._done and not (self._thread and self._thread.is_alive()):
            self._act()
        job = f"job {self._run.external_id}"
        if not self._run.external_id:
            fate = "no job was started"
        elif self._action is StopAction.CANCEL:
            fate = f"{job} was cancelled" if self._done else f"cancelling {job} failed, see above"
        else:
            fate = f"{job} is left running, and the next try reconnects to it"
        raise TaskStoppedError(f"Stopped, because {self._reason.value}: {fate}.")

    @property
    def is_to_cancel(self) -> bool:
        """Whether the run was told to stop, and its job with it, as far as is known by now."""
        return self._is_told and self._answered.is_set() and self._action is StopAction.CANCEL

    def _ask_and_act(self) -> None:
        try:
            self._reason = ask_server(self._run.ti)
        finally:
            self._answered.set()
        # What happens to its worker does not stop a task that is about to wait elsewhere. But where a person
        # has acted, Airflow refuses to have it wait, and nobody else would stop the job.
        if not self._run.has_left_worker or self._reason is StopReason.PERSON:
            self._act()

    @property
    def _action(self) -> StopAction:
        situation = self._run.situation
        return choose(
            self._reason,
            try_left=has_try_left(situation.try_number, situation.max_tries),
            cancel_on_kill=self._run.settings.cancel_on_kill,
        )

    def _on_timeout(self) -> None:
        """Cancel the job, also one whose submission the timeout interrupted."""
        run, self._reason = self._run, StopReason.TIMEOUT
        if self._action is StopAction.CANCEL and not run.is_answered:
            try:
                run.external_id = run.operator.recover_job(run.token, run.context)
            except Exception as error:  # noqa: BLE001 - a try that timed out ends, whatever the service says
                log_event(
                    run.operator.log, "error", "Could not look for the job to cancel", cause=repr(error)
                )
                return
        self._act()

    def _act(self) -> None:
        """Cancel the job or leave it. Without an id yet: nothing, the next safe point knows more."""
        run, op = self._run, self._run.operator
        if not run.is_answered and not run.is_done:
            return
        with self._act_lock:
            if self._done:
                return
            fields = {"external_id": run.external_id, "because": self._reason.value}
            if not run.external_id:
                self._done = True
            elif self._action is StopAction.LEAVE:
                count(op, run.ti, "left_running")
                log_event(op.log, "warning", "The job is left running", **fields)
                self._done = True
            else:
                log_event(op.log, "info", "Cancelling the job", **fields)
                try:
                    self._note_cancellation()
                    op.cancel_job(run.external_id, run.context)
                except Exception as error:  # noqa: BLE001 - tried again at the next safe point, or by the next try
                    log_event(op.log, "error", "Cancelling the job failed", cause=repr(error), **fields)
                else:
                    count(op, run.ti, "cancelled")
                    self._done = True

    def _note_cancellation(self) -> None:
        """Store the intent first: if this process dies here, the next try cancels the job again."""
        run = self._run
        if run.record is None or run.record.cancelled_at is not None:
            return
        try:
            run.save(replace(run.record, cancelled_at=utcnow()))
        except Exception as error:  # noqa: BLE001 - the job is stopped all the same
            log_event(run.operator.log, "warning", "Could not note the cancellation", cause=repr(error))
