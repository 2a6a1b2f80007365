"""One task instance, one job: ids, tokens, crashes, lost answers, and what a refusal means."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import (
    JobFailedError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)
from unit.bigquery.jobs_api import BROKEN, PROJECT, QUERY, TOKYO, context, make, refusal
from unit.fakes import Crash

if TYPE_CHECKING:
    from unit.bigquery.jobs_api import FakeBigQuery
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store
KEY = "bigquery_job_id"


def crash_when_storing(store: Store, key: str) -> None:
    """The process dies when it is about to store ``key``."""
    put = store.set

    def die(name: str, value: Any, **options: Any) -> None:
        if name == key:
            store.set = put  # type: ignore[method-assign]
            raise Crash
        put(name, value, **options)

    store.set = die  # type: ignore[method-assign]


def test_a_first_run_submits_once_waits_and_returns_the_job_id(bigquery: FakeBigQuery, store: Store) -> None:
    task, ctx = make(), context(store)
    job_id = task.execute(ctx)
    assert job_id == bigquery.only_id == task.job_id
    assert re.fullmatch(r"airflow_adhoc_airflow_load_visits_2026_03_01T00_00_00_00_00_[0-9a-f]{32}", job_id)
    assert bigquery.jobs[job_id]["configuration"] == {
        **QUERY,
        "jobType": "QUERY",
        "labels": {"airflow-dag": "adhoc_airflow", "airflow-task": "load-visits"},
    } or bigquery.jobs[job_id]["configuration"] == {
        **QUERY,
        "labels": {"airflow-dag": "adhoc_airflow", "airflow-task": "load-visits"},
    }
    assert bigquery.methods()[0] == "insert"
    assert set(bigquery.methods()[1:]) == {"get"}


@needs_store
def test_the_id_holds_the_token_and_the_store_the_plain_id_and_the_place(
    bigquery: FakeBigQuery, store: Store
) -> None:
    job_id = make().execute(context(store))
    record = store.values[f"{KEY}_submission"]
    assert store.values[KEY] == job_id
    assert job_id.endswith(f"_{record['token']}")
    assert (record["details"]["project_id"], record["details"]["location"]) == (PROJECT, TOKYO)
    assert store.sets() == [f"{KEY}_submission", f"{KEY}_submission", KEY]
    assert "INSERT" not in str(store.values)


def test_every_request_after_the_submission_has_the_location_that_bigquery_chose(
    bigquery: FakeBigQuery, store: Store
) -> None:
    make().execute(context(store))
    assert bigquery.requests[0] == ("insert", None)
    assert {location for method, location in bigquery.requests[1:]} == {TOKYO}


@pytest.mark.parametrize("given", ["parameter", "connection"])
def test_a_location_that_the_author_gives_is_sent(
    bigquery: FakeBigQuery, store: Store, given: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if given == "connection":
        extra = f'{{"project": "{PROJECT}", "is_anonymous": true, "location": "EU"}}'
        connection = f'{{"conn_type": "google_cloud_platform", "extra": {extra}}}'
        monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", connection)
    make(**({"location": "EU"} if given == "parameter" else {})).execute(context(store))
    assert {location for _, location in bigquery.requests} == {"EU"}


@needs_store
def test_a_retry_reconnects_where_the_job_is(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.ends_after = None
    task = make()
    task.poll_until_complete = _die
    with pytest.raises(Crash):
        task.execute(context(store))
    bigquery.ends_after = 1
    ctx = context(store, try_number=2)
    retry = make()
    assert retry.execute(ctx) == bigquery.only_id
    # Also for OpenLineage and the links.
    assert (retry.project_id, retry.location, retry.job_id) == (PROJECT, TOKYO, bigquery.only_id)
    assert ctx["ti"].xcoms["bigquery_job_detail"]["location"] == TOKYO
    assert ctx["ti"].xcoms["job_id_path"] == f"{PROJECT}:{TOKYO}:{bigquery.only_id}"
    assert bigquery.methods().count("insert") == 1


def _die(*_: Any) -> None:
    raise Crash


@needs_store
@pytest.mark.parametrize("given", [{}, {"location": TOKYO}, {"job_id": "mine"}, {"force_rerun": False}])
@pytest.mark.parametrize("at", ["after the answer", "before the id is stored"])
def test_a_job_whose_id_was_never_stored_is_found(
    bigquery: FakeBigQuery, store: Store, given: dict[str, Any], at: str
) -> None:
    if at == "after the answer":
        bigquery.lost["insert"] = [Crash()]
    else:
        crash_when_storing(store, KEY)
    with pytest.raises(Crash):
        make(**given).execute(context(store))
    assert make(**given).execute(context(store, try_number=2)) == bigquery.only_id
    assert bigquery.methods().count("insert") == 1
    assert store.values[KEY] == bigquery.only_id
    assert store.values[f"{KEY}_submission"]["details"]["location"] == TOKYO


@needs_store
@pytest.mark.parametrize("given", [{}, {"force_rerun": False}])
def test_a_submission_that_never_arrived_is_sent_again_under_the_same_id(
    bigquery: FakeBigQuery, store: Store, given: dict[str, Any]
) -> None:
    bigquery.planned["insert"] = [Crash()]
    with pytest.raises(Crash):
        make(**given).execute(context(store))
    first = store.values[f"{KEY}_submission"]
    later = context(store, try_number=2)
    later["dag_run"].start_date = later["logical_date"].replace(day=2)  # as a clear of the run does
    job_id = make(**given).execute(later)
    assert job_id == bigquery.only_id
    assert store.values[f"{KEY}_submission"]["token"] == first["token"]
    assert store.values[f"{KEY}_submission"]["details"]["prefix"] == first["details"]["prefix"]
    assert job_id.startswith(first["details"]["prefix"])


@pytest.mark.parametrize("given", [{}, {"job_id": "mine"}, {"force_rerun": False}, {"location": TOKYO}])
@pytest.mark.parametrize(
    "lost", [BROKEN, refusal(503, "backendError"), refusal(500, "internalError"), refusal(502, "badGateway")]
)
def test_the_google_clients_own_repeats_start_no_second_job(
    bigquery: FakeBigQuery, store: Store, lost: Any, given: dict[str, Any]
) -> None:
    bigquery.lost["insert"] = [lost]
    assert make(**given).execute(context(store)) == bigquery.only_id
    assert bigquery.methods()[:3] == ["insert", "insert", "get"]


def test_a_job_that_a_409_names_may_take_a_moment_to_be_found(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.lost["insert"] = [BROKEN]
    bigquery.planned["get"] = [refusal(404, "notFound"), refusal(404, "notFound")]
    assert make().execute(context(store)) == bigquery.only_id
    assert bigquery.methods()[:5] == ["insert", "insert", "get", "get", "get"]


def test_an_answer_that_is_unclear_is_settled_before_anything_is_sent_again(
    bigquery: FakeBigQuery, store: Store
) -> None:
    # The client repeats nothing whose reason it does not know.
    bigquery.lost["insert"] = [refusal(500, "unheardOf")]
    assert make().execute(context(store)) == bigquery.only_id
    assert bigquery.methods()[:4] == ["insert", "get", "list", "get"]
    assert bigquery.methods().count("insert") == 1


def test_a_refusal_of_a_repeat_is_no_proof_that_there_is_no_job(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.lost["insert"] = [BROKEN]
    bigquery.to_repeats = [refusal(403, "accessDenied")]
    assert make().execute(context(store)) == bigquery.only_id


@needs_store
def test_a_refusal_fails_the_try_and_leaves_nothing_to_look_for(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.planned["insert"] = [refusal(403, "accessDenied", "Access Denied: Project a-project")]
    with pytest.raises(SubmissionRejectedError, match="Access Denied: Project a-project"):
        make().execute(context(store))
    assert store.values == {}


def test_a_409_that_is_about_a_table_is_a_refusal(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.planned["insert"] = [refusal(409, "duplicate", "Already Exists: Table a-project:lake.visits")]
    with pytest.raises(SubmissionRejectedError, match="Already Exists: Table"):
        make().execute(context(store))


def test_throttling_is_waited_for(bigquery: FakeBigQuery, store: Store) -> None:
    # 403, which the client repeats, and 429 with a reason that it does not know.
    bigquery.planned["insert"] = [refusal(403, "rateLimitExceeded"), refusal(429, "unheardOf")]
    assert make().execute(context(store)) == bigquery.only_id


@needs_store
def test_an_insert_that_stays_unclear_keeps_its_record(bigquery: FakeBigQuery, store: Store) -> None:
    bigquery.planned["insert"] = [refusal(500, "unheardOf")] * 3
    with pytest.raises(SubmissionUnclearError):
        make().execute(context(store))
    token = store.values[f"{KEY}_submission"]["token"]
    assert make().execute(context(store, try_number=2)).endswith(token)


@needs_store
@pytest.mark.parametrize("reason", ["rateLimitExceeded", "backendError", "invalidQuery", "stopped"])
def test_the_next_try_submits_after_a_job_that_failed(
    bigquery: FakeBigQuery, store: Store, reason: str
) -> None:
    bigquery.ends_with = reason
    with pytest.raises(JobFailedError, match=f"{reason}: went wrong"):
        make().execute(context(store, max_tries=1))
    bigquery.ends_with = None
    second = make().execute(context(store, try_number=2, max_tries=1))
    assert len(bigquery.jobs) == 2
    assert store.values[KEY] == second
    assert store.values[f"{KEY}_submission"]["submission"] == 2


@needs_store
def test_a_cleared_success_runs_again_under_another_id(bigquery: FakeBigQuery, store: Store) -> None:
    first = make().execute(context(store))
    second = make().execute(context(store, try_number=2, max_tries=1))
    assert first != second
    assert list(bigquery.jobs) == [first, second]


@needs_store
def test_a_job_that_bigquery_has_forgotten_is_submitted_anew(bigquery: FakeBigQuery, store: Store) -> None:
    first = make().execute(context(store))
    bigquery.jobs.clear()
    record = store.values[f"{KEY}_submission"]
    record["submitted_at"] = record["submitted_at"].replace("2", "1", 1)  # long ago
    assert make().execute(context(store, try_number=2)) != first


@needs_store
@pytest.mark.parametrize("location", [TOKYO, "EU"])
def test_an_id_that_apaches_operator_stored_is_found_in_any_location(
    bigquery: FakeBigQuery, store: Store, location: str
) -> None:
    bigquery.start("theirs", dict(QUERY), location)
    store.values[KEY] = "theirs"
    assert make().execute(context(store, try_number=2)) == "theirs"
    assert list(bigquery.jobs) == ["theirs"]
    assert bigquery.methods().count("list") == (1 if location == TOKYO else 0)


@needs_store
def test_an_id_that_apaches_operator_stored_and_nobody_knows_is_submitted_anew(
    bigquery: FakeBigQuery, store: Store
) -> None:
    store.values[KEY] = "theirs"
    later = context(store, try_number=2)
    assert make().execute(later) == bigquery.only_id
    # Not half a year of jobs: none of this run is older than the run.
    due = later["dag_run"].run_after.timestamp() * 1000
    assert bigquery.listed_since == [due - 5 * 60 * 1000]


@needs_store
def test_a_lost_job_is_looked_for_among_those_since_its_submission(
    bigquery: FakeBigQuery, store: Store
) -> None:
    bigquery.lost["insert"] = [Crash()]
    before = time.time() * 1000
    with pytest.raises(Crash):
        make().execute(context(store))
    make().execute(context(store, try_number=2))
    assert [before - since for since in bigquery.listed_since] == [pytest.approx(5 * 60 * 1000, abs=60_000)]


@pytest.mark.no_task_state_store
def test_below_airflow_3_3_every_try_submits(bigquery: FakeBigQuery) -> None:
    ids = [make().execute(context(try_number=number)) for number in (1, 2)]
    assert list(bigquery.jobs) == ids


def test_a_dry_run_starts_no_job(bigquery: FakeBigQuery, store: Store) -> None:
    assert make(configuration={**QUERY, "dryRun": True}).execute(context(store)) is None
    assert bigquery.methods() == ["insert"]
    assert store.values == {}


@pytest.mark.parametrize(
    ("configuration", "tables"),
    [
        ({"load": {"sourceUris": ["gs://b/a.csv"], "destinationTable": "T"}}, ["visits"]),
        ({"copy": {"sourceTable": "S", "destinationTable": "T"}}, ["raw", "visits"]),
        ({"extract": {"sourceTable": "S", "destinationUris": ["gs://b/a.csv"]}}, ["raw"]),
        ({"query": {"query": "SELECT 1", "destinationTable": "T"}}, ["visits"]),
        ({"query": {"query": "BEGIN SELECT 1; SELECT 2; END"}}, []),
    ],
)
def test_jobs_of_every_type_run_and_link_to_their_tables(
    bigquery: FakeBigQuery, store: Store, configuration: dict[str, Any], tables: list[str]
) -> None:
    names = {"S": "raw", "T": "visits"}
    (details,) = configuration.values()
    for key, value in details.items():
        if value in ("S", "T"):
            details[key] = {"projectId": PROJECT, "datasetId": "lake", "tableId": names[value]}
    ctx = context(store)
    assert make(configuration=configuration).execute(ctx) == bigquery.only_id
    linked = [value["table_id"] for key, value in ctx["ti"].pushed if key == "bigquery_table"]
    assert list(dict.fromkeys(linked)) == tables
