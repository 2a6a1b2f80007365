"""BigQuery as a process on loopback, for tests: start it, see every job, decide when jobs end, count rows.

The process is bigquery_standin.py in crucible's venv (which needs Python 3.11). The label
``standin-seconds`` of a job's configuration has it go on for so many seconds; a dataset whose name begins
with ``tokyo`` is in asia-northeast1, every other one in the US.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.http_client import HttpClient
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port, wait_until
from harness.venvs import python_of

PROJECT = "standin-project"
TOKYO = "asia-northeast1"
#: An Airflow connection to the stand-in, wherever that is.
CONNECTION: dict[str, Any] = {
    "conn_type": "google_cloud_platform",
    "extra": {"project": PROJECT, "is_anonymous": True},
}
API = f"bigquery/v2/projects/{PROJECT}"


@dataclass(frozen=True)
class BigQueryJob:
    """One job as the service has it; times are seconds since the epoch."""

    id: str
    project: str
    location: str
    configuration: dict[str, Any]
    seconds: float
    created_at: float
    submissions: int
    cancelled_at: float | None
    executed: bool
    error: dict[str, str] | None
    done: bool

    @property
    def cancelled(self) -> bool:
        """Whether somebody asked the service to stop the job while it went on."""
        return self.cancelled_at is not None


@dataclass
class BigQueryService:
    """A client of the stand-in's control side, and the process itself where ``start`` made it."""

    url: str
    process: ServiceProcess | None = None
    http: HttpClient = field(default_factory=HttpClient, repr=False)

    @classmethod
    def start(cls, folder: Path, port: int | None = None) -> BigQueryService:
        """Start the service.

        :param folder: holds the process's log and pid file
        """
        port = port or free_port()
        script = str(Path(__file__).with_name("bigquery_standin.py"))
        process = ServiceProcess.start(
            "bigquery",
            [python_of("crucible"), script, "--port", str(port)],
            folder=folder,
            env={name: value for name, value in os.environ.items() if not name.startswith("CRUCIBLE_")},
            ready=lambda: accepts(port),
            grace=1,
        )
        service = cls(f"http://{LOOPBACK}:{port}", process)
        for dataset, location in (("lake", "US"), ("tokyo_lake", TOKYO)):
            reference = {"projectId": PROJECT, "datasetId": dataset}
            service.call("POST", f"{API}/datasets", {"datasetReference": reference, "location": location})
        return service

    def stop(self) -> None:
        """End the process, if this object started it."""
        if self.process is not None:
            self.process.stop()

    def call(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """One request to the service."""
        answer = self.http.request(method, f"{self.url}/{path}", json=body, params=params)
        if answer.is_error:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json()

    def sql(self, text: str) -> list[list[Any]]:
        """Run a query in crucible, beside the jobs; return its rows, as strings."""
        answer = self.call("POST", f"{API}/queries", {"query": text, "useLegacySql": False})
        return [[cell["v"] for cell in row["f"]] for row in answer.get("rows", [])]

    def create_table(self, table: str) -> None:
        """Make a table of one column, ``n``."""
        self.sql(f"CREATE TABLE {table} (n INT64)")

    def rows(self, table: str) -> int:
        """How many rows the table has."""
        return int(self.sql(f"SELECT COUNT(*) FROM {table}")[0][0])

    def jobs(self, dag_id: str) -> list[BigQueryJob]:
        """All jobs ever accepted for this Dag, in order."""
        return [BigQueryJob(**job) for job in self.call("GET", "standin/jobs", dag=dag_id.lower())]

    def finish(self, job_id: str, reason: str | None = None) -> BigQueryJob:
        """End a job now: execute it, or have it fail for this reason."""
        return BigQueryJob(**self.call("POST", f"standin/jobs/{job_id}/finish", {"reason": reason}))

    def wait_submitted(self, dag_id: str, count: int = 1, timeout: float = 90.0) -> list[BigQueryJob]:
        """Wait until ``count`` jobs of this Dag were accepted, whatever became of them."""

        def submitted() -> list[BigQueryJob] | None:
            found = self.jobs(dag_id)
            return found if len(found) >= count else None

        return wait_until(submitted, lambda: f"{count} submitted: {self.jobs(dag_id)}", timeout)


def emulator_env(url: str) -> dict[str, str]:
    """What points the Google client at a stand-in, or at the proxy in front of it.

    It takes the service's URL from no connection, only from its environment.
    """
    return {"BIGQUERY_EMULATOR_HOST": url}
