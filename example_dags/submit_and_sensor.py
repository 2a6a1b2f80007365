"""Submit and sensor kept apart on purpose: another sensor, of another team, waits for the same job.

``submit`` is green once AWS Batch has accepted the job, which says nothing about how it ends. So whatever
depends on the outcome hangs on the sensor. ``submit`` stays durable, because it is the task whose retry
could start a second job; the sensor starts nothing, and may be retried as it is.

Where nothing else needs the job's id, one task does both: see ``batch_reschedule.py``.

Needs the connection ``aws_default``. The run's parameters name the job queue and the job definition.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.providers.amazon.aws.sensors.batch import BatchSensor
from airflow.sdk import DAG, task

from airflow_provider_durable.operators.batch import BatchOperator

with DAG(
    "submit_and_sensor",
    schedule=None,
    params={"queue": "reports", "definition": "report"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=30)},
):
    submit = BatchOperator(
        task_id="submit",
        job_name="report",
        job_queue="{{ params.queue }}",
        job_definition="{{ params.definition }}",
        wait_for_termination=False,
    )
    wait = BatchSensor(task_id="wait", job_id=submit.output, mode="reschedule", poke_interval=30)

    @task
    def publish(job_id: str) -> str:
        return f"report of job {job_id} is out"

    wait >> publish(submit.output)
