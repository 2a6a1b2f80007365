"""Spark on YARN, waiting in the triggerer: ``spark-submit`` is gone as soon as the application is accepted.

All waiting applications of a connection are asked about in one request to the ResourceManager. Tags of your
own stay; the operator adds the two by which it finds the application again.

Needs the connection ``spark_yarn``: host ``yarn``, with the extras ``deploy-mode`` (cluster) and
``yarn_resourcemanager_webapp_address``; and a triggerer. The run's parameters name the jar.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.spark import SparkSubmitOperator

with DAG(
    "spark_deferrable",
    schedule=None,
    params={"application": "hdfs:///jobs/report.jar"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
):
    SparkSubmitOperator(
        task_id="report",
        conn_id="spark_yarn",
        name="report {{ run_id }}",
        application="{{ params.application }}",
        java_class="com.example.Report",
        conf={"spark.yarn.tags": "nightly"},
        deferrable=True,
    )
