"""Databricks: the Jobs API of the unit tests' fake, which keeps the service's rule for idempotency tokens."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from harness.databricks_service import databricks_connection_env
from matrix.service import Job, Service
from matrix.stage import Stage
from unit.databricks.jobs_api import FAILED, HOST, RUNNING, SUCCEEDED, JobsApi

if TYPE_CHECKING:
    from matrix.kinds import Side, Way

CANCELLED = {"state": {"life_cycle_state": "TERMINATED", "result_state": "CANCELED", "state_message": ""}}


class Workspace(JobsApi):
    """A workspace whose runs end when somebody ends them."""

    def __init__(self) -> None:
        super().__init__(ends=lambda run: None)
        self.cancelled: set[int] = set()

    def runs_cancel(self, body: dict[str, Any]) -> Any:
        """Cancel a run that goes on."""
        run = self.runs.get(int(body["run_id"]))
        if run is not None and run["state"] == RUNNING["state"]:
            run.update(CANCELLED)
            self.cancelled.add(run["run_id"])
        return super().runs_cancel(body)


class Databricks(Service):
    """One workspace; ``runs/submit``."""

    key = "databricks_run_id"

    def start(self) -> None:
        """Serve the workspace."""
        self.stage = Stage(f"https://{HOST}")
        os.environ.update(databricks_connection_env(self.stage.url))
        from airflow.providers.databricks.hooks.databricks import DatabricksHook

        # The real one loads all providers to name a version.
        DatabricksHook.user_agent_header = {"user-agent": "matrix"}  # type: ignore[assignment,method-assign]

    def stop(self) -> None:
        """End it."""
        self.stage.stop()

    def reset(self, name: str) -> None:
        """Take a new workspace."""
        super().reset(name)
        self.stage.clear()
        self.workspace = Workspace()
        self.workspace.install(self.stage)  # type: ignore[arg-type]

    def jobs(self) -> list[Job]:
        """All runs of the workspace."""
        return [
            Job(
                run_id,
                running=run["state"] == RUNNING["state"],
                succeeded=run["state"] == SUCCEEDED["state"],
                cancelled=run_id in self.workspace.cancelled,
            )
            for run_id, run in self.workspace.runs.items()
        ]

    def end(self, job_id: Any, *, success: bool) -> None:
        """End a run."""
        run = self.workspace.runs.get(job_id)
        if run is not None and run["state"] == RUNNING["state"]:
            run.update(SUCCEEDED if success else FAILED)

    def serves(self, host: str, port: int | None) -> bool:
        """Whether it is the workspace's address."""
        return port == self.stage.port

    def operation(self, method: str, url: str, body: Any) -> str:
        """The path below ``/jobs/``."""
        return urlsplit(url).path.partition("/jobs/")[2] or url

    def looked_at(self, method: str, url: str, body: Any) -> list[Any]:
        """The run that a request asks for."""
        if self.operation(method, url, body) != "runs/get":
            return []
        query = parse_qs(urlsplit(url).query)
        found = query.get("run_id") or re.findall(r'"run_id": ?"?(\d+)', _text(body))
        return [int(run_id) for run_id in found]

    def error(self, status: int) -> tuple[bytes, dict[str, str]]:
        """An error as the API sends it."""
        code = {"error_code": "TEMPORARILY_UNAVAILABLE", "message": "try again later"}
        return json.dumps(code).encode(), {"Content-Type": "application/json"}

    def operator(self, side: Side, way: Way) -> Callable[..., Any] | None:
        """``DatabricksSubmitRunOperator``."""
        return self._operator(
            "DatabricksSubmitRunOperator", side, way, notebook_task={"notebook_path": "/load"}
        )

    def _operator(self, name: str, side: Side, way: Way, **what: Any) -> Callable[..., Any] | None:
        if side == "upstream" and way == "reschedule":
            return None
        if side == "ours":
            from airflow_provider_durable.operators import databricks as module
        else:
            from airflow.providers.databricks.operators import databricks as module  # type: ignore[no-redef]
        cls = getattr(module, name)
        waits: dict[str, Any] = {
            "poke": {},
            "defer": {"deferrable": True},
            "reschedule": {"mode": "reschedule"},
        }
        return lambda **task: cls(**what, **waits[way], **task)


class DatabricksRunNow(Databricks):
    """The same; ``run-now``."""

    key = "databricks_run_now_id"

    def operator(self, side: Side, way: Way) -> Callable[..., Any] | None:
        """``DatabricksRunNowOperator``."""
        return self._operator("DatabricksRunNowOperator", side, way, job_id=7)


def _text(body: Any) -> str:
    return body.decode() if isinstance(body, bytes) else str(body or "")


SERVICES: dict[str, Callable[[Path], Service]] = {
    "databricks-submit": Databricks,
    "databricks-run-now": DatabricksRunNow,
}
