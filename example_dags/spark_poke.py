"""Spark on a standalone cluster, waiting in the worker: after a kill, the retry waits for the same driver.

A standalone master cannot say which driver came from a submission whose answer was lost.
``on_lost_submission="fail"`` has a person look, instead of running the application twice.

Needs the connection ``spark_default``: ``spark://`` and the master, with the extras ``deploy-mode`` (cluster)
and ``rest-port``. The run's parameters name the jar.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.spark import SparkSubmitOperator

with DAG(
    "spark_poke",
    schedule=None,
    params={"application": "/opt/jobs/report.jar"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
):
    SparkSubmitOperator(
        task_id="report",
        name="report",
        application="{{ params.application }}",
        application_args=["--run", "{{ run_id }}"],
        driver_memory="512m",
        status_poll_interval=5,
        on_lost_submission="fail",
    )
