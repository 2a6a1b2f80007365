"""A Kubernetes API server as a process on loopback, for tests: see every pod, decide how pods end.

The process is kubernetes_standin.py, which needs nothing but Python. The real ``spark-submit`` creates its
driver pods there (``spark_master``), and Kubernetes' Python client reads them through ``kubeconfig``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.http_client import HttpClient
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port, wait_until

NAMESPACE = "spark"
APP_LABEL = "spark-app-name"


@dataclass(frozen=True)
class Pod:
    """One pod as the server had it last.

    ``cancelled`` says that somebody deleted it before it had ended; ``gone``, that it is not there any more.
    """

    namespace: str
    name: str
    labels: dict[str, str]
    phase: str
    gone: bool
    deleted: bool
    cancelled: bool
    body: dict[str, Any] = field(repr=False)

    @property
    def id(self) -> str:
        """As Apache's operator stores it."""
        return f"{self.namespace}:{self.name}"

    @property
    def active(self) -> bool:
        """Whether it is there and has yet to end."""
        return not self.gone and self.phase not in ("Succeeded", "Failed")


@dataclass
class KubernetesService:
    """A client of the stand-in's control side, and the process itself where ``start`` made it."""

    url: str
    process: ServiceProcess | None = None
    http: HttpClient = field(default_factory=HttpClient, repr=False)

    @classmethod
    def start(cls, folder: Path) -> KubernetesService:
        """Start the service.

        :param folder: holds the process's log and pid file
        """
        port = free_port()
        script = str(Path(__file__).with_name("kubernetes_standin.py"))
        command = [sys.executable, "-S", script, "--port", str(port)]
        process = ServiceProcess.start(
            "kubernetes", command, folder=folder, ready=lambda: accepts(port), grace=1
        )
        return cls(f"http://{LOOPBACK}:{port}", process)

    def stop(self) -> None:
        """End the process, if this object started it."""
        if self.process is not None:
            self.process.stop()

    def pods(self, app_name: str = "") -> list[Pod]:
        """Every pod ever created, in order, by the beginning of its Spark application's name."""
        answer = self.http.get(f"{self.url}/standin/pods")
        answer.raise_for_status()
        pods = [Pod(**pod) for pod in answer.json()]
        return [pod for pod in pods if pod.labels.get(APP_LABEL, "").startswith(app_name)]

    def pod(self, pod_id: str) -> Pod:
        """One pod, by its ``namespace:name``."""
        return next(pod for pod in self.pods() if pod.id == pod_id)

    def finish(self, pod_id: str, exit_code: int = 0, reason: str | None = None) -> None:
        """End a pod's container; the pod stays, as Succeeded or Failed."""
        self._act(pod_id, "finish", exit_code=exit_code, reason=reason)

    def garbage_collect(self, pod_id: str) -> None:
        """Remove a pod, as the cluster does to pods that have ended, or whose node has."""
        self._act(pod_id, "collect")

    def set_phase(self, pod_id: str, phase: Literal["Pending", "Running", "Unknown"]) -> None:
        """Have a pod tell of another phase: ``Unknown`` when its node does not report."""
        self._act(pod_id, "phase", phase=phase)

    def _act(self, pod_id: str, action: str, **body: Any) -> None:
        namespace, _, name = pod_id.partition(":")
        answer = self.http.post(f"{self.url}/standin/pods/{namespace}/{name}/{action}", json=body)
        answer.raise_for_status()

    def wait_running(self, app_name: str, count: int = 1, timeout: float = 120.0) -> list[Pod]:
        """Wait until ``count`` pods of this application run."""

        def running() -> list[Pod] | None:
            found = [pod for pod in self.pods(app_name) if pod.active and pod.phase == "Running"]
            return found if len(found) >= count else None

        return wait_until(running, lambda: f"{count} running: {self.pods(app_name)}", timeout)


def kubeconfig(path: Path, url: str) -> Path:
    """Write a kubeconfig (JSON, which is YAML, too) that leads to a stand-in, or to the proxy before it."""
    named = {"name": "standin"}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "standin",
        "clusters": [{**named, "cluster": {"server": url}}],
        "users": [{**named, "user": {}}],
        "contexts": [{**named, "context": {"cluster": "standin", "user": "standin", "namespace": NAMESPACE}}],
    }
    path.write_text(json.dumps(config))
    return path


def spark_master(url: str) -> str:
    """The master URL for spark-submit."""
    return f"k8s://{url}"
