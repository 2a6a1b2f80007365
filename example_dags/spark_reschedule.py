"""Spark on Kubernetes, waiting without a worker and without a triggerer: for a driver that runs for days.

Between two looks at the driver pod no process of the task exists.

Needs ``airflow-provider-durable[spark-kubernetes]``, a kubeconfig as Airflow's Kubernetes executor reads it
(``[kubernetes_executor] config_file`` or ``in_cluster``), and the connection ``spark_kubernetes``: ``k8s://``
and the API server, with the extras ``deploy-mode`` (cluster) and ``namespace``. The run's parameters name the
image and the jar in it.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.spark import SparkSubmitOperator

with DAG(
    "spark_reschedule",
    schedule=None,
    params={"image": "registry.example.com/jobs/train:latest", "application": "local:///opt/jobs/train.jar"},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
):
    SparkSubmitOperator(
        task_id="train",
        conn_id="spark_kubernetes",
        name="train-{{ run_id | lower | replace('_', '-') }}",
        application="{{ params.application }}",
        java_class="com.example.Train",
        conf={"spark.kubernetes.container.image": "{{ params.image }}"},
        mode="reschedule",
        status_poll_interval=30,
    )
