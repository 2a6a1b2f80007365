"""The BigQuery stand-in: locations, ids, time, and effects that are counted."""

from __future__ import annotations

import pytest

from harness.bigquery_service import API, TOKYO, BigQueryService


@pytest.fixture(scope="module")
def bigquery(tmp_path_factory):
    service = BigQueryService.start(tmp_path_factory.mktemp("bigquery"))
    yield service
    service.stop()


def submit(bigquery, job_id, table, seconds, location=None):
    bigquery.create_table(table)
    query = {"query": f"INSERT INTO {table} VALUES (1)", "useLegacySql": False}
    labels = {"airflow-dag": job_id, "standin-seconds": str(seconds)}
    reference = {"jobId": job_id, "location": location}
    body = {"jobReference": reference, "configuration": {"query": query, "labels": labels}}
    return bigquery.call("POST", f"{API}/jobs", body)


def test_a_job_takes_its_time_and_then_its_effect(bigquery):
    answer = submit(bigquery, "slow", "lake.slow", 600)
    assert answer["status"] == {"state": "RUNNING"}
    assert bigquery.rows("lake.slow") == 0
    bigquery.finish("slow")
    answer = bigquery.call("GET", f"{API}/jobs/slow")
    assert answer["status"] == {"state": "DONE"}
    assert answer["configuration"]["labels"]["airflow-dag"] == "slow"
    assert bigquery.rows("lake.slow") == 1


def test_a_job_of_no_duration_is_done_at_once(bigquery):
    assert submit(bigquery, "fast", "lake.fast", 0)["status"] == {"state": "DONE"}
    assert bigquery.rows("lake.fast") == 1


def test_a_job_in_tokyo_is_found_there_and_nowhere_else(bigquery):
    assert submit(bigquery, "far", "tokyo_lake.far", 600)["jobReference"]["location"] == TOKYO
    for params in ({}, {"location": "US"}):
        with pytest.raises(RuntimeError, match="404"):
            bigquery.call("GET", f"{API}/jobs/far", **params)
        with pytest.raises(RuntimeError, match="404"):
            bigquery.call("POST", f"{API}/jobs/far/cancel", **params)
    assert bigquery.call("GET", f"{API}/jobs/far", location=TOKYO)["status"] == {"state": "RUNNING"}
    assert "far" in [job["jobReference"]["jobId"] for job in bigquery.call("GET", f"{API}/jobs")["jobs"]]


def test_an_id_is_taken_once(bigquery):
    submit(bigquery, "once", "lake.once", 600)
    with pytest.raises(RuntimeError, match=r"409.*Already Exists: Job standin-project:US\.once"):
        submit(bigquery, "once", "lake.again", 600)
    (job,) = bigquery.jobs("once")
    assert job.submissions == 2


def test_a_cancelled_job_has_no_effect(bigquery):
    submit(bigquery, "stopped", "lake.stopped", 600)
    for _ in range(2):
        bigquery.call("POST", f"{API}/jobs/stopped/cancel")
    bigquery.finish("stopped")
    (job,) = bigquery.jobs("stopped")
    assert job.cancelled
    assert job.error["reason"] == "stopped"
    assert bigquery.rows("lake.stopped") == 0


def test_a_job_can_be_made_to_fail_and_a_wrong_query_fails_by_itself(bigquery):
    submit(bigquery, "unlucky", "lake.unlucky", 600)
    assert bigquery.finish("unlucky", "backendError").error["reason"] == "backendError"
    query = {"query": "INSERT INTO lake.nowhere VALUES (1)", "useLegacySql": False}
    body = {"jobReference": {"jobId": "wrong"}, "configuration": {"query": query}}
    assert bigquery.call("POST", f"{API}/jobs", body)["status"]["errorResult"]["reason"] == "notFound"
