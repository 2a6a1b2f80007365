"""BigQuery, waiting without a worker or a triggerer; cleared after its success, it runs nothing again.

``on_clear="resume"`` returns the result of the job that succeeded, so that clearing a whole run, to repeat
what comes after this task, does not pay for the query twice.

Needs the connection ``google_cloud_default`` and a dataset, the run's parameter.
"""

from __future__ import annotations

from datetime import timedelta

# Lets the Dag processor import Google's modules once for all files instead of once for each.
import airflow.providers.google.cloud.operators.bigquery  # noqa: F401
from airflow.sdk import DAG

from airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator

with DAG(
    "bigquery_reschedule",
    schedule=None,
    params={"dataset": "lake"},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=30)},
):
    BigQueryInsertJobOperator(
        task_id="history",
        configuration={
            "query": {
                "query": (
                    "CREATE OR REPLACE TABLE {{ params.dataset }}.history AS "
                    "SELECT n FROM UNNEST([1, 2, 3]) AS n"
                ),
                "useLegacySql": False,
            }
        },
        mode="reschedule",
        on_clear="resume",
    )
