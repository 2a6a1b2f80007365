"""One Dag with one BigQueryInsertJobOperator, its run, its jobs and the table that it writes.

``BigQueryCase.start(...)`` writes the Dag file, triggers it and gives the task. Names are unique, so cases
run side by side on one Airflow, one stand-in and one proxy.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from harness.airflow_client import WAIT_SECONDS, AirflowApiError
from harness.bigquery_service import CONNECTION
from harness.processes import WaitTimeout, wait_until

if TYPE_CHECKING:
    from harness.airflow_client import AirflowClient, Run, Task
    from harness.bigquery_service import BigQueryJob, BigQueryService
    from harness.fault_proxy import Action, FaultProxy, Rule

T = TypeVar("T")
TEMPLATE = """\
import datetime

# The Dag processor imports what begins with "airflow." once for all files, instead of seconds for each.
import airflow.providers.google.cloud.operators.bigquery
from airflow.sdk import DAG
from airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator

with DAG({dag_id!r}, schedule=None):
    BigQueryInsertJobOperator({arguments})
"""


def connect(client: AirflowClient) -> None:
    """Give Airflow the connection; where it leads is in Airflow's environment (``emulator_env``)."""
    body = {"connection_id": "google_cloud_default", **CONNECTION, "extra": json.dumps(CONNECTION["extra"])}
    try:
        client.api("POST", "connections", body)
    except AirflowApiError as error:
        if ": 409" not in str(error):
            raise


@dataclass
class BigQueryCase:
    """A Dag of one task, ``job``, that inserts one row."""

    client: AirflowClient
    bigquery: BigQueryService
    proxy: FaultProxy
    name: str
    table: str
    run: Run | None = None

    @classmethod
    def named(
        cls, name: str, client: AirflowClient, bigquery: BigQueryService, proxy: FaultProxy, dataset: str
    ) -> BigQueryCase:
        """A case with a Dag id and a table of its own; a label has 63 characters at most."""
        name = f"{name[:50]}-{secrets.token_hex(3)}".lower()
        case = cls(client, bigquery, proxy, name, f"{dataset}.{name.replace('-', '_')}")
        bigquery.create_table(case.table)
        return case

    def start(
        self, *, seconds: float = 600, configuration: Mapping[str, Any] | None = None, **operator: object
    ) -> Task:
        """Add the Dag, trigger a run, and return its task.

        :param seconds: how long a job runs if nobody ends it
        :param configuration: the job's; by default an INSERT of one row into the case's table
        :param operator: arguments of the operator; ``retries`` is 2 by default, 1 s apart
        """
        query = {"query": f"INSERT INTO {self.table} VALUES (1)", "useLegacySql": False}
        labels = {"standin-seconds": str(seconds)}
        arguments: dict[str, object] = {
            "task_id": "job",
            "configuration": {**(configuration or {"query": query}), "labels": labels},
            "retries": 2,
            "retry_delay": timedelta(seconds=1),
            "poll_interval": 1,
            **operator,
        }
        written = ", ".join(f"{name}={value!r}" for name, value in arguments.items())
        self.client.add_dag(self.name, TEMPLATE.format(dag_id=self.name, arguments=written))
        self.run = self.client.trigger(self.name)
        return self.run.task("job")

    def jobs(self) -> list[BigQueryJob]:
        """All jobs that the service ever accepted for this case."""
        return self.bigquery.jobs(self.name)

    def submitted(self, count: int = 1) -> list[BigQueryJob]:
        """Wait until ``count`` jobs were accepted; at once an error when the Dag run ends before."""

        def accepted() -> list[BigQueryJob] | None:
            jobs = self.jobs()
            return jobs if len(jobs) >= count else None

        return self.wait(accepted, f"{count} jobs")

    def rows(self) -> int:
        """How often the query took effect."""
        return self.bigquery.rows(self.table)

    def wait(self, condition: Callable[[], T | None], what: str, timeout: float = WAIT_SECONDS) -> T:
        """Wait for a condition; at once an error, with the task's log, when the Dag run ends before."""
        run = self.run
        assert run is not None

        def check() -> T | None:
            ended = run.state() in ("success", "failed")
            value = condition()
            if not value and ended:
                raise WaitTimeout(f"the run ended before: {what}\njobs {self.jobs()}\n{run.describe()}")
            return value

        return wait_until(check, lambda: f"{what}\njobs {self.jobs()}\n{run.describe()}", timeout, 0.3)

    def fault(self, action: Action, method: str, path: str = "/jobs", **options: Any) -> Rule:
        """A rule of the proxy for requests whose path or body has a job of this case.

        :param method: ``POST`` for jobs.insert, ``GET`` for jobs.get
        :param path: the end of the path; for jobs.get the id's beginning is part of it
        """
        if method == "GET":
            return self.proxy.rule(action, method="GET", path=f"/jobs/[^/]*{self.id_part}", **options)
        return self.proxy.rule(action, method=method, path=rf"{path}(\?|$)", body=self.name, **options)

    @property
    def id_part(self) -> str:
        """What the ids of this case's jobs contain."""
        return self.name.replace("-", "_")
