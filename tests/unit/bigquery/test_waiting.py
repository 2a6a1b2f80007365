"""Waiting for a job, its failure, stopping it, and what the UI and OpenLineage see of it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import (
    JobFailedError,
    StatusUnavailableError,
    TaskStoppedError,
)
from airflow_provider_durable.resumable.compat import AirflowException
from unit.bigquery.jobs_api import BROKEN, PROJECT, QUERY, TOKYO, context, make, refusal

if TYPE_CHECKING:
    from unit.bigquery.jobs_api import FakeBigQuery
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store
KEY = "bigquery_job_id"


def test_a_job_that_is_done_with_an_error_has_failed_and_says_why(
    bigquery: FakeBigQuery, store: Store
) -> None:
    bigquery.ends_after = None
    task = make(retries=0)
    errors = [
        {"reason": "invalid", "message": "row 7: too many values", "location": "gs://b/a.csv"},
        {"reason": "invalid", "message": "1 bad row"},
    ]

    def fail(*_: Any) -> str:
        job = bigquery.jobs[bigquery.only_id]
        job["status"] = {"state": "DONE", "errorResult": errors[1], "errors": errors}
        return answer(*_)

    answer, task.get_job_status = task.get_job_status, fail
    with pytest.raises(JobFailedError) as error:
        task.execute(context(store))
    assert str(error.value) == (
        f"BigQuery job {PROJECT}:{TOKYO}.{bigquery.only_id} failed: invalid: 1 bad row; "
        "invalid (gs://b/a.csv): row 7: too many values"
    )


def test_an_error_without_an_error_result_is_no_failure(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.ends_after = None
    task = make()

    def succeed(*_: Any) -> str:
        job = bigquery.jobs[bigquery.only_id]
        job["status"] = {"state": "DONE", "errors": [{"reason": "invalid", "message": "1 bad row"}]}
        return answer(*_)

    answer, task.get_job_status = task.get_job_status, succeed
    assert task.execute(context(store)) == bigquery.only_id


FAILING = [
    refusal(503, "backendError"),
    refusal(500, "unheardOf"),
    refusal(403, "rateLimitExceeded"),
    refusal(401, "authError"),
    BROKEN,
]


@pytest.mark.parametrize("failing", FAILING)
@pytest.mark.parametrize("retry", ["the client's", "none"])
def test_a_failing_jobs_get_never_fails_the_task(
    bigquery: FakeBigQuery, store: Store, failing: Any, retry: str
) -> None:
    parameters = {"result_retry": None} if retry == "none" else {}
    bigquery.planned["get"] = [failing] * 2
    assert make(**parameters).execute(context(store)) == bigquery.only_id


def test_it_does_when_none_succeeds_for_the_whole_window(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.planned["get"] = [refusal(503, "backendError", "no backend")] * 1000
    with pytest.raises(StatusUnavailableError, match="no backend"):
        make(result_retry=None, poll_error_window=0.01).execute(context(store))


@needs_store
@pytest.mark.parametrize("failing", FAILING)
def test_a_new_try_that_cannot_ask_submits_nothing(
    bigquery: FakeBigQuery, store: Store, failing: Any
) -> None:
    make().execute(context(store))
    bigquery.planned["get"] = [failing] * 3
    with pytest.raises(Exception):  # noqa: B017, PT011 - whatever it was
        make(result_retry=None).execute(context(store, try_number=2))
    assert len(bigquery.jobs) == 1


def test_a_short_query_does_not_wait_for_a_whole_poll_interval(bigquery: FakeBigQuery, store: Store) -> None:
    # time.sleep is short here, but the wait as a whole is not: it would last for a minute.
    bigquery.ends_after = 2
    task = make(poll_interval=60)
    naps: list[float] = []
    from airflow_provider_durable.resumable.run import JobRun

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JobRun, "sleep", lambda _, seconds: naps.append(seconds))
        task.execute(context(store))
    assert naps == [0.5, 1.0]


def test_not_waiting_returns_the_id_of_a_job_that_runs(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.ends_after = None
    job_id = make(wait_for_termination=False).execute(context(store))
    assert bigquery.jobs[job_id]["status"]["state"] == "RUNNING"


def test_a_trigger_is_told_where_the_job_is(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.ends_after = None
    task = make(deferrable=True, poll_interval=7)
    trigger, resume = _defer(task, context(store))
    path, parameters = trigger.serialize()
    assert path == "airflow_provider_durable.triggers.bigquery.BigQueryJobTrigger"
    assert parameters["job_id"] == bigquery.only_id
    assert (parameters["project_id"], parameters["location"]) == (PROJECT, TOKYO)
    assert parameters["poll_interval"] == 7
    bigquery.finish(bigquery.only_id)
    ctx = context(store)
    event = trigger.event("success", "ended")
    assert make(deferrable=True).execute_complete(ctx, event, **(resume or {})) == bigquery.only_id
    assert {location for method, location in bigquery.requests if method != "insert"} <= {TOKYO}
    assert bigquery.methods().count("list") == 0
    assert ctx["ti"].xcoms["bigquery_job_detail"]["location"] == TOKYO


def _defer(task: Any, ctx: Any) -> tuple[Any, Any]:
    asked: list[Any] = []

    class Deferred(BaseException):
        pass

    def defer(*, trigger: Any, method_name: str, kwargs: Any = None, **_: Any) -> None:
        asked.append((trigger, kwargs))
        assert method_name == "execute_complete"
        raise Deferred

    task.defer = defer
    with pytest.raises(Deferred):
        task.execute(ctx)
    return asked[0]  # type: ignore[no-any-return]


@needs_store
def test_a_task_that_leaves_its_worker_comes_back_to_where_the_job_is(
    bigquery: FakeBigQuery, store: Store
) -> None:
    from airflow_provider_durable.resumable.compat import AirflowRescheduleException

    bigquery.ends_after = 1
    for _ in range(2):
        with pytest.raises(AirflowRescheduleException):
            make(mode="reschedule").execute(context(store))
    assert make(mode="reschedule").execute(context(store)) == bigquery.only_id
    assert bigquery.requests == [("insert", None), ("get", TOKYO), ("get", TOKYO)]


def test_a_deferral_without_a_store_asks_where_the_job_is(bigquery: FakeBigQuery) -> None:
    bigquery.ends_after = None
    trigger, resume = _defer(make(deferrable=True), context())
    assert resume is None  # Apache's operator could not be called with more than the event
    bigquery.finish(bigquery.only_id, "backendError", "no luck")
    with pytest.raises(JobFailedError, match="backendError: no luck"):
        make(deferrable=True).execute_complete(context(), trigger.event("failed", "ended"))
    assert bigquery.methods() == ["insert", "get"]


def test_a_deferral_that_apaches_operator_began_is_taken_up(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.start("theirs", dict(QUERY), "EU")
    bigquery.finish("theirs")
    event = {"job_id": "theirs", "status": "success", "message": "Job completed"}
    assert make(deferrable=True).execute_complete(context(store), event) == "theirs"
    assert list(bigquery.jobs) == ["theirs"]


def test_an_error_of_apaches_trigger_starts_no_job(bigquery: FakeBigQuery, store: Store) -> None:
    event = {"status": "error", "message": "query is wrong"}
    with pytest.raises(AirflowException, match="query is wrong"):
        make(deferrable=True).execute_complete(context(store), event)
    assert bigquery.jobs == {}


@pytest.mark.parametrize("cancel_on_kill", [True, False])
@pytest.mark.parametrize("durable", [pytest.param(True, marks=needs_store), False])
def test_a_kill_cancels_the_job_where_it_is(
    bigquery: FakeBigQuery, store: Store, cancel_on_kill: bool, durable: bool
) -> None:
    bigquery.ends_after = None
    task = make(cancel_on_kill=cancel_on_kill, durable=durable)

    def kill(*_: Any) -> str:
        task.on_kill()
        return answer(*_)

    answer, task.get_job_status = task.get_job_status, kill
    bigquery.ends_after = 3
    ends = pytest.raises((TaskStoppedError, JobFailedError)) if cancel_on_kill or durable else nullcontext()
    with ends:
        task.execute(context(store if durable else None, state="failed"))
    cancelled = [location for method, location in bigquery.requests if method == "cancel"]
    assert set(cancelled) == ({TOKYO} if cancel_on_kill else set())


@needs_store
def test_an_eviction_leaves_the_job_running(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.ends_after = None
    task = make()

    def evict(*_: Any) -> str:
        task.on_kill()
        return answer(*_)

    answer, task.get_job_status = task.get_job_status, evict
    with pytest.raises(TaskStoppedError, match="left running"):
        task.execute(context(store, max_tries=1))
    bigquery.ends_after = 0
    assert make().execute(context(store, try_number=2, max_tries=1)) == bigquery.only_id
    assert "cancel" not in bigquery.methods()


def test_cancelling_is_safe_to_repeat_and_finds_a_job_without_a_known_place(
    bigquery: FakeBigQuery, store: Store
) -> None:
    bigquery.start("theirs", dict(QUERY), TOKYO)
    for _ in range(2):
        make().cancel_job("theirs", context(store))
    make().cancel_job("unheard-of", context(store))
    assert bigquery.jobs["theirs"]["status"]["errorResult"]["reason"] == "stopped"


@needs_store
def test_a_timeout_cancels_a_job_whose_answer_it_interrupted(bigquery: FakeBigQuery, store: Store) -> None:
    from airflow_provider_durable.resumable.compat import AirflowTaskTimeout

    bigquery.lost["insert"] = [AirflowTaskTimeout("timeout")]
    task = make()
    try:
        task.execute(context(store))
    except AirflowTaskTimeout:
        task.on_kill()  # as Airflow does, in its handler
    assert bigquery.jobs[bigquery.only_id]["status"]["errorResult"]["reason"] == "stopped"


@pytest.mark.parametrize("reconnects", [False, pytest.param(True, marks=needs_store)])
def test_the_links_of_apaches_operator_work(bigquery: FakeBigQuery, store: Store, reconnects: bool) -> None:
    from airflow.providers.google.cloud.links.bigquery import BigQueryJobDetailLink, BigQueryTableLink

    table = {"projectId": "another", "datasetId": "lake", "tableId": "visits"}
    configuration = {"query": {"query": "SELECT 1", "destinationTable": table}}
    ctx = context(store)
    make(configuration=configuration).execute(ctx)
    if reconnects:
        ctx = context(store, try_number=2)
        make(configuration=configuration).execute(ctx)
    detail = BigQueryJobDetailLink.format_str.format(**ctx["ti"].xcoms[BigQueryJobDetailLink.key])
    assert f"1s{PROJECT}!2s{bigquery.only_id}!3s{TOKYO}" in detail
    link = BigQueryTableLink.format_str.format(**ctx["ti"].xcoms[BigQueryTableLink.key])
    assert "project=another&d=lake&p=another" in link


def test_links_that_cannot_be_pushed_do_not_matter(bigquery: FakeBigQuery, store: Store) -> None:
    ctx = context(store)

    def refuse(**_: Any) -> None:
        raise ConnectionError("no server")

    ctx["ti"].xcom_push = refuse
    assert make().execute(ctx) == bigquery.only_id
    assert bigquery.methods().count("insert") == 1
