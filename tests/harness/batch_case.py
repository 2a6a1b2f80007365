"""One Dag with one BatchOperator, its run and its jobs: what an end-to-end test, or the demo, starts with.

``BatchCase.start(...)`` writes the Dag file, triggers it and gives the task. Names are unique, so cases run
side by side on one Airflow, one stand-in and one proxy.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from harness.batch_service import DEFINITION, QUEUE
from harness.case import TASK_ID, Code, ServiceCase, unique, written

if TYPE_CHECKING:
    from harness.airflow_client import AirflowClient, Run, Task
    from harness.batch_service import BatchJob, BatchService
    from harness.fault_proxy import Action, FaultProxy, Rule

__all__ = ["BatchCase", "Code"]

OPERATOR = "airflow_provider_durable.operators.batch"
TEMPLATE = """\
import datetime

from airflow.sdk import DAG
from {module} import BatchOperator

{code}
with DAG({dag_id!r}, schedule=None, default_args={default_args!r}):
    BatchOperator{call}
"""


@dataclass
class BatchCase(ServiceCase["BatchJob"]):
    """A Dag of one BatchOperator, ``job``, on a running Airflow."""

    client: AirflowClient
    batch: BatchService
    proxy: FaultProxy
    name: str
    run: Run | None = None

    @classmethod
    def named(cls, name: str, client: AirflowClient, batch: BatchService, proxy: FaultProxy) -> BatchCase:
        """A case with a Dag id and job name of its own, ``name`` and some letters."""
        return cls(client, batch, proxy, unique(name))

    def start(
        self,
        *,
        seconds: float = 600,
        parameters: Mapping[str, object] | None = None,
        default_args: Mapping[str, object] | None = None,
        expand: Mapping[str, object] | None = None,
        code: str = "",
        module: str = OPERATOR,
        **operator: object,
    ) -> Task:
        """Add the Dag, trigger a run, and return its task.

        :param seconds: how long a job runs if nobody ends it
        :param parameters: more job parameters, for the job's outcome (see batch_standin.py)
        :param expand: mapped arguments; the task is then ``.partial(...).expand(...)``
        :param code: Python in front of the Dag, for functions that a ``Code`` argument names
        :param module: where BatchOperator is imported from
        :param operator: arguments of BatchOperator; ``retries`` is 2 by default, 1 s apart
        """
        job_parameters = {"standin_seconds": seconds, **(parameters or {})}
        arguments: dict[str, object] = {
            "task_id": TASK_ID,
            "job_name": self.name,
            "job_queue": QUEUE,
            "job_definition": DEFINITION,
            "parameters": {key: str(value) for key, value in job_parameters.items()},
            "retries": 2,
            "retry_delay": timedelta(seconds=1),
            "poll_interval": 1,
            **operator,
        }
        arguments = {name: value for name, value in arguments.items() if name not in (expand or {})}
        call = f"({written(arguments)})"
        if expand is not None:
            call = f".partial{call}.expand({written(expand)})"
        source = TEMPLATE.format(
            module=module,
            code=textwrap.dedent(code),
            dag_id=self.name,
            default_args=dict(default_args or {}),
            call=call,
        )
        return self._start_dag(source)

    def jobs(self) -> list[BatchJob]:
        """All jobs that the service ever accepted for this case."""
        return self.batch.jobs(self.name)

    started = jobs

    def running(self, count: int = 1) -> list[BatchJob]:
        """Wait until ``count`` jobs are RUNNING; at once an error when the Dag run ends before."""

        def running() -> list[BatchJob] | None:
            jobs = [job for job in self.jobs() if job.status == "RUNNING"]
            return jobs if len(jobs) >= count else None

        return self.wait(running, f"{count} running jobs")

    def fault(self, action: Action, operation: str, body: str = "", **options: Any) -> Rule:
        """A rule of the proxy for one operation (``submitjob``); by default for requests with our name."""
        return self.proxy.rule(action, path=f"/v1/{operation}$", body=body or self.name, **options)
