"""The decision as a table: one line a row of the documentation's."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from airflow_provider_durable.resumable.decision import Decision, JobState, Situation, decide
from airflow_provider_durable.resumable.record import SubmissionRecord

NOW = datetime(2026, 11, 30, tzinfo=timezone.utc)
ACTIVE, SUCCEEDED, ENDED = JobState.ACTIVE, JobState.SUCCEEDED, JobState.ENDED


def record(**changes: object) -> SubmissionRecord:
    """Return the record of a first submission, by try 1 of a task with one retry."""
    fields: dict[str, object] = {
        "token": "t",
        "submission": 1,
        "try_number": 1,
        "max_tries": 1,
        "requested_at": NOW,
        "submitted_at": NOW,
    }
    return SubmissionRecord(**{**fields, **changes})  # type: ignore[arg-type]


FIRST = record()
SECOND = record(submission=2, try_number=2, previous_id="job-1")
STOPPED = record(cancelled_at=NOW)


def case(why: str, expected: Decision, **situation: object) -> object:
    return pytest.param(Situation(**{"max_tries": 1, **situation}), expected, id=why)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("situation", "expected"),
    [
        case("nothing is stored", Decision.SUBMIT, external_id=None),
        case("an empty id is no id", Decision.SUBMIT, external_id=""),
        case("a record without an id", Decision.RECOVER, external_id=None, record=FIRST, try_number=2),
        case(
            "a record newer than the id", Decision.RECOVER, external_id="job-1", record=SECOND, try_number=3
        ),
        case(
            "a record without an id, task cleared since",
            Decision.RECOVER,
            external_id=None,
            record=FIRST,
            try_number=2,
            max_tries=3,
        ),
        case("the service was not asked yet", Decision.ASK, external_id="job-1", record=FIRST, try_number=2),
        case("active", Decision.RECONNECT, external_id="job-1", record=FIRST, state=ACTIVE, try_number=2),
        case(
            "active, task cleared since",
            Decision.RECONNECT,
            external_id="job-1",
            record=FIRST,
            state=ACTIVE,
            try_number=2,
            max_tries=3,
        ),
        case(
            "succeeded", Decision.FINISHED, external_id="job-1", record=FIRST, state=SUCCEEDED, try_number=2
        ),
        case(
            "succeeded, task cleared since",
            Decision.SUBMIT,
            external_id="job-1",
            record=FIRST,
            state=SUCCEEDED,
            try_number=2,
            max_tries=3,
        ),
        case(
            "succeeded, task cleared since, on_clear=resume",
            Decision.FINISHED,
            external_id="job-1",
            record=FIRST,
            state=SUCCEEDED,
            try_number=2,
            max_tries=3,
            on_clear="resume",
        ),
        case(
            "succeeded, after a clear that reconnected in this try",
            Decision.FINISHED,
            external_id="job-1",
            record=record(try_number=2),
            state=SUCCEEDED,
            try_number=2,
            max_tries=3,
        ),
        case(
            "failed while nobody watched",
            Decision.SUBMIT,
            external_id="job-1",
            record=FIRST,
            state=ENDED,
            try_number=2,
        ),
        case("failed in this try", Decision.FAILED, external_id="job-1", record=FIRST, state=ENDED),
        case(
            "failed in this try, which we had stopped",
            Decision.SUBMIT,
            external_id="job-1",
            record=STOPPED,
            state=ENDED,
        ),
        case(
            "failed in this try, but is of before a clear",
            Decision.SUBMIT,
            external_id="job-1",
            record=record(try_number=2),
            state=ENDED,
            try_number=2,
            max_tries=3,
        ),
        case(
            "failed, task cleared since, on_clear=resume",
            Decision.SUBMIT,
            external_id="job-1",
            record=FIRST,
            state=ENDED,
            try_number=2,
            max_tries=3,
            on_clear="resume",
        ),
        case("Airflow's id, active", Decision.RECONNECT, external_id="job-1", state=ACTIVE, try_number=2),
        case(
            "Airflow's id, succeeded", Decision.FINISHED, external_id="job-1", state=SUCCEEDED, try_number=2
        ),
        case(
            "Airflow's id, succeeded, task cleared since",
            Decision.FINISHED,
            external_id="job-1",
            state=SUCCEEDED,
            try_number=2,
            max_tries=3,
        ),
        case("Airflow's id, failed", Decision.SUBMIT, external_id="job-1", state=ENDED, try_number=2),
        case(
            "not waited for and stored: done, without a question",
            Decision.FINISHED,
            external_id="job-1",
            record=FIRST,
            waits=False,
            try_number=2,
        ),
        case(
            "not waited for, task cleared since: a question",
            Decision.ASK,
            external_id="job-1",
            record=FIRST,
            waits=False,
            try_number=2,
            max_tries=3,
        ),
        case(
            "not waited for, answer never stored",
            Decision.RECOVER,
            external_id=None,
            record=FIRST,
            waits=False,
            try_number=2,
        ),
    ],
)
def test_decides(situation: Situation, expected: Decision) -> None:
    assert decide(situation) is expected
