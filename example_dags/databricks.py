"""Databricks: kill a worker, evict a pod, restart the triggerer, and there is one run.

``load`` submits a one-time run and waits in the worker. ``report`` runs the job "Nightly report", found by
its name, and waits in the triggerer; if tasks of it fail they are repaired before the Airflow task fails.

Needs the connection ``databricks_default`` and the variables ``databricks_warehouse_id`` and
``databricks_query_id``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.databricks import (
    DatabricksRunNowOperator,
    DatabricksSubmitRunOperator,
)

with DAG(
    "databricks_example",
    schedule=None,
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30), "polling_period_seconds": 10},
):
    load = DatabricksSubmitRunOperator(
        task_id="load",
        run_name="load {{ run_id }}",
        tasks=[
            {
                "task_key": "load",
                "sql_task": {
                    "warehouse_id": "{{ var.value.databricks_warehouse_id }}",
                    "query": {"query_id": "{{ var.value.databricks_query_id }}"},
                },
            }
        ],
        execution_timeout=timedelta(hours=2),
    )
    report = DatabricksRunNowOperator(
        task_id="report",
        job_name="Nightly report",
        repair_run=True,
        deferrable=True,
    )
    load >> report
