"""A job on Databricks, found by its name, waiting in the worker.

``cancel_previous_runs`` ends what other runs of the job are still active before this one starts. It never
cancels the run that a retry reconnects to.

Needs the connection ``databricks_default``. The run's parameter names the job.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.databricks import DatabricksRunNowOperator

with DAG(
    "databricks_run_now_poke",
    schedule=None,
    params={"job_name": "Nightly report"},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    DatabricksRunNowOperator(
        task_id="report",
        job_name="{{ params.job_name }}",
        cancel_previous_runs=True,
        polling_period_seconds=5,
    )
