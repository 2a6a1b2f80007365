"""A real Spark standalone cluster as processes on loopback: a master or two, a worker, ZooKeeper if need be.

All of it is PyPI's pyspark. Start it with ``SparkService.start(folder)``; another process takes hold of the
same one with ``SparkService.attach(folder)``. Each application is a jar whose main class has a name of its
own, so its drivers are counted in the masters' books; what the worker really ran is in the drivers' records.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from harness import guard
from harness.http_client import HttpClient
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port, wait_until
from harness.spark_install import SparkInstallation, properties_text

ACTIVE = frozenset({"SUBMITTED", "RUNNING", "RELAUNCHING", "UNKNOWN"})
STATE_FILE = "spark-service.json"
#: A server that starts refuses connections, and then answers what is not there yet with a page for people.
NOT_YET = (httpx.TransportError, ValueError)
#: The class as it is compiled, once. Each application's jar has a name of the same length in its place, in
#: the bytes of the class: a master tells drivers apart by their main class.
COMPILED_CLASS = "JobXXXXXX"
#: On Linux all of 127/8 is this machine: a second host, on which the same ports are free.
SECOND_LOOPBACK = "127.0.0.2"
Recovery = Literal["NONE", "FILESYSTEM", "ZOOKEEPER"]


@dataclass(frozen=True)
class Driver:
    """One driver as a master has it."""

    id: str
    state: str
    main_class: str

    @property
    def active(self) -> bool:
        """Whether it has yet to end."""
        return self.state in ACTIVE


@dataclass(frozen=True)
class DriverProcess:
    """One driver as the worker ran it, whatever a master knows of it."""

    id: str
    pid: int
    alive: bool


@dataclass(frozen=True)
class Application:
    """A jar to submit, and the book that its drivers keep (java/JobXXXXXX.java)."""

    jar: str
    main_class: str
    records: Path

    def processes(self) -> list[DriverProcess]:
        """Every driver that the worker ever started, in order."""
        found = []
        for path in sorted(self.records.glob("*.pid")):
            pid = int(path.read_text())
            # A later process may have the pid: a driver of ours has its class in its command line.
            alive = guard.start_time(pid) is not None and self.main_class in _command_line(pid)
            found.append(DriverProcess(path.stem, pid, alive))
        return found

    def finish(self, driver_id: str, exit_code: int = 0) -> None:
        """End a driver with this exit code."""
        self.records.mkdir(parents=True, exist_ok=True)
        draft = self.records / f"{driver_id}.draft"
        draft.write_text(str(exit_code))
        draft.rename(self.records / f"{driver_id}.exit")


@dataclass(frozen=True)
class Master:
    """Where one master listens; masters of one cluster differ in their hosts alone."""

    name: str
    host: str
    port: int
    rest_port: int
    ui_port: int


@dataclass
class SparkService:
    """One cluster."""

    folder: Path
    installation: SparkInstallation
    recovery: Recovery
    masters: list[Master]
    zookeeper_port: int = 0
    processes: dict[str, ServiceProcess] = field(default_factory=dict)
    http: HttpClient = field(default_factory=HttpClient, repr=False)

    @classmethod
    def start(cls, folder: Path, *, recovery: Recovery = "NONE", timeout: float = 120.0) -> SparkService:
        """Start a master and a worker and wait until the master has the worker.

        :param folder: holds logs, pid files, jars, records, the worker's folders
        :param recovery: what a restarted master knows: nothing, or what it wrote into files; with ZOOKEEPER
            there are two masters, of which one is alive and the other takes over
        """
        folder = folder.resolve()
        installation = SparkInstallation.make(folder)
        hosts = {"master": LOOPBACK, "master-2": SECOND_LOOPBACK}
        if recovery != "ZOOKEEPER":
            del hosts["master-2"]
        ports = [free_port() for _ in range(3)]
        masters = [Master(name, host, *ports) for name, host in hosts.items()]
        service = cls(folder, installation, recovery, masters, free_port() if len(hosts) > 1 else 0)
        installation.compile(f"{COMPILED_CLASS}.java")
        if service.zookeeper_port:
            service._start_zookeeper()
        for master in masters:
            service.start_master(master.name, wait=False)
        for master in masters:
            service._wait_answers(master, timeout)
        service.start_worker(timeout)
        return service

    @classmethod
    def attach(cls, folder: Path) -> SparkService:
        """Take hold of a running cluster by its folder."""
        folder = folder.resolve()
        state = json.loads((folder / STATE_FILE).read_text())
        processes = {name: ServiceProcess.from_dict(data) for name, data in state["processes"].items()}
        masters = [Master(**master) for master in state["masters"]]
        installation = SparkInstallation.make(folder)
        return cls(folder, installation, state["recovery"], masters, state["zookeeper_port"], processes)

    def stop(self) -> None:
        """End everything, drivers too."""
        for process in self.processes.values():
            if process.alive():
                os.kill(process.guard_pid, signal.SIGTERM)
        for name in list(self.processes):
            self.processes.pop(name).stop()

    # -- its processes ---------------------------------------------------------------------------

    def start_master(self, name: str = "master", *, wait: bool = True, timeout: float = 60.0) -> None:
        """Start a master; ``wait`` until it answers, whatever state it is in."""
        master = self.master(name)
        settings: dict[str, object] = {
            "spark.master.rest.enabled": "true",
            "spark.master.rest.host": master.host,
            "spark.master.rest.port": master.rest_port,
            # Seconds without a heartbeat after which a worker is dead, and its drivers with it.
            "spark.worker.timeout": 20,
            "spark.deploy.recoveryMode": self.recovery,
            "spark.deploy.recoveryDirectory": self.folder / "recovery",
            "spark.deploy.zookeeper.url": f"{LOOPBACK}:{self.zookeeper_port}",
            "spark.deploy.zookeeper.dir": "/spark",
        }
        (self.folder / "recovery").mkdir(exist_ok=True)
        file = self.folder / f"{name}.properties"
        file.write_text(properties_text(settings))
        where = ["--host", master.host, "--port", str(master.port), "--webui-port", str(master.ui_port)]
        command = self.installation.command(
            "org.apache.spark.deploy.master.Master", *where, "--properties-file", str(file)
        )
        self._run(name, command, SPARK_LOCAL_IP=master.host)
        if wait:
            self._wait_answers(master, timeout)

    def stop_master(self, name: str = "master", *, kill: bool = True) -> None:
        """End a master, with -9 by default, as a node that fails."""
        process = self.processes.pop(name)
        process.kill() if kill else process.stop()
        self._save()

    def restart_master(self, name: str = "master") -> None:
        """``kill -9`` and start again on the same ports; what it then knows depends on ``recovery``.

        A worker that comes back by itself while the master recovers is told to kill the drivers that this has
        yet to hear of: Spark's own race, which made tests fail. So its first attempt is waited for here, and
        the second comes half a minute later (``start_worker``).
        """
        attempts = self._worker_attempts()
        self.stop_master(name)
        if self.recovery != "NONE":
            wait_until(lambda: self._worker_attempts() > attempts, "the worker has tried to come back", 60)
        self.start_master(name)

    def _worker_attempts(self) -> int:
        return self.processes["worker"].log_text().count("Retrying connection to master")

    def start_worker(self, timeout: float = 120.0) -> None:
        """Start the worker and wait until the master that is alive has it."""
        file = self.folder / "worker.properties"
        file.write_text(
            properties_text({"spark.worker.timeout": 20, "spark.worker.cleanup.enabled": "false"})
        )
        # Far more than there is: how many drivers fit is the test's business.
        size = ["--cores", "64", "--memory", "64g", "--work-dir", str(self.folder / "work")]
        where = ["--host", LOOPBACK, "--webui-port", "0", "--properties-file", str(file)]
        command = self.installation.command(
            "org.apache.spark.deploy.worker.Worker", *where, *size, self.master_url()
        )
        process = self._run("worker", command)
        process.wait_ready(lambda: self.workers_alive() == 1, timeout)

    def stop_worker(self, *, kill: bool = True) -> None:
        """End the worker, with -9 by default; its drivers go with it."""
        process = self.processes.pop("worker")
        process.kill() if kill else process.stop()
        self._save()

    def _start_zookeeper(self) -> None:
        data = self.folder / "zookeeper"
        data.mkdir(exist_ok=True)
        # A master that is gone is noticed after 20 ticks of so many milliseconds: after the worker's first
        # attempt to find it, and before the second (see restart_master).
        command = self.installation.java(
            "org.apache.zookeeper.server.ZooKeeperServerMain", str(self.zookeeper_port), str(data), "1000"
        )
        command.insert(1, "-Dzookeeper.admin.enableServer=false")
        command.insert(1, f"-Dzookeeper.clientPortAddress={LOOPBACK}")
        process = self._run("zookeeper", command)
        process.wait_ready(lambda: accepts(self.zookeeper_port), 60)

    def _run(self, name: str, command: list[str], **settings: str) -> ServiceProcess:
        env = {**self.installation.env(), **settings}
        process = ServiceProcess.start(name, command, folder=self.folder, env=env, grace=2)
        self.processes[name] = process
        self._save()
        return process

    def _wait_answers(self, master: Master, timeout: float) -> None:
        """Wait until its REST server is up, which starts after its page."""
        self.processes[master.name].wait_ready(lambda: self._answers(master), timeout)

    def _answers(self, master: Master) -> bool:
        with contextlib.suppress(*NOT_YET):
            return self._page(master) is not None and self.status("driver-0", master.name) is not None
        return False

    def _save(self) -> None:
        state = {
            "recovery": self.recovery,
            "masters": [vars(master) for master in self.masters],
            "zookeeper_port": self.zookeeper_port,
            "processes": {name: process.to_dict() for name, process in self.processes.items()},
        }
        draft = self.folder / f"{STATE_FILE}.tmp"
        draft.write_text(json.dumps(state))
        draft.rename(self.folder / STATE_FILE)

    # -- what it knows ---------------------------------------------------------------------------

    def master(self, name: str = "master") -> Master:
        """One master by its name: ``master``, ``master-2``."""
        return next(master for master in self.masters if master.name == name)

    def master_url(self) -> str:
        """For spark-submit: ``spark://host:port``, all masters of it."""
        return "spark://" + ",".join(f"{master.host}:{master.port}" for master in self.masters)

    def rest_master_url(self) -> str:
        """For spark-submit through the REST gateway, with ``spark.master.rest.enabled=true``."""
        return "spark://" + ",".join(f"{master.host}:{master.rest_port}" for master in self.masters)

    def rest_url(self, name: str = "master") -> str:
        """Of a master's REST server."""
        master = self.master(name)
        return f"http://{master.host}:{master.rest_port}"

    def status(self, driver_id: str, name: str = "master") -> dict[str, Any]:
        """What the REST server answers about a driver."""
        return self._json(f"{self.rest_url(name)}/v1/submissions/status/{driver_id}")

    def state(self, name: str = "master") -> str:
        """``ALIVE``, ``STANDBY``, ``RECOVERING``, ``COMPLETING_RECOVERY``; ``GONE`` when nobody answers."""
        page = self._page(self.master(name))
        return str(page["status"]) if page else "GONE"

    def leader(self) -> str | None:
        """The name of the master that is alive, if one is."""
        return next((master.name for master in self.masters if self.state(master.name) == "ALIVE"), None)

    def workers_alive(self) -> int:
        """How many workers the master that is alive has."""
        return sum(worker["state"] == "ALIVE" for page in self._alive() for worker in page["workers"])

    def drivers(self, application: Application | None = None) -> list[Driver]:
        """All drivers in the book of the master that is alive, in order; of one application or of all."""
        found = [
            Driver(one["id"], one["state"], one["mainclass"])
            for page in self._alive()
            for one in [*page["activedrivers"], *page["completeddrivers"]]
        ]
        own = [one for one in found if application is None or one.main_class == application.main_class]
        return sorted(own, key=lambda one: one.id)

    def wait_running(self, application: Application, count: int = 1, timeout: float = 120.0) -> list[Driver]:
        """Wait until ``count`` drivers run, for the master and on the worker."""

        def running() -> list[Driver] | None:
            alive = {process.id for process in application.processes() if process.alive}
            found = [one for one in self.drivers(application) if one.state == "RUNNING" and one.id in alive]
            return found if len(found) >= count else None

        return wait_until(running, lambda: f"{count} running: {self.drivers(application)}", timeout)

    def _alive(self) -> list[dict[str, Any]]:
        pages = [self._page(master) for master in self.masters]
        return [page for page in pages if page and page["status"] == "ALIVE"]

    def _page(self, master: Master) -> dict[str, Any] | None:
        with contextlib.suppress(*NOT_YET):
            return self._json(f"http://{master.host}:{master.ui_port}/json/")
        return None

    def _json(self, url: str) -> dict[str, Any]:
        answer: dict[str, Any] = self.http.get(url).json()
        return answer

    # -- what it runs ----------------------------------------------------------------------------

    def application(self, name: str) -> Application:
        """The application of this name: the compiled class, renamed, in a jar of its own."""
        main_class = "Job" + hashlib.sha256(name.encode()).hexdigest()[: len(COMPILED_CLASS) - 3]
        jar = self.folder / "jars" / f"{main_class}.jar"
        application = Application(str(jar), main_class, self.folder / "records" / main_class)
        if not jar.exists():
            jar.parent.mkdir(exist_ok=True)
            self._write_jar(application, jar)
        return application

    def _write_jar(self, application: Application, jar: Path) -> None:
        compiled = self.installation.compile(f"{COMPILED_CLASS}.java") / f"{COMPILED_CLASS}.class"
        name = application.main_class
        draft = jar.with_name(f"{jar.name}.{os.getpid()}")
        with zipfile.ZipFile(draft, "w") as archive:
            archive.writestr("META-INF/MANIFEST.MF", f"Manifest-Version: 1.0\nMain-Class: {name}\n")
            # The name has the same length, so it can stand in the class file in the placeholder's place.
            archive.writestr(
                f"{name}.class", compiled.read_bytes().replace(COMPILED_CLASS.encode(), name.encode())
            )
            archive.writestr("records-folder", str(application.records))
        draft.rename(jar)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return ""
