"""Tasks in Dags, and Dags as Airflow serializes them, on Airflow 2 and 3."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

try:
    from airflow.sdk import DAG
except ImportError:  # Airflow 2
    from airflow import DAG

try:
    from airflow.serialization.serialized_objects import DagSerialization
except ImportError:  # Airflow below 3.2
    from airflow.serialization.serialized_objects import SerializedDAG as DagSerialization


def new_dag(**default_args: Any) -> Any:
    """Return a Dag without tasks."""
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    return DAG("dag", schedule=None, start_date=start, default_args=default_args)


def in_a_dag(operator: type[Any], **arguments: Any) -> Any:
    """Return a task in a Dag of its own."""
    with new_dag():
        return operator(**arguments)


def serialized(dag: Any) -> dict[str, Any]:
    """Return the Dag as the scheduler and the API server get it."""
    data: dict[str, Any] = DagSerialization.to_dict(dag)
    return data


def there_and_back(dag: Any) -> Any:
    """Return what the scheduler makes of the serialized Dag."""
    return DagSerialization.from_dict(serialized(dag))


def encoded(operator: type[Any], **arguments: Any) -> dict[str, Any]:
    """Return the fields of a task in a serialized Dag."""
    (task,) = serialized(in_a_dag(operator, **arguments).dag)["dag"]["tasks"]
    fields: dict[str, Any] = task["__var"]
    return fields
