"""AWS Batch, waiting in the triggerer: one job for each region, and one status request for all of them.

No worker is held. Kill the triggerer, or a worker before or after it, and every job is still waited for
once.

Needs the connection ``aws_default`` and a triggerer. The run's parameters name the job queue and the job
definition.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.batch import BatchOperator

with DAG(
    "batch_deferrable",
    schedule=None,
    params={"queue": "reports", "definition": "report"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
):
    BatchOperator.partial(
        task_id="report",
        job_name="report",
        job_queue="{{ params.queue }}",
        job_definition="{{ params.definition }}",
        deferrable=True,
        poll_interval=10,
        execution_timeout=timedelta(hours=2),
    ).expand(parameters=[{"region": "emea"}, {"region": "apac"}, {"region": "amer"}])
