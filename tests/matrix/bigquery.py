"""BigQuery: the unit tests' fake, whose jobs are found in their places alone, behind Google's client."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.bigquery_service import emulator_env
from matrix.service import Job, Service
from matrix.stage import Stage
from unit.bigquery.jobs_api import HOST, PROJECT, QUERY, TOKYO, FakeBigQuery

if TYPE_CHECKING:
    from matrix.kinds import Side, Way


class Project(FakeBigQuery):
    """A project whose jobs end when somebody ends them, and whose query results can be waited for."""

    def __init__(self, stage: Any) -> None:
        super().__init__(stage)
        self.ends_after = None
        self.cancelled: set[str] = set()
        results = re.compile(rf"{re.escape(HOST)}/projects/[^/]+/queries/[^/]+(\?.*)?$")
        stage.add_callback("GET", results, self._wrap(self._results))

    def _results(self, request: Any, path: list[str]) -> Any:
        job = self._find(request, path)
        if job is None:
            return 404, {}, json.dumps({"error": {"code": 404, "message": "Not found"}})
        status = job["status"]
        if error := status.get("errorResult"):
            body = {"error": {"code": 400, "message": error["message"], "errors": [error]}}
            return 400, {}, json.dumps(body)
        done = {"jobComplete": True, "totalRows": "0", "schema": {"fields": []}}
        reference = {"jobReference": job["jobReference"]}
        return {**reference, **(done if status["state"] == "DONE" else {"jobComplete": False})}

    def _cancel(self, request: Any, path: list[str]) -> Any:
        job = self._find(request, path)
        if job is not None and job["status"]["state"] != "DONE":
            self.cancelled.add(path[2])
        return super()._cancel(request, path)


class BigQuery(Service):
    """One project, whose data is in Tokyo."""

    key = "bigquery_job_id"

    def start(self) -> None:
        """Serve the project; Google's client learns where from the environment."""
        self.stage = Stage(HOST.removesuffix("/bigquery/v2"))
        os.environ.update(emulator_env(self.stage.url))
        connection = {
            "conn_type": "google_cloud_platform",
            "extra": {"project": PROJECT, "is_anonymous": True},
        }
        os.environ["AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT"] = json.dumps(connection)

    def stop(self) -> None:
        """End it."""
        self.stage.stop()

    def reset(self, name: str) -> None:
        """Take a new project."""
        super().reset(name)
        self.stage.clear()
        self.bigquery = Project(self.stage)

    def jobs(self) -> list[Job]:
        """All jobs of the project."""
        return [
            Job(
                job_id,
                running=job["status"]["state"] != "DONE",
                succeeded=job["status"]["state"] == "DONE" and "errorResult" not in job["status"],
                cancelled=job_id in self.bigquery.cancelled,
            )
            for job_id, job in self.bigquery.jobs.items()
        ]

    def end(self, job_id: Any, *, success: bool) -> None:
        """End a job."""
        job = self.bigquery.jobs.get(job_id)
        if job is not None and job["status"]["state"] != "DONE":
            self.bigquery.finish(job_id, None if success else "invalidQuery")

    def serves(self, host: str, port: int | None) -> bool:
        """Whether it is the project's address."""
        return port == self.stage.port

    def operation(self, method: str, url: str, body: Any) -> str:
        """The method's name in BigQuery's reference."""
        parts = urlsplit(url).path.partition("/projects/")[2].split("/")[1:]
        if parts[:1] == ["queries"]:
            return "jobs.getQueryResults"
        if parts[-1:] == ["cancel"]:
            return "jobs.cancel"
        if len(parts) > 1:
            return "jobs.get"
        return "jobs.insert" if method == "POST" else "jobs.list"

    def looked_at(self, method: str, url: str, body: Any) -> list[Any]:
        """The job that a request asks for."""
        if self.operation(method, url, body) not in ("jobs.get", "jobs.getQueryResults"):
            return []
        return [urlsplit(url).path.split("/")[-1]]

    def error(self, status: int) -> tuple[bytes, dict[str, str]]:
        """An error as Google sends it."""
        details = {"reason": "backendError", "message": "try again later"}
        body = {"error": {"code": status, "message": "try again later", "errors": [details]}}
        return json.dumps(body).encode(), {"Content-Type": "application/json"}

    def operator(self, side: Side, way: Way) -> Callable[..., Any] | None:
        """``BigQueryInsertJobOperator``."""
        if side == "upstream" and way == "reschedule":
            return None
        if side == "ours":
            from airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator

            where: dict[str, Any] = {}
        else:
            from airflow.providers.google.cloud.operators.bigquery import (  # type: ignore[assignment]
                BigQueryInsertJobOperator,
            )

            # Without it Apache's operator does not find its job again: data outside US and EU.
            where = {"location": TOKYO}
        waits: dict[str, Any] = {
            "poke": {},
            "defer": {"deferrable": True},
            "reschedule": {"mode": "reschedule"},
        }
        return lambda **task: BigQueryInsertJobOperator(
            configuration=json.loads(json.dumps(QUERY)), **where, **waits[way], **task
        )


SERVICES: dict[str, Callable[[Path], Service]] = {"bigquery": BigQuery}
