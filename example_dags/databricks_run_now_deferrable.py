"""A job on Databricks, found by its name, waiting in the triggerer.

If tasks of the run fail they are repaired, once, before the Airflow task fails, also when nobody watched
them fail.

Needs the connection ``databricks_default`` and a triggerer. The run's parameter names the job.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.databricks import DatabricksRunNowOperator

with DAG(
    "databricks_run_now_deferrable",
    schedule=None,
    params={"job_name": "Nightly report"},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    DatabricksRunNowOperator(
        task_id="report",
        job_name="{{ params.job_name }}",
        repair_run=True,
        polling_period_seconds=10,
        deferrable=True,
    )
