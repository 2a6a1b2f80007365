"""One Dag with one SparkSubmitOperator, its run and its jobs, on any of the three cluster managers.

``case.start(...)`` writes the Dag file, triggers it and gives the task. Names are unique, so cases run side
by side on one Airflow and one cluster. ``StandaloneCase``, ``YarnCase`` and ``KubernetesCase`` differ in what
a job is and where it is counted; a test that does not care takes any of them.
"""

from __future__ import annotations

import textwrap
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from harness.case import TASK_ID, ServiceCase, unique, written
from harness.kubernetes_service import NAMESPACE

if TYPE_CHECKING:
    from typing_extensions import Self

    from harness.airflow_client import AirflowClient, Run, Task
    from harness.fault_proxy import Action, FaultProxy, Rule
    from harness.kubernetes_service import KubernetesService
    from harness.spark_service import Application, SparkService
    from harness.yarn_service import YarnService

TEMPLATE = """\
import datetime

from airflow.sdk import DAG
from airflow_provider_durable.operators.spark import SparkSubmitOperator

{code}
with DAG({dag_id!r}, schedule=None):
    SparkSubmitOperator({arguments})
"""
JOB_ID = "spark_job_id"


@dataclass(frozen=True)
class SparkJob:
    """One driver, application or pod, by the id that the operator stores."""

    id: str
    state: str
    active: bool
    cancelled: bool


@dataclass
class SparkCase(ServiceCase[SparkJob]):
    """A Dag of one SparkSubmitOperator, ``job``, on a running Airflow."""

    client: AirflowClient
    service: Any
    proxy: FaultProxy
    name: str
    connection: str
    run: Run | None = None
    #: What ``fault`` calls the last request of spark-submit.
    last_of_submission: ClassVar[str] = "submit"

    @classmethod
    def named(
        cls, name: str, client: AirflowClient, cluster: tuple[Any, FaultProxy], connection: str
    ) -> Self:
        """A case with names of its own, short enough for a label and the name of a pod.

        :param cluster: the service and the proxy in front of it
        :param connection: Airflow's to it
        """
        # Kubernetes makes one dash of two.
        return cls(client, *cluster, unique(name[:40].strip("-")).lower(), connection)

    @abstractmethod
    def jobs(self) -> list[SparkJob]:
        """All jobs that the cluster ever accepted for this case, in order."""

    @abstractmethod
    def finish(self, job_id: str, exit_code: int = 0) -> None:
        """End a job."""

    @abstractmethod
    def fault(self, action: Action, what: str, **options: Any) -> Rule:
        """A rule of the proxy for this case's ``submit``, or for ``status`` of one job (``body=``)."""

    @abstractmethod
    def arguments(self, seconds: float) -> dict[str, Any]:
        """The operator's arguments for a job that ends by itself after so many seconds."""

    def started(self) -> list[SparkJob]:
        """All jobs, for ``submitted`` and for messages."""
        return self.jobs()

    def start(
        self,
        *,
        seconds: float = 600,
        conf: Mapping[str, object] | None = None,
        arguments: list[str] | None = None,
        code: str = "",
        **operator: object,
    ) -> Task:
        """Add the Dag, trigger a run, and return its task.

        :param seconds: how long a job runs if nobody ends it
        :param conf: more Spark properties
        :param arguments: more arguments of the application
        :param code: Python in front of the Dag
        :param operator: arguments of the operator; ``retries`` is 2 by default, 1 s apart
        """
        own = self.arguments(seconds)
        all_arguments: dict[str, object] = {
            "task_id": TASK_ID,
            "name": self.name,
            "conn_id": self.connection,
            "retries": 2,
            "retry_delay": timedelta(seconds=1),
            "status_poll_interval": 1,
            **own,
            "conf": {**own.get("conf", {}), **(conf or {})},
            "application_args": [*own.get("application_args", []), *(arguments or [])],
            **operator,
        }
        return self._start_dag(
            TEMPLATE.format(code=textwrap.dedent(code), dag_id=self.name, arguments=written(all_arguments))
        )

    @contextmanager
    def start_with_fault_in_finding(self, action: Action) -> Iterator[tuple[Task, Rule]]:
        """Start a task, and disturb the request by token that follows its submission.

        Nothing but the token tells this request from another case's, and it is not known before: it is read
        while the submission is held.
        """
        with self.fault("hold_response", self.last_of_submission, times=1) as submission:
            task = self.start()
            submission.wait_held()
            token = task.store()[f"{JOB_ID}_submission"]["token"]
            rule = self.fault(action, "find", body=token, times=1)
        with rule:
            yield task, rule

    def running(self, count: int = 1) -> list[SparkJob]:
        """Wait until ``count`` jobs run; at once an error when the Dag run ends before."""

        def running() -> list[SparkJob] | None:
            found = [job for job in self.jobs() if job.state == "RUNNING"]
            return found if len(found) >= count else None

        return self.wait(running, f"{count} running jobs")

    def stored_id(self, task: Task) -> str:
        """Wait until the job's id is stored."""
        stored: str = self.wait(lambda: task.store().get(JOB_ID), "the job's id is stored")
        return stored


