"""A BigQuery and a connection to it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
import responses

from airflow_provider_durable.resumable import submission
from unit.bigquery.jobs_api import PROJECT, FakeBigQuery
from unit.fakes import Store


@pytest.fixture
def bigquery(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBigQuery]:
    """A BigQuery whose data is in Tokyo, where a job succeeds after it was seen running once."""
    extra = {"project": PROJECT, "is_anonymous": True}
    connection = {"conn_type": "google_cloud_platform", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(connection))
    # The Google client's own repeats begin after a second.
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.002)))
    monkeypatch.setattr(submission, "jitter", lambda seconds: 0.0)
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield FakeBigQuery(mock)


@pytest.fixture
def store() -> Store:
    """What outlives a try."""
    return Store()
