"""One task instance, one run: tokens, crashes, lost answers, and what a refusal means."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import (
    HAS_TASK_STATE_STORE,
    JobFailedError,
    LostSubmissionError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)
from unit.databricks.jobs_api import (
    CRASH,
    FAILED,
    LOST,
    SERVER_ERROR,
    SUCCEEDED,
    TASK,
    THROTTLED,
    context,
    error,
    operator,
)
from unit.fakes import Crash

if TYPE_CHECKING:
    from unit.databricks.jobs_api import (
        JobsApi,
    )
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store
#: Both operators, and the path each sends its submissions to.
BOTH = pytest.mark.parametrize("path", ["runs/submit", "run-now"])


def tokens(api: JobsApi, path: str) -> list[str]:
    return [body["idempotency_token"] for body in api.sent(path)]


@BOTH
def test_a_first_run_submits_once_waits_and_returns_the_run_id(api: JobsApi, store: Store, path: str) -> None:
    task, ctx = operator(path), context(store)
    run_id = task.execute(ctx)
    assert list(api.runs) == [run_id]
    assert len(tokens(api, path)[0]) == 32
    url = api.runs[run_id]["run_page_url"]
    assert ctx["ti"].xcoms == {"run_id": run_id, "run_page_url": url, "job_id": 7}


@BOTH
def test_the_link_is_there_while_the_run_goes_on(api: JobsApi, store: Store, path: str) -> None:
    ctx, seen = context(store), []

    def ends(run: dict[str, Any]) -> None:
        seen.append(dict(ctx["ti"].xcoms))
        if len(seen) > 1:
            run.update(SUCCEEDED)

    api.ends = ends
    operator(path).execute(ctx)
    assert [list(xcoms) for xcoms in seen] == [[], ["run_id", "run_page_url", "job_id"]]


@needs_store
@BOTH
def test_the_plain_run_id_is_stored_under_the_key_of_apaches_operator(
    api: JobsApi, store: Store, path: str
) -> None:
    run_id = operator(path).execute(context(store))
    key = {"runs/submit": "databricks_run_id", "run-now": "databricks_run_now_id"}[path]
    assert store.values[key] == run_id
    assert isinstance(run_id, int)
    assert set(store.values) == {key, f"{key}_submission"}
    assert store.values[f"{key}_submission"]["token"] == tokens(api, path)[0]


@needs_store
@BOTH
def test_a_crash_in_the_window_leads_to_the_same_run(api: JobsApi, store: Store, path: str) -> None:
    api.plans[path] = [CRASH]
    with pytest.raises(Crash):
        operator(path).execute(context(store))
    run_id = operator(path).execute(context(store, try_number=2))
    assert list(api.runs) == [run_id]
    assert len(set(tokens(api, path))) == 1


@needs_store
def test_a_crash_before_the_request_submits_with_the_recorded_token(api: JobsApi, store: Store) -> None:
    task = operator()
    store.before_call = lambda name: None

    def die(*_: Any) -> Any:
        raise Crash

    task.submit_job = die
    with pytest.raises(Crash):
        task.execute(context(store))
    recorded = store.values["databricks_run_id_submission"]["token"]
    operator().execute(context(store, try_number=2))
    assert tokens(api, "runs/submit") == [recorded]


@BOTH
@pytest.mark.parametrize("answers", [[SERVER_ERROR], [LOST], [LOST, SERVER_ERROR]])
def test_requests_that_the_hook_repeats_by_itself_start_one_run(
    api: JobsApi, store: Store, path: str, answers: list[Any]
) -> None:
    api.plans[path] = list(answers)
    run_id = operator(path).execute(context(store))
    assert list(api.runs) == [run_id]
    assert len(tokens(api, path)) == len(answers) + 1
    assert len(set(tokens(api, path))) == 1


@BOTH
def test_an_answer_that_stays_lost_is_settled_with_the_same_token(
    api: JobsApi, store: Store, path: str
) -> None:
    api.plans[path] = [LOST]
    run_id = operator(path, attempts=1).execute(context(store))
    assert list(api.runs) == [run_id]
    assert len(set(tokens(api, path))) == 1


@needs_store
def test_a_service_that_is_away_fails_the_try_and_the_next_one_finds_the_run(
    api: JobsApi, store: Store
) -> None:
    api.plans["runs/submit"] = [LOST, SERVER_ERROR]
    with pytest.raises(SubmissionUnclearError):
        operator(attempts=1).execute(context(store))
    run_id = operator().execute(context(store, try_number=2))
    assert list(api.runs) == [run_id]


@needs_store
def test_the_time_of_a_run_that_the_recovery_starts_begins_with_it(api: JobsApi, store: Store) -> None:
    timed = {"execution_timeout": timedelta(minutes=30)}
    task = operator(**timed)

    def die(*_: Any) -> Any:
        raise Crash

    task.submit_job = die
    with pytest.raises(Crash):
        task.execute(context(store))
    record = store.values["databricks_run_id_submission"]
    long_ago = (datetime.now(timezone.utc) - timedelta(minutes=31)).isoformat()
    store.values["databricks_run_id_submission"] = {**record, "submitted_at": long_ago}
    run_id = operator(**timed).execute(context(store, try_number=2))
    assert list(api.runs) == [run_id]
    assert store.values["databricks_run_id_submission"]["submitted_at"] > long_ago


@needs_store
@BOTH
def test_an_authors_token_is_sent_as_it_is_and_renewed_after_a_failed_run(
    api: JobsApi, store: Store, path: str
) -> None:
    task = {"idempotency_token": "load-2024-01-01"}
    api.ends = lambda run: run.update(FAILED)
    for number in (1, 2):
        with pytest.raises(JobFailedError):
            operator(path, **task).execute(context(store, try_number=number))
    api.ends = lambda run: run.update(SUCCEEDED)
    operator(path, **task).execute(context(store, try_number=3))
    first, second, third = tokens(api, path)
    assert first == "load-2024-01-01"
    assert len({first, second, third}) == len(api.runs) == 3


@needs_store
def test_an_authors_token_is_used_again_to_recover(api: JobsApi, store: Store) -> None:
    api.plans["runs/submit"] = [CRASH]
    task = {"json": {"notebook_task": TASK, "idempotency_token": "mine"}, "notebook_task": None}
    with pytest.raises(Crash):
        operator(**task).execute(context(store))
    operator(**task).execute(context(store, try_number=2))
    assert tokens(api, "runs/submit") == ["mine", "mine"]
    assert len(api.runs) == 1


@needs_store
def test_an_authors_token_is_renewed_after_a_clear(api: JobsApi, store: Store) -> None:
    operator(idempotency_token="mine").execute(context(store))
    operator(idempotency_token="mine").execute(context(store, try_number=2, max_tries=1))
    assert tokens(api, "runs/submit")[0] == "mine" != tokens(api, "runs/submit")[1]
    assert len(api.runs) == 2


@needs_store
def test_an_authors_token_is_renewed_after_the_failed_run_of_apaches_operator(
    api: JobsApi, store: Store
) -> None:
    store.values["databricks_run_id"] = api.start("mine", **FAILED)
    operator(idempotency_token="mine").execute(context(store, try_number=2))
    assert tokens(api, "runs/submit") != ["mine"]
    assert len(api.runs) == 2


def test_without_a_store_an_authors_token_is_sent_on_every_try(api: JobsApi) -> None:
    for number in (1, 2):
        task = operator(idempotency_token="mine", durable=False)
        task.execute(context(try_number=number))
    assert tokens(api, "runs/submit") == ["mine", "mine"]


@needs_store
def test_a_token_whose_run_was_deleted_leads_to_a_new_submission(api: JobsApi, store: Store) -> None:
    api.plans["runs/submit"] = [CRASH, error(400, "INVALID_PARAMETER_VALUE", "The run was deleted.")]
    with pytest.raises(Crash):
        operator().execute(context(store))
    api.runs.clear()
    run_id = operator().execute(context(store, try_number=2))
    assert list(api.runs) == [run_id]
    assert len(set(tokens(api, "runs/submit"))) == 2


@needs_store
def test_a_token_whose_run_was_deleted_fails_for_good_if_so_wanted(api: JobsApi, store: Store) -> None:
    api.plans["runs/submit"] = [CRASH, error(400, "INVALID_PARAMETER_VALUE", "The run was deleted.")]
    with pytest.raises(Crash):
        operator().execute(context(store))
    with pytest.raises(LostSubmissionError, match=r"The run was deleted\."):
        operator(on_lost_submission="fail").execute(context(store, try_number=2))


@pytest.mark.parametrize(
    "refusal",
    [
        error(400, "INVALID_PARAMETER_VALUE", "Cluster X does not exist"),
        error(401, "UNAUTHENTICATED", "token expired"),
        error(403, "PERMISSION_DENIED", "no access"),
        error(404, "RESOURCE_DOES_NOT_EXIST", "no such job"),
    ],
)
def test_a_refused_submission_is_reported_and_leaves_nothing_to_recover(
    api: JobsApi, store: Store, refusal: Any
) -> None:
    api.plans["runs/submit"] = [refusal]
    with pytest.raises(SubmissionRejectedError, match=rf"HTTP {refusal[0]} [A-Z_]+: .*[a-z]"):
        operator().execute(context(store))
    assert store.values == {}
    assert len(api.sent("runs/submit")) == 1


@needs_store
def test_a_refusal_after_a_lost_answer_is_no_proof_that_there_is_no_run(api: JobsApi, store: Store) -> None:
    denied = error(401, "UNAUTHENTICATED", "token expired")
    api.plans["runs/submit"] = [LOST, denied, denied]
    with pytest.raises(SubmissionUnclearError):
        operator().execute(context(store))
    run_id = operator().execute(context(store, try_number=2))
    assert list(api.runs) == [run_id]


@BOTH
def test_throttled_submissions_are_sent_again(api: JobsApi, store: Store, path: str) -> None:
    api.plans[path] = [THROTTLED] * 2
    run_id = operator(path, attempts=1).execute(context(store))
    assert list(api.runs) == [run_id]
    assert len(set(tokens(api, path))) == 1


def test_without_waiting_the_run_id_is_returned_with_its_link(api: JobsApi, store: Store) -> None:
    ctx = context(store)
    run_id = operator(wait_for_termination=False).execute(ctx)
    assert ctx["ti"].xcoms["run_page_url"] == api.runs[run_id]["run_page_url"]
    if HAS_TASK_STATE_STORE:
        again = operator(wait_for_termination=False)
        assert again.execute(context(store, try_number=2)) == run_id


def test_not_durable_submits_on_every_try(api: JobsApi, store: Store) -> None:
    for number in (1, 2):
        operator(default_args={"durable": False}).execute(context(store, try_number=number))
    assert len(api.runs) == 2
    assert store.calls == []