class StandaloneCase(SparkCase):
    """On a real standalone cluster, through its REST gateway."""

    service: SparkService

    @property
    def application(self) -> Application:
        """The jar of this case, whose drivers are counted."""
        return self.service.application(self.name)

    def arguments(self, seconds: float) -> dict[str, Any]:
        """A driver of this case's own main class."""
        return {
            "application": self.application.jar,
            "java_class": self.application.main_class,
            "application_args": [f"seconds={seconds}"],
            "driver_memory": "256m",
            # The gateway that takes a driver in 1.5 s; the legacy one sleeps for 5 s.
            "conf": {"spark.master.rest.enabled": "true"},
        }

    def jobs(self) -> list[SparkJob]:
        """All drivers: those in the master's book, and those that it has forgotten but the worker ran."""
        known = {driver.id: driver for driver in self.service.drivers(self.application)}
        processes = {process.id: process for process in self.application.processes()}
        found = []
        for driver_id in sorted({*known, *processes}):
            alive = driver_id in processes and processes[driver_id].alive
            state = known[driver_id].state if driver_id in known else "FORGOTTEN"
            # The master says RUNNING before the worker has started it.
            state = "STARTING" if state == "RUNNING" and driver_id not in processes else state
            active = alive or (driver_id in known and known[driver_id].active)
            found.append(SparkJob(driver_id, state, active, state == "KILLED"))
        return found

    def finish(self, job_id: str, exit_code: int = 0) -> None:
        """End a driver."""
        self.application.finish(job_id, exit_code)

    def fault(self, action: Action, what: str, body: str = "", **options: Any) -> Rule:
        """See SparkCase."""
        if what == "submit":
            own = self.application.main_class
            return self.proxy.rule(action, method="POST", path="/create$", body=own, **options)
        return self.proxy.rule(action, method="GET", path=f"/status/{body}", **options)


class YarnCase(SparkCase):
    """On the ResourceManager stand-in, with the real spark-submit."""

    service: YarnService

    def arguments(self, seconds: float) -> dict[str, Any]:
        """An application whose name says how long it runs."""
        return {
            "application": "local:/opt/spark/app.jar",
            "java_class": "Anything",
            "name": f"{self.name} seconds={seconds}",
        }

    def jobs(self) -> list[SparkJob]:
        """All applications."""
        return [
            SparkJob(app.id, app.state, app.active, app.cancelled) for app in self.service.apps(self.name)
        ]

    def finish(self, job_id: str, exit_code: int = 0) -> None:
        """End an application as Spark's master does: FINISHED, with a final status of its own."""
        if exit_code:
            message = f"User application exited with status {exit_code}"
            self.service.finish(job_id, "FAILED", message)
        else:
            self.service.finish(job_id)

    def fault(self, action: Action, what: str, body: str = "", **options: Any) -> Rule:
        """See SparkCase; also ``find``: the request by tag that follows a submission."""
        if what == "submit":
            return self.proxy.rule(action, method="POST", path="/apps$", body=self.name, **options)
        if what == "find":
            return self.proxy.rule(
                action, method="GET", path=f"/apps[?].*applicationTags=[^&]*{body}", **options
            )
        return self.proxy.rule(action, method="GET", path=f"/apps/{body}", **options)


class KubernetesCase(SparkCase):
    """On the API server stand-in, with the real spark-submit."""

    service: KubernetesService
    last_of_submission = "configure"

    def arguments(self, seconds: float) -> dict[str, Any]:
        """A pod whose annotation says how long it runs."""
        return {
            "application": "local:///opt/spark/app.jar",
            "java_class": "Anything",
            "conf": {
                "spark.kubernetes.container.image": "spark:standin",
                "spark.kubernetes.driver.annotation.standin/seconds": seconds,
            },
        }

    def jobs(self) -> list[SparkJob]:
        """All driver pods."""
        return [
            SparkJob(pod.id, "GONE" if pod.gone else pod.phase.upper(), pod.active, pod.cancelled)
            for pod in self.service.pods(self.name)
        ]

    def finish(self, job_id: str, exit_code: int = 0) -> None:
        """End a pod's container."""
        self.service.finish(job_id, exit_code)

    def fault(self, action: Action, what: str, body: str = "", **options: Any) -> Rule:
        """See SparkCase; also ``configure``, spark-submit's last request, and ``find``: the list by label."""
        pods = f"/namespaces/{NAMESPACE}/pods"
        if what == "configure":
            return self.proxy.rule(action, method="PATCH", path="/configmaps/", body=self.name, **options)
        if what == "submit":
            return self.proxy.rule(action, method="POST", path=f"{pods}$", body=self.name, **options)
        if what == "find":
            return self.proxy.rule(
                action, method="GET", path=f"{pods}[?].*labelSelector=[^&]*{body}", **options
            )
        return self.proxy.rule(action, method="GET", path=f"{pods}/{body.partition(':')[2]}", **options)
