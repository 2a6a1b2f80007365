"""Some promises need the task state store of Airflow 3.3, some are about its absence; and a real SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE

HERE = Path(__file__).parent
#: Far above the slowest unit test, also on a machine that is busy with other things.
LONGEST_SECONDS = 120


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "task_state_store: about Airflow 3.3 and later")
    config.addinivalue_line("markers", "no_task_state_store: about Airflow below 3.3")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is not about this Airflow: not skipped, because it is no test here."""
    for item in items:
        if HERE in item.path.parents:
            # A stop that is not heeded is a wait that never ends: say so soon.
            item.add_marker(pytest.mark.timeout(LONGEST_SECONDS))
    other = "no_task_state_store" if HAS_TASK_STATE_STORE else "task_state_store"
    left_out = [item for item in items if item.get_closest_marker(other)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


@pytest.fixture
def sigterm() -> Iterator[Callable[[Any], None]]:
    """Have SIGTERM call a task's ``on_kill`` on the main thread, as Airflow's task runner does."""
    before = signal.getsignal(signal.SIGTERM)
    yield lambda task: signal.signal(signal.SIGTERM, lambda *_: task.on_kill()) and None
    signal.signal(signal.SIGTERM, before)
