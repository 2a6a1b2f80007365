"""An operator of one's own with Airflow's six hooks and ``cancel_job``, on AWS Step Functions.

An operator that is written for Airflow's mixin looks the same; only the import differs. A retry reconnects
to the execution whose ARN is stored. ``cancel_job`` is the reason that an eviction leaves it running,
where ``on_kill`` would stop it.

``modules/step_functions.py`` closes the last gap: an execution whose ARN was never stored is found, too.

Needs the connection ``aws_default``. The run's parameter is the ARN of a state machine.
"""

from __future__ import annotations

import time
from datetime import timedelta

from airflow.providers.amazon.aws.hooks.step_function import StepFunctionHook
from airflow.sdk import DAG, BaseOperator

from airflow_provider_durable import JobFailedError, ResumableJobMixin


class StateMachineOperator(ResumableJobMixin, BaseOperator):
    external_id_key = "execution_arn"  # once tasks run in production, never rename it
    template_fields = ("state_machine_arn",)

    def __init__(self, *, state_machine_arn, **kwargs):
        super().__init__(**kwargs)
        self.state_machine_arn = state_machine_arn

    def execute(self, context):
        return self.execute_resumable(context)

    def submit_job(self, context):
        return StepFunctionHook().start_execution(self.state_machine_arn)

    def get_job_status(self, external_id, context):
        return StepFunctionHook().describe_execution(external_id)["status"]

    def is_job_active(self, status):
        return status in ("RUNNING", "PENDING_REDRIVE")

    def is_job_succeeded(self, status):
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id, context):
        # Left out, the mixin's own asks every poll_interval and tolerates requests that fail.
        while self.is_job_active(status := self.get_job_status(external_id, context)):
            time.sleep(5)
        if not self.is_job_succeeded(status):
            raise JobFailedError(f"Execution {external_id} ended as {status}")

    def get_job_result(self, external_id, context):
        return StepFunctionHook().describe_execution(external_id)["output"]

    def cancel_job(self, external_id, context):
        StepFunctionHook().conn.stop_execution(executionArn=external_id)


with DAG(
    "own_operator",
    schedule=None,
    params={"state_machine_arn": "arn:aws:states:eu-west-1:123456789012:stateMachine:report"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
):
    StateMachineOperator(task_id="report", state_machine_arn="{{ params.state_machine_arn }}")
