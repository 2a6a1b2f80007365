"""One Dag with one Databricks task, its Airflow run and its Databricks runs: where a test starts.

``DatabricksCase.start(...)`` writes the Dag file, triggers it and gives the task. Names are unique, so cases
run side by side on one Airflow, one stand-in and one proxy.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from harness.airflow_client import AirflowApiError
from harness.case import TASK_ID, ServiceCase, unique, written
from harness.databricks_service import WORKING_SQL, databricks_connection

if TYPE_CHECKING:
    from harness.airflow_client import AirflowClient, Run, Task
    from harness.databricks_service import DatabricksRun, DatabricksService
    from harness.fault_proxy import Action, FaultProxy, Rule

CONNECTION = "databricks_default"
TEMPLATE = """\
import datetime

from airflow.sdk import DAG
from airflow_provider_durable.operators.databricks import {operator}

with DAG({dag_id!r}, schedule=None):
    {operator}({arguments})
"""


def connect(client: AirflowClient, url: str) -> None:
    """Add the connection to the service, unless another process has."""
    with contextlib.suppress(AirflowApiError):
        client.api("POST", "connections", {"connection_id": CONNECTION, **databricks_connection(url)})
    assert client.api("GET", f"connections/{CONNECTION}")["port"] == databricks_connection(url)["port"]


@dataclass
class DatabricksCase(ServiceCase["DatabricksRun"]):
    """A Dag of one Databricks task, ``job``, on a running Airflow."""

    client: AirflowClient
    databricks: DatabricksService
    proxy: FaultProxy
    name: str
    run: Run | None = None
    job_name: str = ""
    job_id: int | None = None

    @classmethod
    def named(
        cls, name: str, client: AirflowClient, databricks: DatabricksService, proxy: FaultProxy
    ) -> DatabricksCase:
        """A case with names of its own, ``name`` and some letters."""
        return cls(client, databricks, proxy, unique(name))

    def submit(self, *, seconds: float = 600, sql: str = WORKING_SQL, **arguments: object) -> Task:
        """Start a task that submits a run of one SQL task.

        :param seconds: how long the run goes on if nobody ends it
        :param arguments: of the operator; ``retries`` is 2 by default, 1 s apart
        """
        what = {"run_name": f"{self.name} seconds={seconds}", "tasks": [self.databricks.sql_task(sql=sql)]}
        return self._start("DatabricksSubmitRunOperator", {**what, **arguments})

    def run_now(self, *, seconds: float = 600, **arguments: object) -> Task:
        """Start a task that runs a job, by its name; the job is made if ``make_job`` has not."""
        if self.job_id is None:
            self.make_job(seconds)
        return self._start("DatabricksRunNowOperator", {"job_name": self.job_name, **arguments})

    def make_job(self, seconds: float = 600) -> int:
        """Make the job that ``run_now`` runs, before a fault is planned for it."""
        self.job_name = f"{self.name} seconds={seconds}"
        self.job_id = self.databricks.create_job(self.job_name)
        return self.job_id

    def _start(self, operator: str, arguments: dict[str, object]) -> Task:
        arguments = {
            "task_id": TASK_ID,
            "retries": 2,
            "retry_delay": timedelta(seconds=1),
            "polling_period_seconds": 1,
            **arguments,
        }
        return self._start_dag(
            TEMPLATE.format(operator=operator, dag_id=self.name, arguments=written(arguments))
        )

    def runs(self) -> list[DatabricksRun]:
        """All runs that the service ever started for this case."""
        return self.databricks.runs(self.name)

    started = runs

    def finish(self) -> None:
        """End all runs."""
        self.databricks.finish_all(self.name)

    def fault(self, action: Action, operation: str, **options: Any) -> Rule:
        """A rule of the proxy for one operation: ``runs/submit``, ``run-now``, ``runs/get[?]run_id=1$``."""
        # A request that runs a job names it by its number.
        own = {"runs/submit": self.name, "run-now": f'"job_id": {self.job_id},'}
        return self.proxy.rule(action, path=f"/jobs/{operation}", body=own.get(operation, ""), **options)
