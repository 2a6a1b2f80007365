"""A Spark task, and the context of one try."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.operators.spark import SparkSubmitOperator
from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE
from unit.fakes import TaskInstance

if TYPE_CHECKING:
    from unit.fakes import Store

needs_store = pytest.mark.task_state_store


def task(**parameters: Any) -> SparkSubmitOperator:
    given = {"application": "app.jar", "status_poll_interval": 0.001, **parameters}
    if not HAS_TASK_STATE_STORE:
        # Nothing is durable there, and spark-submit stays beside the job unless this is asked for.
        given.setdefault("yarn_track_via_rm_api", True)
    return SparkSubmitOperator(task_id="job", **given)


def context(store: Store | None, **ti: Any) -> dict[str, Any]:
    instance = TaskInstance(**ti)
    return {"ti": instance, "task_instance": instance, "task_state_store": store}
