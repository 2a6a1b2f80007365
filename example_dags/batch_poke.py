"""AWS Batch, waiting in the worker: kill the worker in mid-job, and the retry waits for the same job.

Needs the connection ``aws_default``. The run's parameters name the job queue and the job definition.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.batch import BatchOperator

with DAG(
    "batch_poke",
    schedule=None,
    params={"queue": "reports", "definition": "report"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
):
    BatchOperator(
        task_id="report",
        job_name="report",
        job_queue="{{ params.queue }}",
        job_definition="{{ params.definition }}",
        poll_interval=5,
    )
