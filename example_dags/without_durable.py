"""Durability switched off for a whole Dag: for tests, and where the service itself sorts out duplicates.

Nothing is stored, every try submits, and a task that is stopped cancels its job, because no later try
would find it.

Needs the connection ``aws_default``. The run's parameters name the job queue and the job definition.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.batch import BatchOperator

with DAG(
    "without_durable",
    schedule=None,
    params={"queue": "reports", "definition": "report"},
    default_args={"durable": False, "retries": 2, "retry_delay": timedelta(seconds=5)},  # noqa: DUR231
):
    BatchOperator(
        task_id="report",
        job_name="report",
        job_queue="{{ params.queue }}",
        job_definition="{{ params.definition }}",
        poll_interval=5,
    )
