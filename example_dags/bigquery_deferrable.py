"""BigQuery, waiting in the triggerer: a table is rebuilt, and nobody holds a worker for it.

Needs the connection ``google_cloud_default``, a triggerer, and a dataset, the run's parameter.
"""

from __future__ import annotations

from datetime import timedelta

# Lets the Dag processor import Google's modules once for all files instead of once for each.
import airflow.providers.google.cloud.operators.bigquery  # noqa: F401
from airflow.sdk import DAG

from airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator

with DAG(
    "bigquery_deferrable",
    schedule=None,
    params={"dataset": "lake"},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    BigQueryInsertJobOperator(
        task_id="summarize",
        configuration={
            "query": {
                "query": (
                    "CREATE OR REPLACE TABLE {{ params.dataset }}.weekdays AS "
                    "SELECT n FROM UNNEST([1, 2, 3, 4, 5]) AS n"
                ),
                "useLegacySql": False,
            }
        },
        deferrable=True,
        poll_interval=10,
    )
