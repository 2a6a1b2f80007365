"""
What is stored about a job: its external id, and the record of the submission that started it.

The record is written before the request leaves, so that a crash at any later point leaves enough to
find the job. Ids, tokens, numbers and timestamps only: never a payload, a query or a credential.
"""

from __future__ import annotations

import secrets
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.resumable.compat import NEVER_EXPIRE, AirflowException

if TYPE_CHECKING:
    from pydantic import JsonValue

#: 32 characters of ``[0-9a-f]``: fits a Databricks ``idempotency_token`` (64 characters), a BigQuery
#: job id, a YARN tag and a Kubernetes label value (63 characters).
_TOKEN_BYTES = 16

_TIMESTAMPS = ("requested_at", "submitted_at", "cancelled_at", "unreachable_since")


def new_token() -> str:
    """Return a random token. Never derived from ids: two Airflows may share one workspace."""
    return secrets.token_hex(_TOKEN_BYTES)


def utcnow() -> datetime:
    """Return the present moment, aware, in UTC."""
    return datetime.now(tz=timezone.utc)


@dataclass(frozen=True)
class SubmissionRecord:
    """
    One submission, as stored under ``<external_id_key>_submission``.

    :param token: the random id that travels with the submission
    :param submission: its number in this task instance, from 1
    :param try_number: the try that submitted the job or, later, last reconnected to it
    :param max_tries: the task instance's ``max_tries`` at submission; Airflow raises it on a clear
    :param requested_at: when the token was made: no job of this token is older
    :param submitted_at: when the latest request with this token was made
    :param previous_id: the external id that was stored before; while it still is, the answer is missing
    :param cancelled_at: when the job was told to stop by one of the stop rules
    :param unreachable_since: since when the service cannot be asked, across reschedules
    :param details: what the operator needs to find the job again
    """

    token: str
    submission: int
    try_number: int
    max_tries: int
    requested_at: datetime
    submitted_at: datetime
    previous_id: JsonValue = None
    cancelled_at: datetime | None = None
    unreachable_since: datetime | None = None
    details: dict[str, JsonValue] = field(default_factory=dict)

    def answered_by(self, external_id: JsonValue) -> bool:
        """Return whether the stored ``external_id`` is the answer to this submission."""
        return bool(external_id) and external_id != self.previous_id

    def to_json(self) -> dict[str, JsonValue]:
        """Return the record as a JSON object, without what is unset."""
        return {
            key: value.isoformat() if isinstance(value, datetime) else value
            for key, value in asdict(self).items()
            if value is not None and value != {}
        }

    @classmethod
    def from_json(cls, stored: Any, key: str) -> SubmissionRecord:
        """
        Return the record that ``to_json`` wrote; fields of a newer version are left out.

        :raises AirflowException: the stored value is no submission record. Submitting without knowing
            what it said could start a second job.
        """
        try:
            known = {f.name: stored[f.name] for f in fields(cls) if f.name in stored}
            known.update({name: datetime.fromisoformat(known[name]) for name in _TIMESTAMPS if name in known})
            return cls(**known)
        except (TypeError, ValueError, KeyError) as error:
            raise AirflowException(
                f"The task state store holds {stored!r} under {key!r}, which is no submission record "
                f"({error}). Look up the job at the service, then delete this key to submit again."
            ) from error


class JobStore:
    """
    The two keys of one job in the task state store.

    :param store: ``context["task_state_store"]``
    :param external_id_key: the operator's key for the external id
    :param retention: how long the keys are kept after each write; None leaves it to Airflow
    """

    def __init__(self, store: Any, external_id_key: str, retention: timedelta | None) -> None:
        self._store = store
        self._id_key = external_id_key
        self._record_key = f"{external_id_key}_submission"
        if retention == NEVER_EXPIRE:
            retention = NEVER_EXPIRE  # Airflow knows it by identity, which copies of default_args lose
        # Without a retention of ours, set() is called as Airflow's own mixin calls it.
        self._options = {} if retention is None else {"retention": retention}

    def load_id(self) -> JsonValue:
        """Return the stored external id, or None."""
        stored: JsonValue = self._store.get(self._id_key)
        return stored

    def save_id(self, external_id: JsonValue) -> None:
        """Store the external id."""
        self._store.set(self._id_key, external_id, **self._options)

    def load_record(self) -> SubmissionRecord | None:
        """Return the stored submission record, or None."""
        stored = self._store.get(self._record_key)
        return None if stored is None else SubmissionRecord.from_json(stored, self._record_key)

    def save_record(self, record: SubmissionRecord) -> None:
        """Store the submission record."""
        self._store.set(self._record_key, record.to_json(), **self._options)

    def delete_record(self) -> None:
        """Delete the submission record."""
        self._store.delete(self._record_key)
