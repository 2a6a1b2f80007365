"""BigQuery in the triggerer: what is asked, where, and what a failing request means."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.services.bigquery import Place
from unit.bigquery.jobs_api import BROKEN, PROJECT, QUERY, TOKYO, refusal

if TYPE_CHECKING:
    from unit.bigquery.jobs_api import FakeBigQuery


def trigger(**parameters: Any) -> Any:
    from airflow_provider_durable.triggers.bigquery import BigQueryJobTrigger

    given = {"job_id": "j", "project_id": PROJECT, "location": TOKYO, "poll_interval": 0.01, **parameters}
    return BigQueryJobTrigger(**given)


async def run(waiting: Any) -> dict[str, Any]:
    """Return the payload of the one event."""
    events = [event async for event in waiting.run()]
    assert len(events) == 1
    payload: dict[str, Any] = events[0].payload
    return payload


def test_its_parameters_are_json_and_make_it_anew() -> None:
    path, parameters = trigger(
        impersonation_chain=["a", "b"], deadline="2026-03-01T00:00:00+00:00"
    ).serialize()
    assert path == "airflow_provider_durable.triggers.bigquery.BigQueryJobTrigger"
    again = trigger(**json.loads(json.dumps(parameters)))
    assert again.serialize() == (path, parameters)
    assert again.service().key == trigger(impersonation_chain=["a", "b"]).service().key
    assert again.service().key != trigger(location="EU", impersonation_chain=["a", "b"]).service().key


@pytest.mark.parametrize(("reason", "status"), [(None, "success"), ("invalidQuery", "failed")])
async def test_it_says_how_the_job_ended_and_where(
    bigquery: FakeBigQuery, reason: str | None, status: str
) -> None:
    bigquery.start("j", dict(QUERY))
    bigquery.ends_after, bigquery.ends_with = 2, reason
    event = await run(trigger())
    assert {key: event[key] for key in ("outcome", "job_id", "external_id", "project_id", "location")} == {
        "outcome": status,
        "job_id": "j",
        "external_id": "j",
        "project_id": PROJECT,
        "location": TOKYO,
    }
    assert bigquery.requests == [("get", TOKYO)] * 3


@pytest.mark.parametrize(
    "failing",
    [BROKEN, refusal(503, "backendError"), refusal(403, "rateLimitExceeded"), refusal(401, "authError")],
)
async def test_a_failing_request_ends_no_wait(bigquery: FakeBigQuery, failing: Any) -> None:
    bigquery.start("j", dict(QUERY))
    bigquery.planned["get"] = [failing]
    assert (await run(trigger()))["status"] == "success"


async def test_requests_that_fail_for_the_whole_window_end_it_with_an_error(bigquery: FakeBigQuery) -> None:
    bigquery.start("j", dict(QUERY))
    bigquery.planned["get"] = [refusal(503, "backendError", "no backend")] * 1000
    event = await run(trigger(poll_error_window=0.05))
    assert event["status"] == "error"
    assert "no backend" in event["message"]


def test_throttling_is_told_from_failing(bigquery: FakeBigQuery) -> None:
    service = trigger().service()
    first = service.jobs()
    bigquery.planned["get"] = [refusal(403, "rateLimitExceeded"), refusal(403, "accessDenied")]
    with pytest.raises(ServiceThrottledError):
        service.ask(["j"])
    assert service.jobs() is first
    with pytest.raises(Exception, match="403") as error:
        service.ask(["j"])
    assert not isinstance(error.value, ServiceThrottledError)
    # The connection is read again then, in case the credentials have changed.
    assert service.jobs() is not first
    bigquery.start("j", dict(QUERY))
    assert service.ask(["j"]) == {"j": "RUNNING"}


def test_a_job_that_bigquery_does_not_know_is_left_out(bigquery: FakeBigQuery) -> None:
    assert trigger().service().ask(["j"]) == {}


def test_cancelling_is_sent_where_the_job_is_and_is_safe_to_repeat(bigquery: FakeBigQuery) -> None:
    bigquery.start("j", dict(QUERY))
    service = trigger().service()
    for _ in range(2):
        service.cancel("j", "")
    assert bigquery.requests == [("cancel", TOKYO)] * 2
    assert bigquery.jobs["j"]["status"]["errorResult"]["reason"] == "stopped"


def test_a_place_reads_as_bigquery_writes_it() -> None:
    assert str(Place(PROJECT, TOKYO)) == f"{PROJECT}:{TOKYO}"
