"""``force_rerun=False``: an id that anybody can compute. Whose job a 409 is about, and what follows."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import JobFailedError, SubmissionRejectedError
from unit.bigquery.jobs_api import BROKEN, QUERY, TOKYO, context, make, refusal
from unit.fakes import Crash

if TYPE_CHECKING:
    from unit.bigquery.jobs_api import FakeBigQuery
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store
KEY = "bigquery_job_id"
COMPUTED = {"force_rerun": False}


def apache(**parameters: Any) -> Any:
    """Return Apache's operator for the same task."""
    from airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator

    given = {"task_id": "load.visits", "configuration": dict(QUERY), **parameters}
    return BigQueryInsertJobOperator(**given)


def computed_id(bigquery: FakeBigQuery, store: Store, **parameters: Any) -> str:
    """Return the id that a task without a past computes, and leave no job behind."""
    make(**COMPUTED, **parameters).execute(context(store))
    job_id = bigquery.only_id
    bigquery.jobs.clear()
    bigquery.requests.clear()
    store.values.clear()
    return job_id


@pytest.mark.parametrize("job_id", [None, "nightly-visits"])
def test_the_id_is_the_one_that_apaches_operator_computes(
    bigquery: FakeBigQuery, store: Store, job_id: str | None
) -> None:
    ours = computed_id(bigquery, store, job_id=job_id)
    # Deferrable, because it would read the rows of a query that it waits for itself.
    given: dict[str, Any] = {"deferrable": True, "location": TOKYO, "job_id": job_id, **COMPUTED}
    theirs = apache(**given)
    bigquery.ends_after = None
    with contextlib.suppress(BaseException):
        theirs.execute(context())
    assert bigquery.only_id == ours


def test_the_same_configuration_has_the_same_id_and_another_one_another(
    bigquery: FakeBigQuery, store: Store
) -> None:
    first = computed_id(bigquery, store, job_id="visits")
    assert re.fullmatch(r"visits_[0-9a-f]{32}", first)
    assert computed_id(bigquery, store, job_id="visits") == first
    other = {"query": {"query": "SELECT 2", "useLegacySql": False}}
    assert computed_id(bigquery, store, job_id="visits", configuration=other) != first


@needs_store
def test_a_409_for_a_job_that_this_task_started_is_a_reconnect(bigquery: FakeBigQuery, store: Store) -> None:
    first = make(**COMPUTED).execute(context(store))
    # Cleared: a new submission, which meets the job of the one before.
    again = make(**COMPUTED).execute(context(store, try_number=2, max_tries=1))
    assert again == first == bigquery.only_id
    assert bigquery.methods().count("insert") == 2


@needs_store
def test_a_job_of_this_task_that_failed_for_good_is_not_run_again(
    bigquery: FakeBigQuery, store: Store
) -> None:
    bigquery.ends_with = "invalidQuery"
    for number in (1, 2):
        with pytest.raises(JobFailedError, match=r"invalidQuery: went wrong.*force_rerun=True does"):
            make(**COMPUTED).execute(context(store, try_number=number, max_tries=2))
    assert len(bigquery.jobs) == 1


@needs_store
@pytest.mark.parametrize("reason", ["rateLimitExceeded", "backendError", "stopped"])
def test_after_a_reason_that_passes_the_next_try_submits_under_an_id_with_its_token(
    bigquery: FakeBigQuery, store: Store, reason: str
) -> None:
    bigquery.ends_with = reason
    for number in (1, 2):
        with pytest.raises(JobFailedError):
            make(**COMPUTED).execute(context(store, try_number=number, max_tries=3))
    bigquery.ends_with = None
    third = make(**COMPUTED).execute(context(store, try_number=3, max_tries=3))
    assert len(bigquery.jobs) == 3
    assert third.endswith(store.values[f"{KEY}_submission"]["token"])
    assert store.values[KEY] == third
    # And a retry of that one reconnects to it.
    assert make(**COMPUTED).execute(context(store, try_number=4, max_tries=3)) == third
    assert len(bigquery.jobs) == 3


