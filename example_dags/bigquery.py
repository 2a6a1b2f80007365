"""BigQuery: kill a worker, evict a pod, restart the triggerer, and each query takes effect once.

``load`` adds rows and waits in the worker; ``summarize`` rebuilds a table and waits in the triggerer. Neither
names a location: the jobs run where the dataset is, and a retry finds them there.

Needs the connection ``google_cloud_default`` and a dataset, the run's parameter, with a table ``visits``.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator

with DAG(
    "bigquery_example",
    schedule=None,
    params={"dataset": "lake"},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    load = BigQueryInsertJobOperator(
        task_id="load",
        configuration={
            "query": {
                "query": "INSERT INTO {{ params.dataset }}.visits (n) VALUES (1), (2), (3)",
                "useLegacySql": False,
            }
        },
        execution_timeout=timedelta(hours=2),
    )
    summarize = BigQueryInsertJobOperator(
        task_id="summarize",
        configuration={
            "query": {
                "query": (
                    "CREATE OR REPLACE TABLE {{ params.dataset }}.summary AS "
                    "SELECT COUNT(*) AS visits, SUM(n) AS total FROM {{ params.dataset }}.visits"
                ),
                "useLegacySql": False,
            }
        },
        deferrable=True,
    )
    load >> summarize
