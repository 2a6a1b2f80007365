"""AWS Batch, waiting without a worker and without a triggerer: for a job that runs for days.

Between two looks at the job no process of the task exists. A job that fails fails the try, and Airflow's
retries decide.

``state_retention`` keeps the job's id for longer than Airflow's 30 days. ``on_lost_submission="fail"``
would rather have a person look than start such a job twice, should nobody be able to say whether it was
started.

Needs the connection ``aws_default``. The run's parameters name the job queue and the job definition.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG

from airflow_provider_durable.operators.batch import BatchOperator

with DAG(
    "batch_reschedule",
    schedule=None,
    params={"queue": "training", "definition": "train-model"},
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
):
    BatchOperator(
        task_id="train",
        job_name="train-model",
        job_queue="{{ params.queue }}",
        job_definition="{{ params.definition }}",
        mode="reschedule",
        poll_interval=timedelta(seconds=30),
        state_retention=timedelta(days=90),
        on_lost_submission="fail",
    )
