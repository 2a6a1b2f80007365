"""An operator of one's own with all hooks: ``recover_job``, and a trigger to wait in the triggerer.

The operator is in ``modules/step_functions.py``, which goes into Airflow's plugins folder or a package:
the triggerer cannot import what is in the Dags folder.

Needs the connection ``aws_default`` and a triggerer. The run's parameter is the ARN of a state machine.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG
from step_functions import StateMachineOperator

with DAG(
    "own_operator_recover",
    schedule=None,
    params={"state_machine_arn": "arn:aws:states:eu-west-1:123456789012:stateMachine:report"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
):
    StateMachineOperator(
        task_id="report",
        state_machine_arn="{{ params.state_machine_arn }}",
        state_machine_input={"run": "{{ run_id }}"},
        deferrable=True,
        poll_interval=5,
        execution_timeout=timedelta(hours=2),
    )
