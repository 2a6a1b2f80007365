"""Databricks as a process on loopback, for tests: start it, see every run, decide when runs end.

The process is databricks_standin.py in minilake's venv (which needs Python 3.11). Its runs are SQL tasks that
minilake executes; ``<name> seconds=20`` as a run's or job's name has it go on for 20 seconds.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from harness.http_client import HttpClient
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port, wait_until
from harness.venvs import python_of

WORKING_SQL = "SELECT sum(i) AS total FROM range(1000) AS t(i)"
FAILING_SQL = "SELECT * FROM no_such_table"


@dataclass(frozen=True)
class DatabricksRun:
    """One run as the service has it; times are seconds since the epoch."""

    run_id: int
    name: str
    token: str
    started_at: float
    ends_at: float
    submissions: int
    cancelled_at: float | None
    is_active: bool

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked the service to stop the run while it went on."""
        return self.cancelled_at is not None


@dataclass
class DatabricksService:
    """A client of the stand-in's control side, and the process itself where ``start`` made it."""

    url: str
    process: ServiceProcess | None = None
    http: HttpClient = field(default_factory=HttpClient, repr=False)

    @classmethod
    def start(cls, folder: Path, port: int | None = None) -> DatabricksService:
        """Start the service.

        :param folder: holds the process's log, pid file and data
        """
        port = port or free_port()
        script = str(Path(__file__).with_name("databricks_standin.py"))
        env = {
            **os.environ,
            "MINILAKE_DATA_DIR": str(folder / "minilake"),
            # With a folder named, DuckDB's extensions are not looked for on the network.
            "MINILAKE_DUCKDB_EXTENSION_DIR": str(folder / "minilake" / "extensions"),
            "MINILAKE_NOTEBOOK": "0",
            "MINILAKE_DUCKDB_MEMORY_LIMIT": "256MB",
        }
        process = ServiceProcess.start(
            "databricks",
            [python_of("minilake"), script, "--port", str(port)],
            folder=folder,
            env=env,
            ready=lambda: accepts(port),
            grace=1,
        )
        return cls(f"http://{LOOPBACK}:{port}", process)

    def stop(self) -> None:
        """End the process, if this object started it."""
        if self.process is not None:
            self.process.stop()

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """One request to the service."""
        answer = self.http.request(method, f"{self.url}/{path}", json=body, params=params)
        answer.raise_for_status()
        return answer.json()

    def sql_task(self, key: str = "sql", sql: str = WORKING_SQL) -> dict[str, Any]:
        """A task, for ``tasks=[...]``, that has the service execute ``sql``."""
        warehouse = self.call("POST", "api/2.0/sql/warehouses", {"name": key, "cluster_size": "2X-Small"})
        text = {"query": {"display_name": key, "query_text": sql}, "auto_resolve_display_name": True}
        query = self.call("POST", "api/2.0/sql/queries", text)
        return {
            "task_key": key,
            "sql_task": {"warehouse_id": warehouse["id"], "query": {"query_id": query["id"]}},
        }

    def create_job(self, name: str) -> int:
        """Make a job of one SQL task, for run-now; its name may say ``seconds=``, too."""
        return int(
            self.call("POST", "api/2.2/jobs/create", {"name": name, "tasks": [self.sql_task()]})["job_id"]
        )

    def run_now(self, job_id: int) -> int:
        """Run a job, as a person does; return the run's id."""
        return int(self.call("POST", "api/2.2/jobs/run-now", {"job_id": job_id})["run_id"])

    def runs(self, name: str = "") -> list[DatabricksRun]:
        """All runs ever started whose name starts with ``name``, in order."""
        return [DatabricksRun(**run) for run in self.call("GET", "standin/runs", name=name)]

    def run(self, run_id: int) -> DatabricksRun:
        """One run."""
        return next(run for run in self.runs() if run.run_id == run_id)

    def finish(self, run_id: int) -> None:
        """End a run now, with the result that its SQL had."""
        self.call("POST", f"standin/runs/{run_id}/finish")

    def finish_all(self, name: str) -> None:
        """End all runs whose name starts with ``name``."""
        for run in self.runs(name):
            self.finish(run.run_id)

    def wait_submitted(self, name: str, count: int = 1, timeout: float = 90.0) -> list[DatabricksRun]:
        """Wait until ``count`` runs of this name were started, whatever became of them."""

        def submitted() -> list[DatabricksRun] | None:
            found = self.runs(name)
            return found if len(found) >= count else None

        return wait_until(submitted, lambda: f"{count} submitted: {self.runs(name)}", timeout)

    def output(self, run_id: int) -> dict[str, Any]:
        """What the run's tasks printed, from the service."""
        found: dict[str, Any] = self.call("GET", "api/2.2/jobs/runs/get-output", run_id=run_id)
        return found


def databricks_connection(url: str) -> dict[str, Any]:
    """An Airflow connection to a stand-in, or to the proxy in front of it."""
    place = urlsplit(url)
    return {
        "conn_type": "databricks",
        "host": place.hostname,
        "port": place.port,
        "schema": "http",
        "password": "standin",
    }


def databricks_connection_env(url: str, name: str = "databricks_default") -> dict[str, str]:
    """The same as ``AIRFLOW_CONN_...``."""
    return {f"AIRFLOW_CONN_{name.upper()}": json.dumps(databricks_connection(url))}
