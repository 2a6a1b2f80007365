"""A durable operator for AWS Step Functions with all hooks: one task instance, one execution, whatever dies.

The execution's name is the token. It is stored before StartExecution leaves, and AWS starts one execution
of a name (https://docs.aws.amazon.com/step-functions/latest/apireference/API_StartExecution.html).
"""

from __future__ import annotations

import json

from airflow.providers.amazon.aws.hooks.step_function import StepFunctionHook
from airflow.sdk import BaseOperator
from botocore.exceptions import ClientError

from airflow_provider_durable import ResumableJobMixin, SubmissionRejectedError
from airflow_provider_durable.triggers.base import JobTrigger
from airflow_provider_durable.triggers.service import JobService

ACTIVE = frozenset({"RUNNING", "PENDING_REDRIVE"})
NOT_FOUND = "NOT_FOUND"


def describe(aws_conn_id, execution_arn):
    """DescribeExecution's answer; AWS forgets executions 90 days after their end."""
    try:
        return StepFunctionHook(aws_conn_id=aws_conn_id).describe_execution(execution_arn)
    except ClientError as error:
        if error.response["Error"]["Code"] == "ExecutionDoesNotExist":
            return {"status": NOT_FOUND}
        raise


class StateMachineOperator(ResumableJobMixin, BaseOperator):
    external_id_key = "execution_arn"  # once tasks run in production, never rename it
    template_fields = ("state_machine_arn", "state_machine_input")

    def __init__(self, *, state_machine_arn, state_machine_input=None, aws_conn_id="aws_default", **kwargs):
        super().__init__(**kwargs)
        self.state_machine_arn = state_machine_arn
        self.state_machine_input = state_machine_input or {}
        self.aws_conn_id = aws_conn_id

    def execute(self, context):
        return self.execute_resumable(context)

    # -- submit ----------------------------------------------------------------------------------

    def prepare_submission(self, context):
        """Check what was rendered, and return what recovery needs: it is stored with the token."""
        if ":stateMachine:" not in self.state_machine_arn:
            raise ValueError(f"{self.state_machine_arn!r} is not the ARN of a state machine")
        return {"state_machine_arn": self.state_machine_arn}

    def submit_job(self, context):
        hook = StepFunctionHook(aws_conn_id=self.aws_conn_id)
        try:
            return hook.start_execution(
                self.state_machine_arn, self.submission_token, self.state_machine_input
            )
        except ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 400:
                # AWS said no: there is certainly no execution to look for.
                raise SubmissionRejectedError(str(error)) from error
            raise  # anything else is unclear, and recover_job settles it

    def recover_job(self, token, context):
        """Return the execution that a submission with this token started, or None."""
        machine = self.submission_details["state_machine_arn"]
        execution_arn = f"{machine.replace(':stateMachine:', ':execution:')}:{token}"
        found = describe(self.aws_conn_id, execution_arn)
        return None if found["status"] == NOT_FOUND else execution_arn

    # -- ask -------------------------------------------------------------------------------------

    def get_job_status(self, external_id, context):
        return describe(self.aws_conn_id, external_id)["status"]

    def is_job_active(self, status):
        return status in ACTIVE

    def is_job_succeeded(self, status):
        return status == "SUCCEEDED"

    def get_job_result(self, external_id, context):
        return json.loads(describe(self.aws_conn_id, external_id)["output"])

    def describe_failure(self, external_id, status, context):
        found = describe(self.aws_conn_id, external_id)
        return f"Execution {external_id} ended as {status}: {found.get('error')} {found.get('cause')}"

    # -- stop, and wait in the triggerer ---------------------------------------------------------

    def cancel_job(self, external_id, context):
        StepFunctionHook(aws_conn_id=self.aws_conn_id).conn.stop_execution(executionArn=external_id)

    def make_trigger(self, external_id, context):
        return ExecutionTrigger(external_id=external_id, aws_conn_id=self.aws_conn_id, **self.trigger_options)


class Executions(JobService):
    """The executions that are reached with one connection. Its methods run in threads, and may block."""

    def __init__(self, aws_conn_id):
        self.aws_conn_id = aws_conn_id

    @property
    def key(self):
        return type(self), self.aws_conn_id

    def ask(self, external_ids):
        statuses = {arn: describe(self.aws_conn_id, arn)["status"] for arn in external_ids}
        return {arn: status for arn, status in statuses.items() if status != NOT_FOUND}

    def is_active(self, status):
        return status in ACTIVE

    def is_succeeded(self, status):
        return status == "SUCCEEDED"

    def cancel(self, external_id, reason):
        conn = StepFunctionHook(aws_conn_id=self.aws_conn_id).conn
        conn.stop_execution(executionArn=external_id, cause=reason)


class ExecutionTrigger(JobTrigger):
    """Waits for the end of one execution."""

    def __init__(self, *, aws_conn_id, **kwargs):
        super().__init__(**kwargs)
        self.aws_conn_id = aws_conn_id

    def service(self):
        return Executions(self.aws_conn_id)

    def parameters(self):
        return {**super().parameters(), "aws_conn_id": self.aws_conn_id}
