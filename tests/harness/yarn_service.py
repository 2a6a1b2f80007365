"""A YARN ResourceManager as processes on loopback, for tests: see every application, decide how they end.

Two processes: yarn_standin.py has the books and answers the REST API; ``YarnFront`` takes Hadoop's RPC from
the real ``spark-submit`` and sends it on as REST requests, through a fault proxy if need be.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from harness.http_client import HttpClient
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port, wait_until

if TYPE_CHECKING:
    from harness.spark_install import SparkInstallation

SITE = """\
<configuration>
  <property><name>yarn.resourcemanager.address</name><value>{address}</value></property>
  <property><name>yarn.resourcemanager.connect.max-wait.ms</name><value>10000</value></property>
  <property><name>yarn.client.application-client-protocol.poll-interval-ms</name><value>100</value></property>
</configuration>
"""


@dataclass(frozen=True)
class App:
    """One application as the ResourceManager has it; times are seconds since the epoch."""

    id: str
    name: str
    user: str
    queue: str
    type: str
    tags: list[str]
    command: str
    state: str
    final_status: str
    diagnostics: str
    submitted_at: float
    finished_at: float
    kill_asked_at: float
    forgotten: bool

    @property
    def active(self) -> bool:
        """Whether it has yet to end."""
        return not self.finished_at

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked to kill it while it was active."""
        return bool(self.kill_asked_at)


@dataclass
class YarnService:
    """A client of the stand-in's control side, and the process itself where ``start`` made it."""

    url: str
    process: ServiceProcess | None = None
    http: HttpClient = field(default_factory=HttpClient, repr=False)

    @classmethod
    def start(cls, folder: Path, *, standby_of: str = "") -> YarnService:
        """Start the ResourceManager's REST side.

        :param folder: holds the process's log and pid file
        :param standby_of: the URL of the active ResourceManager, for one that stands by
        """
        port = free_port()
        script = str(Path(__file__).with_name("yarn_standin.py"))
        command = [sys.executable, "-S", script, "--port", str(port), "--standby-of", standby_of]
        name = "yarn-standby" if standby_of else "yarn"
        process = ServiceProcess.start(name, command, folder=folder, ready=lambda: accepts(port), grace=1)
        return cls(f"http://{LOOPBACK}:{port}", process)

    def stop(self) -> None:
        """End the process, if this object started it."""
        if self.process is not None:
            self.process.stop()

    def apps(self, name: str = "") -> list[App]:
        """Every application ever submitted, in order, whose name starts with ``name``."""
        answer = self.http.get(f"{self.url}/standin/apps")
        answer.raise_for_status()
        return [App(**app) for app in answer.json() if app["name"].startswith(name)]

    def app(self, app_id: str) -> App:
        """One application."""
        return next(app for app in self.apps() if app.id == app_id)

    def finish(
        self,
        app_id: str,
        final_status: Literal["SUCCEEDED", "FAILED", "KILLED"] = "SUCCEEDED",
        diagnostics: str = "",
        state: Literal["FINISHED", "FAILED", "KILLED"] = "FINISHED",
    ) -> None:
        """End an application; FINISHED says that its master told of the end, as Spark's does."""
        body = {"state": state, "final_status": final_status, "diagnostics": diagnostics}
        self.http.post(f"{self.url}/standin/apps/{app_id}/finish", json=body).raise_for_status()

    def forget(self, app_id: str) -> None:
        """Have the ResourceManager drop it from its books, as it does after some thousand others."""
        self.http.post(f"{self.url}/standin/apps/{app_id}/forget", json={}).raise_for_status()

    def wait_running(self, name: str, count: int = 1, timeout: float = 120.0) -> list[App]:
        """Wait until ``count`` applications of this name run."""

        def running() -> list[App] | None:
            found = [app for app in self.apps(name) if app.state == "RUNNING"]
            return found if len(found) >= count else None

        return wait_until(running, lambda: f"{count} running: {self.apps(name)}", timeout)


@dataclass
class YarnFront:
    """Where the real spark-submit submits to."""

    installation: SparkInstallation
    configuration: Path
    process: ServiceProcess | None = None

    @classmethod
    def start(cls, folder: Path, url: str, installation: SparkInstallation) -> YarnFront:
        """Start Hadoop's RPC in front of the REST API at ``url``.

        :param folder: holds log, pid file, and the configuration for spark-submit
        """
        port = free_port()
        classes = str(installation.compile("ResourceManagerFront.java"))
        command = installation.java("ResourceManagerFront", str(port), url, extra_class_path=classes)
        process = ServiceProcess.start(
            "yarn-front", command, folder=folder, ready=lambda: accepts(port), grace=1
        )
        configuration = folder.resolve() / "yarn-conf"
        configuration.mkdir(exist_ok=True)
        (configuration / "yarn-site.xml").write_text(SITE.format(address=f"{LOOPBACK}:{port}"))
        # Spark's own jars stay where they are: uploading them takes longer than everything else.
        jars = {
            "spark.yarn.jars": "local:/not/uploaded/*",
            "spark.yarn.stagingDir": folder.resolve() / "staging",
        }
        installation.configure(jars)
        return cls(installation, configuration, process)

    def env(self) -> dict[str, str]:
        """What Airflow's processes need for ``--master yarn``, besides ``path_env()``."""
        return {"YARN_CONF_DIR": str(self.configuration)}

    def stop(self) -> None:
        """End the process, if this object started it."""
        if self.process is not None:
            self.process.stop()
