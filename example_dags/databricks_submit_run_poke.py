"""A one-time run on Databricks, waiting in the worker: kill the worker, and there is one run.

Needs the connection ``databricks_default``. The run's parameters name a SQL warehouse and a query.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.databricks import DatabricksSubmitRunOperator

with DAG(
    "databricks_submit_run_poke",
    schedule=None,
    params={"warehouse_id": "475b94ddc7cd5211", "query_id": "fe25e731-92f2-4838-9fb2-1ca364320a3d"},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    DatabricksSubmitRunOperator(
        task_id="load",
        run_name="load {{ run_id }}",
        tasks=[
            {
                "task_key": "load",
                "sql_task": {
                    "warehouse_id": "{{ params.warehouse_id }}",
                    "query": {"query_id": "{{ params.query_id }}"},
                },
            }
        ],
        polling_period_seconds=5,
        execution_timeout=timedelta(hours=2),
    )
