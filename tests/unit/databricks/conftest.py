"""A workspace and a connection to it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import responses

from airflow_provider_durable.resumable import submission
from unit.databricks.jobs_api import HOST, JobsApi
from unit.fakes import Store


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsApi]:
    """A workspace where every run succeeds after it was seen running once."""
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    connection = {"conn_type": "databricks", "host": f"https://{HOST}", "password": "dapi"}
    monkeypatch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", json.dumps(connection))
    # The real one loads all providers to name a version.
    monkeypatch.setattr(DatabricksHook, "user_agent_header", {"user-agent": "test"})
    monkeypatch.setattr(submission, "jitter", lambda seconds: 0.0)
    api = JobsApi()
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        api.install(mock)
        yield api


@pytest.fixture
def store() -> Store:
    """What outlives a try."""
    return Store()
