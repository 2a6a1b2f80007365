"""
What to do next with a task instance's job: a pure function, without any I/O.

Everything the mixin does hangs on it, so it reads as the table in the documentation and is tested as
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.record import SubmissionRecord


class JobState(Enum):
    """What a service's status means, in the three words that decisions need."""

    ACTIVE = "active"
    SUCCEEDED = "succeeded"
    #: Failed, cancelled, or unknown to the service.
    ENDED = "ended"


class Decision(Enum):
    """What to do next."""

    SUBMIT = "submit"
    RECOVER = "recover"
    #: Not enough is known yet: ask the service for the job's status, then decide again.
    ASK = "ask"
    RECONNECT = "reconnect"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True)
class Situation:
    """
    All that a decision depends on.

    :param external_id: the stored external id
    :param record: the stored submission record; None where Airflow's own mixin stored the id
    :param state: what the service says of the job, None before it is asked
    :param try_number: the number of this try
    :param max_tries: the task instance's ``max_tries`` now
    :param on_clear: ``"resubmit"`` or ``"resume"``
    :param waits: whether the task waits for the end of its job
    """

    external_id: JsonValue
    record: SubmissionRecord | None = None
    state: JobState | None = None
    try_number: int = 1
    max_tries: int = 0
    on_clear: str = "resubmit"
    waits: bool = True

    @property
    def cleared(self) -> bool:
        """
        Whether the task was cleared since the job was submitted: nothing but a clear changes max_tries.

        It sets it to the try's number and the retries that the Dag has by now, so also to less than before.
        """
        return self.record is not None and self.max_tries != self.record.max_tries

    @property
    def stopped(self) -> bool:
        """Whether the job was told to stop."""
        return self.record is not None and self.record.cancelled_at is not None

    @property
    def awaits_end(self) -> bool:
        """Whether the job's end matters: that of one we stopped does in any case, as another follows."""
        return self.waits or self.stopped

    @property
    def same_try(self) -> bool:
        """Whether this very try submitted the job or reconnected to it, and now comes back."""
        return self.record is not None and self.record.try_number == self.try_number


def decide(situation: Situation) -> Decision:
    """Return what to do next in ``situation``."""
    record = situation.record
    if record is not None and not record.answered_by(situation.external_id):
        return Decision.RECOVER
    if not situation.external_id:
        return Decision.SUBMIT
    if not situation.awaits_end and not situation.cleared:
        # The task's work is to start the job, and the job was started, however it went on.
        return Decision.FINISHED
    if situation.state is None:
        return Decision.ASK
    if situation.state is JobState.ACTIVE:
        return Decision.RECONNECT
    if situation.state is JobState.SUCCEEDED:
        # After a clear the next try wants a new job, unless it had reconnected to this one first.
        stale = situation.cleared and not situation.same_try
        return Decision.SUBMIT if stale and situation.on_clear == "resubmit" else Decision.FINISHED
    if not situation.same_try or situation.cleared or situation.stopped:
        # The job of an earlier try, of before a clear, or one that we stopped: its end is no news.
        return Decision.SUBMIT
    return Decision.FAILED
