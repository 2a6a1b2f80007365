"""What a durable operator does beyond Airflow's contract: tokens, recovery, clears, tolerant waits."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_durable.resumable import (
    JobFailedError,
    LostSubmissionError,
    RecoveryUnavailableError,
    ServiceThrottledError,
    StatusUnavailableError,
    SubmissionRejectedError,
    SubmissionUnclearError,
    submission,
)
from airflow_provider_durable.resumable.compat import (
    NEVER_EXPIRE,
    AirflowException,
    AirflowTaskTimeout,
)
from unit.fakes import Crash, Durable, QuickService, SixHooks, Store, context, make

pytestmark = pytest.mark.task_state_store


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(submission, "jitter", lambda seconds: 0.0)


@pytest.fixture
def service() -> QuickService:
    return QuickService()


def record_in(store: Store) -> dict[str, Any]:
    return store.values["job_id_submission"]


# -- submission and recovery -------------------------------------------------------------------


def test_the_record_is_stored_before_the_request_and_the_id_after(service: QuickService) -> None:
    task, store = make(Durable, service), Store()
    task.execute(context(store, max_tries=2))
    assert store.sets() == ["job_id_submission", "job_id"]
    record = record_in(store)
    assert record["token"] == service.jobs["job-1"].token
    assert (record["submission"], record["try_number"], record["max_tries"]) == (1, 1, 2)


def test_tokens_are_random_and_short_enough_for_every_service(service: QuickService) -> None:
    for _ in range(2):
        make(Durable, service).execute(context(Store()))
    first, second = (job.token for job in service.jobs.values())
    assert first != second
    assert len(first) == 32
    assert first.isalnum()


def test_a_crash_before_the_id_is_stored_is_recovered_by_token(service: QuickService) -> None:
    task, store = make(Durable, service), Store()
    service.failures["submit-answer"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        task.execute(context(store))
    assert "job_id" not in store.values
    assert make(Durable, service).execute(context(store, try_number=2)) == "result of job-1"
    assert list(service.jobs) == ["job-1"]
    assert store.values["job_id"] == "job-1"


def test_a_crash_before_the_request_submits_with_the_same_token(service: QuickService) -> None:
    task, store = make(Durable, service), Store()
    service.failures["submit"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        task.execute(context(store))
    token = record_in(store)["token"]
    assert make(Durable, service).execute(context(store, try_number=2)) == "result of job-1"
    assert service.jobs["job-1"].token == token
    assert record_in(store)["submission"] == 1


def test_a_lost_answer_is_settled_before_anything_is_sent_again(service: QuickService) -> None:
    task, store = make(Durable, service), Store()
    service.failures["submit-answer"] = [SubmissionUnclearError("timeout")]
    assert task.execute(context(store)) == "result of job-1"
    assert service.calls.count("submit") == 1
    assert service.calls.count("find") == 1


def test_any_error_of_a_submission_is_settled_even_one_that_nobody_expected(service: QuickService) -> None:
    service.failures["submit-answer"] = [RuntimeError("pushing a link failed")]
    assert make(Durable, service).execute(context(Store())) == "result of job-1"


def test_a_job_is_searched_for_since_its_token_was_made(service: QuickService) -> None:
    """Not since the latest request: an earlier one with the token may be what started it."""
    task, store = make(Durable, service), Store()
    service.failures["submit"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        task.execute(context(store))
    made = record_in(store)["requested_at"]
    service.failures["submit"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        make(Durable, service).execute(context(store, try_number=2))
    assert record_in(store)["requested_at"] == made < record_in(store)["submitted_at"]


def test_an_unclear_submission_that_started_nothing_is_sent_again_with_its_token(
    service: QuickService,
) -> None:
    task, store = make(Durable, service), Store()
    service.failures["submit"] = [SubmissionUnclearError("reset"), SubmissionUnclearError("reset")]
    assert task.execute(context(store)) == "result of job-1"
    assert service.calls.count("submit") == 3
    assert service.jobs["job-1"].token == record_in(store)["token"]


def test_a_submission_stays_unclear_only_so_often_and_the_next_try_looks_again(service: QuickService) -> None:
    task, store = make(Durable, service), Store()
    service.failures["submit"] = [SubmissionUnclearError("reset")] * submission.REQUESTS
    with pytest.raises(SubmissionUnclearError):
        task.execute(context(store))
    assert make(Durable, service).execute(context(store, try_number=2)) == "result of job-1"


def test_when_nobody_can_look_the_submissions_own_error_is_raised(service: QuickService) -> None:
    task, store = make(Durable, service), Store()
    service.failures["submit-answer"] = [SubmissionUnclearError("reset")]
    service.failures["find"] = [ConnectionError("no route")]
    with pytest.raises(SubmissionUnclearError):
        task.execute(context(store))
    assert make(Durable, service).execute(context(store, try_number=2)) == "result of job-1"
    assert len(service.jobs) == 1


def test_a_refused_submission_leaves_nothing_to_look_for(service: QuickService) -> None:
    task, store = make(Durable, service, on_lost_submission="fail"), Store()
    service.failures["submit"] = [SubmissionRejectedError("no such queue")]
    with pytest.raises(SubmissionRejectedError):
        task.execute(context(store))
    assert "job_id_submission" not in store.values
    assert "find" not in service.calls


def test_a_refused_resubmission_restores_the_record_of_the_job_before(service: QuickService) -> None:
    store = Store()
    service.ends_as = "FAILED"
    with pytest.raises(JobFailedError):
        make(Durable, service).execute(context(store))
    before = dict(record_in(store))
    service.failures["submit"] = [SubmissionRejectedError("quota")]
    with pytest.raises(SubmissionRejectedError):
        make(Durable, service).execute(context(store, try_number=2))
    assert record_in(store) == before


def test_a_throttled_submission_is_sent_again_without_a_search(service: QuickService) -> None:
    service.failures["submit"] = [ServiceThrottledError("slow down")] * 5
    assert make(Durable, service).execute(context(Store())) == "result of job-1"
    assert "find" not in service.calls


def test_the_same_id_again_counts_as_an_answer(service: QuickService) -> None:
    store = Store()
    service.ends_as = "FAILED"
    with pytest.raises(JobFailedError):
        make(Durable, service).execute(context(store))
    again = make(Durable, service)
    again.submit_job = lambda context: "job-1"
    service.ends_as, service.jobs["job-1"].status = "SUCCEEDED", "FAILED"
    with pytest.raises(JobFailedError):
        again.execute(context(store, try_number=2))
    assert "previous_id" not in record_in(store)
    assert "find" not in service.calls


def test_what_the_submission_learned_is_stored_before_the_id(service: QuickService) -> None:
    class Placed(Durable):
        def prepare_submission(self, context: Any) -> Any:
            return {"name": "a"}

        def submit_job(self, context: Any) -> Any:
            self.submission_details["place"] = "asia"
            return super().submit_job(context)

    store = Store()
    make(Placed, service).execute(context(store))
    assert store.sets() == ["job_id_submission", "job_id_submission", "job_id"]
    assert record_in(store)["details"] == {"name": "a", "place": "asia"}
    second = make(Placed, service)
    second.get_job_result = lambda external_id, context: second.submission_details["place"]
    assert second.execute(context(store, try_number=2)) == "asia"


class Blind(Durable):
    """Its service cannot say."""

    def recover_job(self, token: str, context: Any) -> Any:
        raise RecoveryUnavailableError("the master gives nothing back.")


@pytest.mark.parametrize("operator", [Blind, SixHooks])
def test_a_lost_submission_fails_for_good_if_asked_to(
    operator: type[SixHooks], service: QuickService
) -> None:
    store = Store()
    service.failures["submit-answer"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        make(operator, service, on_lost_submission="fail").execute(context(store))
    with pytest.raises(LostSubmissionError, match="clear this task to submit again") as failure:
        make(operator, service, on_lost_submission="fail").execute(context(store, try_number=2))
    assert record_in(store)["token"] in str(failure.value)
    assert len(service.jobs) == 1
    # A person has looked and cleared the task.
    cleared = make(operator, service, on_lost_submission="fail")
    assert cleared.execute(context(store, try_number=3, max_tries=4)) == "result of job-2"


def test_a_lost_submission_is_submitted_again_by_default(service: QuickService) -> None:
    store = Store()
    service.failures["submit-answer"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        make(Blind, service).execute(context(store))
    assert make(Blind, service).execute(context(store, try_number=2)) == "result of job-2"


def test_a_record_that_cannot_be_read_is_an_error_and_no_submission(service: QuickService) -> None:
    store = Store()
    store.values["job_id_submission"] = {"token": "x"}
    with pytest.raises(AirflowException, match="delete this key"):
        make(Durable, service).execute(context(store))
    assert not service.jobs


def test_a_record_of_a_newer_version_is_read(service: QuickService) -> None:
    store = Store()
    make(Durable, service).execute(context(store))
    record_in(store)["invented_later"] = 1
    assert make(Durable, service).execute(context(store, try_number=2)) == "result of job-1"


# -- clears ------------------------------------------------------------------------------------


def test_clearing_a_succeeded_task_runs_a_second_job(service: QuickService) -> None:
    store = Store()
    make(Durable, service).execute(context(store))
    assert make(Durable, service).execute(context(store, try_number=2, max_tries=1)) == "result of job-2"


def test_clearing_with_resume_returns_the_first_jobs_result(service: QuickService) -> None:
    store = Store()
    make(Durable, service).execute(context(store))
    again = make(Durable, service, on_clear="resume")
    assert again.execute(context(store, try_number=2, max_tries=1)) == "result of job-1"


def test_a_job_that_was_stopping_when_the_task_was_cleared_is_followed_by_a_new_one(
    service: QuickService,
) -> None:
    store, first = Store(), make(Durable, service)
    service.failures["status"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        first.execute(context(store))
    service.ends_as = "CANCELLED"
    plain = service.submit

    def submit(token: str = "") -> str:
        service.ends_as = "SUCCEEDED"
        assert not service.active, "two jobs at once"
        return plain(token)

    service.submit = submit  # type: ignore[method-assign]
    service.jobs["job-1"].status = "RUNNING"
    # The first look of this try still finds it active; then it ends as cancelled.
    service.failures["status"] = []
    looks = iter(["RUNNING"])
    status = service.status
    service.status = lambda job_id: next(looks, None) or status(job_id)  # type: ignore[method-assign]
    assert make(Durable, service).execute(context(store, try_number=2, max_tries=2)) == "result of job-2"


# -- waiting -----------------------------------------------------------------------------------


def test_failing_status_requests_do_not_fail_the_wait(service: QuickService) -> None:
    service.failures["status"] = [
        ConnectionError("reset"),
        TimeoutError("slow"),
        ServiceThrottledError("429"),
    ]
    assert make(Durable, service).execute(context(Store())) == "result of job-1"


def test_status_requests_that_fail_for_long_do(service: QuickService) -> None:
    service.failures["status"] = [ConnectionError("reset")] * 500
    task = make(Durable, service, poll_error_window=timedelta(milliseconds=20))
    with pytest.raises(StatusUnavailableError, match="reset") as failure:
        task.execute(context(Store()))
    assert isinstance(failure.value.__cause__, ConnectionError)
    assert not service.jobs["job-1"].cancels


def test_throttling_never_fails_the_wait(service: QuickService) -> None:
    service.failures["status"] = [ServiceThrottledError("429")] * 200
    task = make(Durable, service, poll_error_window=timedelta(milliseconds=1))
    assert task.execute(context(Store())) == "result of job-1"


def test_a_failed_job_fails_the_try_and_the_next_one_submits(service: QuickService) -> None:
    store = Store()
    service.ends_as = "FAILED"
    with pytest.raises(JobFailedError, match="job-1 ended without success: FAILED"):
        make(Durable, service).execute(context(store))
    service.ends_as = "SUCCEEDED"
    assert make(Durable, service).execute(context(store, try_number=2)) == "result of job-2"
    assert record_in(store)["submission"] == 2


def test_without_waiting_the_id_is_returned_once_it_is_stored(service: QuickService) -> None:
    store = Store()
    task = make(Durable, service, wait_for_termination=False)
    assert task.execute(context(store)) == "job-1"
    assert "status" not in service.calls
    service.jobs["job-1"].status = "FAILED"
    again = make(Durable, service, wait_for_termination=False)
    assert again.execute(context(store, try_number=2)) == "job-1"
    assert list(service.jobs) == ["job-1"]


@pytest.mark.parametrize(("status", "cancels"), [("CANCELLED", 0), ("RUNNING", 1)])
def test_without_waiting_a_job_that_we_stopped_is_followed_by_a_new_one(
    service: QuickService, status: str, cancels: int
) -> None:
    store = Store()
    make(Durable, service, wait_for_termination=False).execute(context(store))
    record_in(store)["cancelled_at"] = record_in(store)["submitted_at"]
    service.ends_as = status
    again = make(Durable, service, wait_for_termination=False, poll_interval=0.01)
    assert again.execute(context(store, try_number=2)) == "job-2"
    assert service.jobs["job-1"].cancels == cancels


def test_a_second_operator_in_one_task_is_refused_and_not_taken_for_a_retry(service: QuickService) -> None:
    given = context(Store())
    assert make(Durable, service).execute(given) == "result of job-1"
    with pytest.raises(ValueError, match=r"second time in one task instance.*'job_id'.*\.expand"):
        make(Durable, service).execute(given)
    assert list(service.jobs) == ["job-1"]
    other = make(Durable, service)
    other.external_id_key = "other_job_id"
    assert other.execute(given) == "result of job-2"
    assert make(Durable, service, durable=False).execute(given) == "result of job-3"


def test_never_expire_survives_the_copies_that_airflow_makes_of_default_args(service: QuickService) -> None:
    store = Store()
    make(Durable, service, state_retention=copy.deepcopy(NEVER_EXPIRE)).execute(context(store))
    retentions = [call[3]["retention"] for call in store.calls if call[0] == "set"]
    assert retentions
    assert all(retention is NEVER_EXPIRE for retention in retentions)


@pytest.mark.parametrize("retries", [3, 1, 0])
def test_a_clear_is_noticed_also_where_retries_were_lowered(service: QuickService, retries: int) -> None:
    store = Store()
    make(Durable, service).execute(context(store, max_tries=3))
    # Airflow: max_tries = the tries so far + the retries that the Dag has by now.
    make(Durable, service).execute(context(store, try_number=2, max_tries=1 + retries))
    assert list(service.jobs) == ["job-1", "job-2"]


def test_execution_timeout_counts_from_the_submission(service: QuickService) -> None:
    store = Store()
    service.failures["status"] = [Crash()]  # type: ignore[list-item]
    with pytest.raises(Crash):
        make(Durable, service).execute(context(store))
    record_in(store)["submitted_at"] = (datetime.now(timezone.utc) - timedelta(hours=2)).isoformat()
    service.ends_as = "RUNNING"
    task = make(Durable, service, execution_timeout=timedelta(hours=1))
    with pytest.raises(AirflowTaskTimeout, match="passed since job job-1"):
        task.execute(context(store, try_number=2))
