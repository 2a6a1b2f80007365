"""One Dag with one BigQueryInsertJobOperator, its run, its jobs and the table that it writes.

``BigQueryCase.start(...)`` writes the Dag file, triggers it and gives the task. Names are unique, so cases
run side by side on one Airflow, one stand-in and one proxy.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from harness.airflow_client import AirflowApiError
from harness.bigquery_service import CONNECTION
from harness.case import TASK_ID, ServiceCase, unique, written

if TYPE_CHECKING:
    from harness.airflow_client import AirflowClient, Run, Task
    from harness.bigquery_service import BigQueryJob, BigQueryService
    from harness.fault_proxy import Action, FaultProxy, Rule

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
class BigQueryCase(ServiceCase["BigQueryJob"]):
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
        name = unique(name, 50).lower()
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
            "task_id": TASK_ID,
            "configuration": {**(configuration or {"query": query}), "labels": labels},
            "retries": 2,
            "retry_delay": timedelta(seconds=1),
            "poll_interval": 1,
            **operator,
        }
        return self._start_dag(TEMPLATE.format(dag_id=self.name, arguments=written(arguments)))

    def jobs(self) -> list[BigQueryJob]:
        """All jobs that the service ever accepted for this case."""
        return self.bigquery.jobs(self.name)

    started = jobs

    def rows(self) -> int:
        """How often the query took effect."""
        return self.bigquery.rows(self.table)

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
