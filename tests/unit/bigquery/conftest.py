"""A BigQuery and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from unit.bigquery.jobs_api import service
from unit.fakes import Store

if TYPE_CHECKING:
    from unit.bigquery.jobs_api import FakeBigQuery


@pytest.fixture
def bigquery(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBigQuery]:
    """A BigQuery whose data is in Tokyo, where a job succeeds after it was seen running once."""
    with service(monkeypatch) as bigquery:
        yield bigquery


@pytest.fixture
def store() -> Store:
    """What outlives a try."""
    return Store()
