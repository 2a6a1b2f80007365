"""BigQuery, waiting in the worker: kill the worker in mid-query, and the rows are added once.

No location is named: the job runs where the dataset is, and a retry finds it there.

Needs the connection ``google_cloud_default`` and a dataset, the run's parameter, with a table ``visits``.
"""

from __future__ import annotations

from datetime import timedelta

# Lets the Dag processor import Google's modules once for all files instead of once for each.
import airflow.providers.google.cloud.operators.bigquery  # noqa: F401
from airflow.sdk import DAG

from airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator

with DAG(
    "bigquery_poke",
    schedule=None,
    params={"dataset": "lake"},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    BigQueryInsertJobOperator(
        task_id="load",
        configuration={
            "query": {
                "query": "INSERT INTO {{ params.dataset }}.visits (n) VALUES (1), (2), (3)",
                "useLegacySql": False,
            }
        },
        execution_timeout=timedelta(hours=2),
    )
