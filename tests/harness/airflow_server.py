"""Real Airflow 3.3 on loopback, SQLite and LocalExecutor, each component a process that can be stopped.

``AirflowServer.start(home)`` makes one; ``AirflowServer.attach(home)`` takes hold of one that another
process started. What to do with it (Dags, runs, tasks) is in airflow_client.py, as ``server.client``.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from base64 import urlsafe_b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Literal

import httpx
from filelock import FileLock

from harness.airflow_client import AirflowClient
from harness.processes import LOOPBACK, ServiceFailed, ServiceProcess, free_port, quick_python

REPOSITORY = Path(__file__).parents[2]
Component = Literal["api-server", "scheduler", "dag-processor", "triggerer"]
ALL: tuple[Component, ...] = ("api-server", "scheduler", "dag-processor", "triggerer")
STATE_FILE = "harness-state.json"

#: Settings of ``AIRFLOW__SECTION__KEY`` that make a test wait for little. Heartbeats every second: a
#: person's click reaches the task within one.
FAST: dict[str, object] = {
    "CORE__LOAD_EXAMPLES": False,
    "CORE__EXECUTOR": "LocalExecutor",
    "CORE__PARALLELISM": 16,
    "CORE__MAX_ACTIVE_TASKS_PER_DAG": 64,
    "CORE__MP_START_METHOD": "fork",
    "CORE__DAGS_ARE_PAUSED_AT_CREATION": False,
    "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
    # Google's modules take seconds to import, and more than Airflow's 30 on a machine that is busy.
    "CORE__DAGBAG_IMPORT_TIMEOUT": 150,
    "CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": 0,
    "SCHEDULER__SCHEDULER_HEARTBEAT_SEC": 1,
    "SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": 0.3,
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 30,
    "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": 2,
    "WORKERS__MIN_HEARTBEAT_INTERVAL": 1,
    # On a busy machine 5 s, the default, are too few, and a repeated request to start a task loses a try.
    "WORKERS__EXECUTION_API_TIMEOUT": 60,
    "DAG_PROCESSOR__REFRESH_INTERVAL": 1,
    "DAG_PROCESSOR__BUNDLE_REFRESH_CHECK_INTERVAL": 1,
    # A file is parsed when it is new or changed, and else left alone.
    "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": 100_000,
    "DAG_PROCESSOR__FILE_PARSING_SORT_MODE": "modified_time",
    "API__WORKERS": 1,
    # The API server takes connections on its event loop, too. With none left in the pool it stood still for
    # the 30 s of the pool's patience, as those who had one could not give it back; all heartbeats were late.
    "DATABASE__SQL_ALCHEMY_POOL_ENABLED": False,
    "LOGGING__COLORED_CONSOLE_LOG": False,
    "USAGE_DATA_COLLECTION__ENABLED": False,
}


_WARM: set[str] = set()


@dataclass
class AirflowServer:
    """One Airflow in a home folder of its own."""

    home: Path
    url: str
    env: dict[str, str] = field(repr=False)
    python: str = sys.executable
    components: dict[str, ServiceProcess] = field(default_factory=dict)

    @classmethod
    def start(
        cls,
        home: Path,
        *,
        components: Iterable[Component] = ALL,
        settings: Mapping[str, object] | None = None,
        env: Mapping[str, str] | None = None,
        database: Path | None = None,
        python: str = sys.executable,
        port: int | None = None,
        timeout: float = 240.0,
    ) -> AirflowServer:
        """Start an Airflow and wait until all its components are healthy (some 30 s on 2 cores).

        :param home: becomes AIRFLOW_HOME
        :param settings: ``{"SECTION__KEY": value}`` on top of ``FAST``
        :param env: more environment variables, ``AIRFLOW_CONN_...`` for example (see ``aws_connection``)
        :param database: an SQLite file with Airflow's tables to start from; made if it is not there yet
        :param python: the Python of the environment that Airflow runs in
        :param port: of the API server and the UI; a free one by default
        :raises ServiceFailed: with the end of the log of the component that is not healthy
        """
        home = home.resolve()
        home.mkdir(parents=True, exist_ok=True)
        (home / "dags").mkdir(exist_ok=True)
        url = f"http://{LOOPBACK}:{port or free_port()}"
        server = cls(home, url, _environment(home, url, {**FAST, **(settings or {})}, env or {}), python)
        server._make_database(database)
        for name in components:
            server.start_component(name, wait=False)
        server.wait_healthy(timeout)
        return server

    @classmethod
    def attach(cls, home: Path) -> AirflowServer:
        """Take hold of a running Airflow by its home folder."""
        state = json.loads((home / STATE_FILE).read_text())
        processes = {name: ServiceProcess.from_dict(data) for name, data in state["components"].items()}
        return cls(home, state["url"], state["env"], state["python"], processes)

    @cached_property
    def client(self) -> AirflowClient:
        """The REST API, Dags, runs and tasks."""
        return AirflowClient(self.url, self.home)

    def stop(self) -> None:
        """End all components and their tasks, at once rather than gracefully."""
        for process in self.components.values():
            if process.alive():
                os.kill(process.guard_pid, signal.SIGTERM)
        for name in list(self.components):
            self.stop_component(name)

    def start_component(self, name: str, *, wait: bool = True, timeout: float = 120.0) -> None:
        """Start one component; ``wait`` until it is healthy."""
        # The API server reads log files itself; the other servers for logs would listen on all addresses.
        port = self.url.rpartition(":")[2]
        arguments = {
            "api-server": ["--host", LOOPBACK, "--port", port],
            "scheduler": ["--skip-serve-logs"],
            "triggerer": ["--skip-serve-logs"],
        }.get(name, [])
        command = [self.python, "-m", "airflow", name, *arguments]
        folder = self.home / "components"
        _WARM.discard(self.url)
        env = dict(self.env)
        if name == "api-server":
            # It writes its audit log on the event loop, which another request may need to end a transaction:
            # with SQLite the two wait for each other until this time, in seconds, is up. Clients ask again.
            env["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = _database_url(self.home, 1)
        self.components[name] = ServiceProcess.start(name, command, folder=folder, env=env, grace=2.0)
        self._save()
        if wait:
            self.wait_healthy(timeout)

    def stop_component(self, name: str, *, kill: bool = False) -> None:
        """End one component with all it started (the scheduler: also the tasks); ``kill`` is -9."""
        process = self.components.pop(name)
        process.kill() if kill else process.stop()
        self._save()

    def wait_healthy(self, timeout: float = 120.0) -> None:
        """Wait until the API server says that the running components are healthy."""
        for name, process in self.components.items():
            process.wait_ready(partial(self._healthy, name), timeout)

    def _healthy(self, component: str) -> bool:
        try:
            answer = httpx.get(f"{self.url}/api/v2/monitor/health", timeout=10)
        except httpx.TransportError:
            return False
        if answer.status_code != 200:
            return False
        if component == "api-server" and self.url not in _WARM:
            # The first request to the API for tasks takes seconds; better now than in a task's heartbeat.
            httpx.get(f"{self.url}/execution/health", timeout=120)
            _WARM.add(self.url)
        key = {"api-server": "metadatabase", "dag-processor": "dag_processor"}.get(component, component)
        return bool(answer.json()[key]["status"] == "healthy")

    def run(self, *arguments: str, timeout: float = 180.0) -> str:
        """Run an ``airflow ...`` command in this Airflow's environment and return what it printed."""
        done = subprocess.run(
            [self.python, "-m", "airflow", *arguments],
            env=self.env,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        if done.returncode:
            raise ServiceFailed(
                f"airflow {' '.join(arguments)}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
            )
        return done.stdout

    def _make_database(self, database: Path | None) -> None:
        target = self.home / "airflow.db"
        if target.exists():
            return
        if database is None:
            self.run("db", "migrate")
            return
        with FileLock(database.with_suffix(".lock")):
            if not database.exists():
                self.run("db", "migrate")
                shutil.copy(target, database)
        if not target.exists():
            shutil.copy(database, target)

    def _save(self) -> None:
        state = {
            "url": self.url,
            "env": self.env,
            "python": self.python,
            "components": {name: process.to_dict() for name, process in self.components.items()},
        }
        (self.home / STATE_FILE).write_text(json.dumps(state))


def aws_connection(endpoint_url: str, region: str = "eu-west-1") -> dict[str, str]:
    """``AIRFLOW_CONN_AWS_DEFAULT`` that points at a stand-in, or at the proxy in front of it."""
    connection = {
        "conn_type": "aws",
        "login": "loopback",
        "password": "no-account-has-this",  # is masked in logs: not a word that stands there otherwise
        "extra": {"endpoint_url": endpoint_url, "region_name": region},
    }
    return {"AIRFLOW_CONN_AWS_DEFAULT": json.dumps(connection)}


def _database_url(home: Path, busy_seconds: float) -> str:
    return f"sqlite:///{home}/airflow.db?timeout={busy_seconds}"


def _environment(
    home: Path, url: str, settings: Mapping[str, object], more: Mapping[str, str]
) -> dict[str, str]:
    """The environment of all components: nothing of the caller's Airflow or cloud accounts."""
    foreign = ("AIRFLOW", "AWS_", "GOOGLE_", "DATABRICKS_", "PYTEST_", "OTEL_", "COV_")
    inherited = {name: value for name, value in quick_python().items() if not name.startswith(foreign)}
    # What a user's package, or Airflow's plugins folder, would hold.
    own_modules = REPOSITORY / "example_dags" / "modules"
    paths = [inherited.get("PYTHONPATH", ""), str(REPOSITORY), str(own_modules)]
    own = {
        "CORE__DAGS_FOLDER": home / "dags",
        "CORE__EXECUTION_API_SERVER_URL": f"{url}/execution/",
        "CORE__FERNET_KEY": urlsafe_b64encode(secrets.token_bytes(32)).decode(),
        "DATABASE__SQL_ALCHEMY_CONN": _database_url(home, 30),
        "API__BASE_URL": url,
        "API__PORT": url.rpartition(":")[2],
        "API__SECRET_KEY": secrets.token_hex(16),
        "API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "LOGGING__BASE_LOG_FOLDER": home / "logs",
    }
    return {
        **inherited,
        "AIRFLOW_HOME": str(home),
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        **{f"AIRFLOW__{name}": str(value) for name, value in {**own, **settings}.items()},
        **more,
    }