@needs_store
@pytest.mark.parametrize("crash", ["planned", "lost"])
def test_a_crash_while_the_job_that_follows_is_submitted_loses_nothing(
    bigquery: FakeBigQuery, store: Store, crash: str
) -> None:
    bigquery.ends_with = "backendError"
    with pytest.raises(JobFailedError):
        make(**COMPUTED).execute(context(store, max_tries=3))
    bigquery.ends_with = None
    refused = refusal(409, "duplicate", f"Already Exists: Job a-project:{TOKYO}.{bigquery.only_id}")
    getattr(bigquery, crash)["insert"] = [refused, Crash()] if crash == "planned" else [Crash()]
    with pytest.raises(Crash):
        make(**COMPUTED).execute(context(store, try_number=2, max_tries=3))
    third = make(**COMPUTED).execute(context(store, try_number=3, max_tries=3))
    assert len(bigquery.jobs) == 2
    assert third == list(bigquery.jobs)[-1]


def test_somebody_elses_job_fails_the_task_before_anything_is_started(
    bigquery: FakeBigQuery, store: Store
) -> None:
    bigquery.start(job_id := computed_id(bigquery, store), dict(QUERY))
    bigquery.ends_after = None
    with pytest.raises(SubmissionRejectedError, match=f"{TOKYO}.{job_id} already, in state RUNNING") as error:
        make(**COMPUTED).execute(context(store))
    assert "force_rerun=True" in str(error.value)
    assert "add 'RUNNING' to reattach_states" in str(error.value)
    assert store.values == {}
    assert list(bigquery.jobs) == [job_id]


def test_somebody_elses_job_in_a_reattach_state_is_waited_for(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.start(job_id := computed_id(bigquery, store), dict(QUERY))
    bigquery.ends_after = 2
    task = make(**COMPUTED, reattach_states={"RUNNING"})
    assert task.execute(context(store)) == job_id
    assert list(bigquery.jobs) == [job_id]


def test_somebody_elses_job_that_is_done_is_not_reattached_to(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.start(job_id := computed_id(bigquery, store), dict(QUERY))
    bigquery.finish(job_id)
    with pytest.raises(SubmissionRejectedError, match="in state DONE") as error:
        make(**COMPUTED, reattach_states={"RUNNING", "DONE"}).execute(context(store))
    assert "reattach_states" not in str(error.value)


@needs_store
def test_a_crash_after_somebody_elses_409_makes_the_job_no_ours(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.start(computed_id(bigquery, store), dict(QUERY))
    bigquery.ends_after = None
    bigquery.planned["get"] = [Crash()]
    with pytest.raises(Crash):
        make(**COMPUTED).execute(context(store))
    with pytest.raises(SubmissionRejectedError, match="did not start"):
        make(**COMPUTED).execute(context(store, try_number=2))


def test_a_lost_answer_is_no_somebody_elses_job(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.lost["insert"] = [BROKEN]
    assert make(**COMPUTED).execute(context(store)) == bigquery.only_id


def test_the_mark_is_a_label_that_the_hash_does_not_see(bigquery: FakeBigQuery, store: Store) -> None:
    make(**COMPUTED).execute(context(store))
    labels = bigquery.jobs[bigquery.only_id]["configuration"]["labels"]
    assert re.fullmatch(r"[0-9a-f]{32}", labels.pop("airflow-durable"))
    assert labels == {"airflow-dag": "adhoc_airflow", "airflow-task": "load-visits"}


@needs_store
@pytest.mark.parametrize("parameters", [{}, COMPUTED])
def test_apaches_operator_takes_over_a_job_of_ours(
    bigquery: FakeBigQuery, store: Store, parameters: dict[str, Any]
) -> None:
    if not hasattr(apache(), "external_id_key"):
        pytest.skip("Apache's operator of this version keeps no job id")
    job_id = make(location="EU", **parameters).execute(context(store))
    assert (
        apache(location="EU", **parameters).execute(context(store, try_number=2))
        == job_id
        == bigquery.only_id
    )
