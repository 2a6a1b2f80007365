"""Spark on a standalone master, on YARN and on Kubernetes; ``spark-submit`` is run without a JVM."""

from __future__ import annotations

import json
import os
import re
import secrets
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.http_client import HttpClient
from harness.kubernetes_service import APP_LABEL, NAMESPACE, KubernetesService, kubeconfig
from harness.yarn_service import YarnService
from matrix import spark_child
from matrix.service import Job, Service
from matrix.stage import Stage

if TYPE_CHECKING:
    from matrix.kinds import Side, Way
    from matrix.wire import Wire

#: So long an application runs if nobody ends it: the stand-ins read it from its name and from annotations.
FOR_EVER = "1000000000"


class Spark(Service):
    """One cluster, and ``SparkSubmitOperator`` on it."""

    key = "spark_job_id"
    #: ``spark-submit`` then waits beside the job.
    can_be_not_durable = False
    #: What Apache's operator needs so that a retry can find its job.
    upstream: dict[str, Any] = {}  # noqa: RUF012

    def start(self) -> None:
        """Start the cluster, and put a ``spark-submit`` on the PATH for those who look."""
        self._http = HttpClient()
        folder = self.folder / "bin"
        folder.mkdir()
        (folder / "spark-submit").write_text("#!/bin/sh\nexit 99\n")
        (folder / "spark-submit").chmod(0o755)
        os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"
        connection = {"conn_type": "spark", **self._start_cluster()}
        connection["extra"] = {"deploy-mode": "cluster", **connection.get("extra", {})}
        os.environ["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(connection)

    def attach(self, wire: Wire) -> None:
        """Run the operators' children here."""
        spark_child.install(wire, self._operation_of_child, self._act_for_child)

    def _operation_of_child(self, command: list[str]) -> str:
        if Path(command[0]).name == "curl":
            return "curl " + command[-1].rpartition("/v1/submissions/")[2].partition("/")[0]
        return "spark-submit"

    def _act_for_child(self, command: list[str]) -> str:
        if Path(command[0]).name == "curl":
            url = command[-1]
            method = "POST" if "-X" in command else "GET"
            answer = self._http.request(method, url).text
            for job_id in self.looked_at(method, urlsplit(url).path, None):
                self.look(job_id)
            return answer
        return self._submit(spark_child.Properties(command))

    @abstractmethod
    def _start_cluster(self) -> dict[str, Any]:
        """Start the cluster, and return the Airflow connection to it."""

    @abstractmethod
    def _submit(self, properties: spark_child.Properties) -> str:
        """Start a driver, and return what ``spark-submit`` prints."""

    def reset(self, name: str) -> None:
        """Look at the applications of this name only."""
        super().reset(name)
        self._name = name

    def serves(self, host: str, port: int | None) -> bool:
        """Whether it is the cluster's address."""
        return port == self._port

    def error(self, status: int) -> tuple[bytes, dict[str, str]]:
        """An error of a proxy in front of the cluster."""
        return b"Service Unavailable", {"Content-Type": "text/plain"}

    def operator(self, side: Side, way: Way) -> Callable[..., Any] | None:
        """``SparkSubmitOperator``."""
        if side == "ours":
            from airflow_provider_durable.operators.spark import SparkSubmitOperator
        else:
            from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
        what: dict[str, Any] = {"application": "/jobs/load.py", "name": "{{ run_id }}"}
        waits: dict[Way, dict[str, Any]] = {
            "poke": {},
            "defer": {"deferrable": True},
            "reschedule": {"mode": "reschedule"},
        }
        own = self.upstream if side == "upstream" else waits[way]
        return lambda **task: SparkSubmitOperator(**what, **own, **task)


class Yarn(Spark):
    """A ResourceManager."""

    upstream = {"yarn_track_via_rm_api": True}  # noqa: RUF012

    def _start_cluster(self) -> dict[str, Any]:
        self.yarn = YarnService.start(self.folder / "yarn")
        self._port = urlsplit(self.yarn.url).port
        return {"host": "yarn", "extra": {"yarn_resourcemanager_webapp_address": self.yarn.url}}

    def stop(self) -> None:
        """End it."""
        self.yarn.stop()

    def _submit(self, properties: spark_child.Properties) -> str:
        apps = f"{self.yarn.url}/ws/v1/cluster/apps"
        app_id = self._http.post(f"{apps}/new-application").raise_for_status().json()["application-id"]
        tags = [tag for tag in properties.get("spark.yarn.tags", "").split(",") if tag]
        body = {
            "application-id": app_id,
            "application-name": f"{properties.name} seconds={FOR_EVER}",
            "application-type": "SPARK",
            "application-tags": {"tag": tags},
        }
        self._http.post(apps, json=body).raise_for_status()
        return f"INFO Client: Submitted application {app_id}\n"

    def jobs(self) -> list[Job]:
        """The applications of the cell."""
        return [
            Job(
                app.id, running=app.active, succeeded=app.final_status == "SUCCEEDED", cancelled=app.cancelled
            )
            for app in self.yarn.apps(self._name)
        ]

    def end(self, job_id: Any, *, success: bool) -> None:
        """End an application."""
        if self.yarn.app(job_id).active:
            self.yarn.finish(job_id, "SUCCEEDED" if success else "FAILED")

    def operation(self, method: str, url: str, body: Any) -> str:
        """The request, without ids."""
        return f"{method} " + re.sub(
            r"application_\w+", "{app}", urlsplit(url).path.rpartition("/cluster/")[2]
        )

    def looked_at(self, method: str, url: str, body: Any) -> list[Any]:
        """The application, or all that are listed with the tag of this package."""
        if method != "GET":
            return []
        if found := re.findall(r"application_\w+", urlsplit(url).path):
            return list(found)
        return [job.id for job in self.jobs() if job.running] if "states=" in url else []


class Kubernetes(Spark):
    """A Kubernetes API server."""

    upstream = {"track_driver_via_k8s_api": True}  # noqa: RUF012

    def _start_cluster(self) -> dict[str, Any]:
        self.kubernetes = KubernetesService.start(self.folder / "kubernetes")
        self._port = urlsplit(self.kubernetes.url).port
        config = kubeconfig(self.folder / "kubeconfig", self.kubernetes.url)
        os.environ["AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE"] = str(config)
        os.environ["AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER"] = "False"
        return {"host": f"k8s://{self.kubernetes.url}", "extra": {"namespace": NAMESPACE}}

    def stop(self) -> None:
        """End it."""
        self.kubernetes.stop()

    def _submit(self, properties: spark_child.Properties) -> str:
        prefix = "spark.kubernetes.driver.label."
        labels = {name.removeprefix(prefix): value for name, value in properties.items() if prefix in name}
        name = f"{properties.name.strip('-')}-{secrets.token_hex(8)}-driver"
        metadata = {
            "name": name,
            "labels": {**labels, APP_LABEL: properties.name, "spark-role": "driver"},
            "annotations": {"standin/start-seconds": "0", "standin/seconds": FOR_EVER},
        }
        pods = f"{self.kubernetes.url}/api/v1/namespaces/{NAMESPACE}/pods"
        spec = {"containers": [{"name": "spark-kubernetes-driver", "image": "spark"}]}
        self._http.post(pods, json={"metadata": metadata, "spec": spec}).raise_for_status()
        return f"INFO LoggingPodStatusWatcherImpl: State changed, new state: pod name: {name}\n"

    def jobs(self) -> list[Job]:
        """The driver pods of the cell."""
        return [
            Job(pod.id, running=pod.active, succeeded=pod.phase == "Succeeded", cancelled=pod.cancelled)
            for pod in self.kubernetes.pods(self._name)
        ]

    def end(self, job_id: Any, *, success: bool) -> None:
        """End a pod's container."""
        if self.kubernetes.pod(job_id).active:
            self.kubernetes.finish(job_id, 0 if success else 1)

    def operation(self, method: str, url: str, body: Any) -> str:
        """The verb."""
        one = bool(re.search(r"/pods/[^/?]+", url))
        return {"GET": "get pod" if one else "list pods", "DELETE": "delete pod"}.get(method, method)

    def looked_at(self, method: str, url: str, body: Any) -> list[Any]:
        """The pod, or all that are listed by the label of this package."""
        if method != "GET":
            return []
        if found := re.search(r"/pods/([^/?]+)", url):
            return [f"{NAMESPACE}:{found[1]}"]
        by_token = re.search(r"labelSelector=[^&]*(=|%3D)", url)
        return [] if by_token else [job.id for job in self.jobs() if job.running]


class Standalone(Spark):
    """A standalone master, of which nothing is needed but the books of its REST server."""

    can_recover = False

    def _start_cluster(self) -> dict[str, Any]:
        self.stage = Stage("http://master.test")
        rest = r"http://master\.test/v1/submissions"
        self.stage.add_callback("GET", re.compile(rf"{rest}/status/(.+)"), self._status)
        self.stage.add_callback("POST", re.compile(rf"{rest}/kill/(.+)"), self._kill)
        self._port = self.stage.port
        extra = {"rest-port": self._port}
        return {"host": "spark://127.0.0.1", "port": 7077, "extra": extra}

    def stop(self) -> None:
        """End it."""
        self.stage.stop()

    def reset(self, name: str) -> None:
        """Forget all drivers."""
        super().reset(name)
        self.drivers: dict[str, str] = {}
        self.killed: set[str] = set()

    def _submit(self, properties: spark_child.Properties) -> str:
        driver_id = f"driver-20261130120000-{len(self.drivers):04}"
        self.drivers[driver_id] = "RUNNING"
        return f"INFO RestSubmissionClient: Submission successfully created as {driver_id}. Polling\n"

    def _status(self, request: Any) -> tuple[int, dict[str, str], str]:
        driver_id = request.url.rpartition("/")[2]
        state = self.drivers.get(driver_id)
        known = {"success": True, "driverState": state} if state else {"success": False}
        return 200, {}, json.dumps({"submissionId": driver_id, **known}, indent=2)

    def _kill(self, request: Any) -> tuple[int, dict[str, str], str]:
        driver_id = request.url.rpartition("/")[2]
        is_there = self.drivers.get(driver_id) == "RUNNING"
        if is_there:
            self.drivers[driver_id] = "KILLED"
            self.killed.add(driver_id)
        return 200, {}, json.dumps({"submissionId": driver_id, "success": is_there}, indent=2)

    def jobs(self) -> list[Job]:
        """All drivers."""
        return [
            Job(
                driver,
                running=state == "RUNNING",
                succeeded=state == "FINISHED",
                cancelled=driver in self.killed,
            )
            for driver, state in self.drivers.items()
        ]

    def end(self, job_id: Any, *, success: bool) -> None:
        """End a driver."""
        if self.drivers.get(job_id) == "RUNNING":
            self.drivers[job_id] = "FINISHED" if success else "FAILED"

    def operation(self, method: str, url: str, body: Any) -> str:
        """``status`` or ``kill``."""
        return urlsplit(url).path.rpartition("/v1/submissions/")[2].partition("/")[0]

    def looked_at(self, method: str, url: str, body: Any) -> list[Any]:
        """The driver."""
        return [urlsplit(url).path.rpartition("/")[2]] if "/status/" in url else []


SERVICES: dict[str, Callable[[Path], Service]] = {
    "spark-standalone": Standalone,
    "spark-yarn": Yarn,
    "spark-kubernetes": Kubernetes,
}
