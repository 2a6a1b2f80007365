"""An AWS account."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from unit.batch.batch_api import account

if TYPE_CHECKING:
    from unit.batch.batch_api import Client


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    """AWS Batch without jobs, where a job succeeds at once."""
    return account(monkeypatch)
