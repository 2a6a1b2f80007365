"""A workspace and a connection to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from unit.databricks.jobs_api import workspace
from unit.fakes import Store

if TYPE_CHECKING:
    from unit.databricks.jobs_api import JobsApi


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsApi]:
    """A workspace where every run succeeds after it was seen running once."""
    with workspace(monkeypatch) as api:
        yield api


@pytest.fixture
def store() -> Store:
    """What outlives a try."""
    return Store()
