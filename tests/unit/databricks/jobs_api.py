"""The Jobs API in a process: runs, tokens and repairs behind ``responses``, with failures to plan."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import requests
import responses
from tenacity import stop_after_attempt, wait_none

from airflow_provider_durable.operators.databricks import (
    DatabricksRunNowOperator,
    DatabricksSubmitRunOperator,
)
from airflow_provider_durable.resumable import submission
from unit.fakes import Crash, TaskInstance

if TYPE_CHECKING:
    import pytest

    from unit.fakes import Store

HOST = "workspace.test"
SUCCEEDED = {"state": {"life_cycle_state": "TERMINATED", "result_state": "SUCCESS", "state_message": ""}}
FAILED = {"state": {"life_cycle_state": "TERMINATED", "result_state": "FAILED", "state_message": "Oh no."}}
RUNNING = {"state": {"life_cycle_state": "RUNNING", "state_message": "In run"}}


def error(status: int, code: str, message: str = "") -> tuple[int, dict[str, str], str]:
    """An error as the API sends it."""
    return status, {}, json.dumps({"error_code": code, "message": message or code})


HTML_404 = (404, {}, "<html>nginx</html>")
SERVER_ERROR = error(500, "INTERNAL_ERROR")
THROTTLED = error(429, "REQUEST_LIMIT_EXCEEDED")
#: The request arrives, its answer does not.
LOST = requests.ConnectionError("connection reset")
#: The request arrives, and the process that sent it dies.
CRASH = Crash("killed in the window")
Plan = Any


@dataclass
class JobsApi:
    """
    One workspace.

    ``plans[path]`` holds what becomes of the next requests: a response, an exception, or None for nothing
    special. A ``LOST`` answer and a ``CRASH`` come after the request was taken, all else before.
    """

    runs: dict[int, dict[str, Any]] = field(default_factory=dict)
    tokens: dict[str, int] = field(default_factory=dict)
    jobs: dict[str, int] = field(default_factory=dict)
    outputs: dict[int, dict[str, Any]] = field(default_factory=dict)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    plans: dict[str, list[Plan]] = field(default_factory=dict)
    #: What becomes of a run between two looks at it.
    ends: Callable[[dict[str, Any]], None] = lambda run: run.update(SUCCEEDED)
    _ids: itertools.count[int] = field(default_factory=lambda: itertools.count(100))

    def install(self, mock: responses.RequestsMock) -> None:
        for method in ("GET", "POST"):
            mock.add_callback(method, re.compile(f"https://{HOST}/api/2../jobs/.*"), self._answer)

    def _answer(self, request: Any) -> tuple[int, dict[str, str], str]:
        path = urlsplit(request.url).path.split("/jobs/")[1]
        query = {key: values[0] for key, values in parse_qs(urlsplit(request.url).query).items()}
        body = json.loads(request.body) if request.body else query
        self.calls.append((path, body))
        planned = plan.pop(0) if (plan := self.plans.get(path)) else None
        if isinstance(planned, tuple):
            return planned
        answer = getattr(self, re.sub(r"[/-]", "_", path))(body)
        if isinstance(planned, BaseException):
            raise planned
        return answer if isinstance(answer, tuple) else (200, {}, json.dumps(answer))

    def start(self, token: str | None = None, **run: Any) -> int:
        if token and token in self.tokens:
            return self.tokens[token]
        run_id = next(self._ids)
        self.runs[run_id] = {
            "run_id": run_id,
            "job_id": 7,
            "run_page_url": f"https://{HOST}/#job/7/run/{run_id}",
            "repair_history": [{"type": "ORIGINAL"}],
            **RUNNING,
            **run,
        }
        if token:
            self.tokens[token] = run_id
        return run_id

    def runs_submit(self, body: dict[str, Any]) -> Any:
        return {"run_id": self.start(body.get("idempotency_token"))}

    def run_now(self, body: dict[str, Any]) -> Any:
        return {"run_id": self.start(body.get("idempotency_token"), job_id=int(body["job_id"]))}

    def runs_get(self, body: dict[str, Any]) -> Any:
        run = self.runs.get(int(body["run_id"]))
        if run is None:
            return error(400, "INVALID_PARAMETER_VALUE", f"Run {body['run_id']} does not exist.")
        seen = dict(run)
        if "include_history" not in body and run.get("state") == RUNNING["state"]:
            self.ends(run)
        return seen

    def runs_get_output(self, body: dict[str, Any]) -> Any:
        return self.outputs.get(int(body["run_id"])) or error(403, "PERMISSION_DENIED")

    def runs_cancel(self, body: dict[str, Any]) -> Any:
        if body["run_id"] not in self.runs:
            return error(400, "INVALID_PARAMETER_VALUE", f"Run {body['run_id']} does not exist.")
        return {}

    def runs_cancel_all(self, body: dict[str, Any]) -> Any:
        for run in self.runs.values():
            if run["job_id"] == int(body["job_id"]) and run["state"] == RUNNING["state"]:
                run["state"] = {"life_cycle_state": "TERMINATED", "result_state": "CANCELED"}
        return {}

    def runs_repair(self, body: dict[str, Any]) -> Any:
        run = self.runs[body["run_id"]]
        history = run["repair_history"]
        latest = history[-1].get("id")
        if body.get("latest_repair_id") != latest:
            return error(400, "INVALID_PARAMETER_VALUE", "latest_repair_id is not the latest")
        history.append({"type": "REPAIR", "id": (latest or 900) + 1})
        run.update(RUNNING)
        return {"repair_id": history[-1]["id"]}

    def list(self, body: dict[str, Any]) -> Any:
        found = [(name, job) for name, job in self.jobs.items() if name == body.get("name", name)]
        return {"jobs": [{"job_id": job, "settings": {"name": name}} for name, job in found]}

    def update(self, body: dict[str, Any]) -> Any:
        return {}

    def sent(self, path: str) -> list[dict[str, Any]]:
        """The bodies of the requests to this path."""
        return [body for called, body in self.calls if called == path]

    def paths(self) -> list[str]:
        return [path for path, _ in self.calls]


@contextmanager
def workspace(monkeypatch: pytest.MonkeyPatch) -> Iterator[JobsApi]:
    """A workspace where every run succeeds after it was seen running once, and a connection to it."""
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    connection = {"conn_type": "databricks", "host": f"https://{HOST}", "password": "dapi"}
    monkeypatch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", json.dumps(connection))
    # The real one loads all providers to name a version.
    monkeypatch.setattr(DatabricksHook, "user_agent_header", {"user-agent": "test"})
    monkeypatch.setattr(submission, "jitter", lambda seconds: 0.0)
    api = JobsApi()
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        api.install(mock)
        yield api


@asynccontextmanager
async def served(api: JobsApi) -> AsyncIterator[int]:
    """Serve the GET requests of Apache's asynchronous hook, whose parameters are in the body, on a port."""
    from aiohttp import web
    from aiohttp.test_utils import TestServer

    async def answer(request: web.Request) -> web.Response:
        query = await request.json() if request.can_read_body else dict(request.query)
        found = getattr(api, re.sub(r"[/-]", "_", request.match_info["path"]))(query)
        status, _, text = found if isinstance(found, tuple) else (200, {}, json.dumps(found))
        return web.Response(status=status, text=text, content_type="application/json")

    app = web.Application()
    app.router.add_get("/api/{version}/jobs/{path:.*}", answer)
    async with TestServer(app) as server:
        yield server.port or 0


class Ti(TaskInstance):
    """A task instance with XComs."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.xcoms: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.xcoms[key] = value


def context(store: Store | None = None, **ti: Any) -> dict[str, Any]:
    """Return an Airflow context."""
    given: dict[str, Any] = {"ti": Ti(**ti), "params": {}}
    if store is not None:
        given["task_state_store"] = store
    return given


TASK = {"notebook_path": "/load"}


def operator(path: str = "runs/submit", *, attempts: int = 3, **parameters: Any) -> Any:
    """Return the operator that submits to ``path``; it polls fast, and its hook repeats without pauses."""
    parameters = {
        "task_id": "load",
        "polling_period_seconds": timedelta(milliseconds=1),
        "databricks_retry_args": {"stop": stop_after_attempt(attempts), "wait": wait_none()},
        **parameters,
    }
    if path == "run-now":
        return DatabricksRunNowOperator(**{"job_id": 7, **parameters})
    return DatabricksSubmitRunOperator(**{"notebook_task": TASK, **parameters})
