"""The server side of the Databricks stand-in: minilake, whose runs take time, behind the Jobs API.

Runs in minilake's own venv, as a process; tests talk to it through databricks_service.py. minilake does the
work (SQL tasks, on DuckDB) and knows the tokens of runs/submit. This front tells of a run that it goes on
for as long as the run's name asks for, knows the tokens of run-now, and cancels.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI, Request  # noqa: TC002 - FastAPI reads the annotations
from minilake.app import create_app, lifespan
from minilake.errors import DatabricksError, install_exception_handlers
from minilake.models.jobs import RunNowRequest, SubmitRunRequest
from minilake.services import jobs

#: ``load seconds=20``: the run is told to go on for 20 seconds.
SECONDS = re.compile(r"seconds=([0-9.]+)")


@dataclass
class Run:
    """One run, as this front tells of it; times are seconds since the epoch."""

    run_id: int
    name: str
    token: str
    ends_at: float
    started_at: float = field(default_factory=time.time)
    submissions: int = 1
    cancelled_at: float | None = None

    @property
    def is_active(self) -> bool:
        return self.cancelled_at is None and time.time() < self.ends_at


RUNS: dict[int, Run] = {}
"""Every run ever started, deleted ones too: what tests count."""
NOW_TOKENS: dict[str, int] = {}

minilake = create_app()
front = FastAPI(lifespan=lambda _: lifespan(minilake))
install_exception_handlers(front)


@front.middleware("http")
async def parameters_in_the_body(request: Request, call_next: Any) -> Any:
    """Databricks takes a GET's parameters from its body, too: Apache's asynchronous hook sends them there."""
    if request.method == "GET" and (sent := await request.body()):
        request.scope["query_string"] = urlencode(json.loads(sent)).encode()
    return await call_next(request)


def _known(run_id: int, name: str, token: str) -> dict[str, int]:
    """Take note of a submission and answer it."""
    if run_id in RUNS:
        RUNS[run_id].submissions += 1
    else:
        asked = SECONDS.search(name)
        RUNS[run_id] = Run(run_id, name, token, time.time() + float(asked[1] if asked else 0))
    return {"run_id": run_id}


def _check_token(token: str) -> None:
    if len(token) > 64:
        raise DatabricksError("INVALID_PARAMETER_VALUE", "idempotency_token has more than 64 characters")


@front.post("/api/2.2/jobs/runs/submit")
async def submit(request: Request) -> Any:
    """Minilake's, which knows the token."""
    body = SubmitRunRequest(**await request.json())
    _check_token(body.idempotency_token or "")
    answer = await jobs.submit_run(body)
    return _known(answer.run_id, body.run_name or "", body.idempotency_token or "")


@front.post("/api/2.2/jobs/run-now")
async def run_now(request: Request) -> Any:
    """Minilake's, with the token that it does not know."""
    sent = await request.json()
    token = sent.get("idempotency_token") or ""
    _check_token(token)
    if token in NOW_TOKENS:
        return _known(NOW_TOKENS[token], "", token)
    answer = await jobs.run_now(RunNowRequest(**sent))
    if token:
        NOW_TOKENS[token] = answer.run_id
    return _known(answer.run_id, jobs._state["runs"][answer.run_id]["run_name"], token)


@front.get("/api/2.2/jobs/runs/get")
async def get(request: Request, run_id: int) -> Any:
    """Minilake's when the run's time is over; before that it goes on."""
    if run_id not in jobs._state["runs"]:
        # What Databricks answers; minilake's is a 404.
        raise DatabricksError("INVALID_PARAMETER_VALUE", f"Run {run_id} does not exist.", 400)
    run = RUNS[run_id]
    told = (await jobs.get_run(request, run_id)).model_dump(mode="json", exclude_none=True)
    told["job_id"] = told.get("job_id") or 1_000_000 + run_id
    if run.is_active:
        told["state"], told["tasks"] = {"life_cycle_state": "RUNNING", "state_message": "In run"}, []
    elif run.cancelled_at:
        told["state"] = {
            "life_cycle_state": "TERMINATED",
            "result_state": "CANCELED",
            "state_message": "Run cancelled.",
        }
    return told


@front.post("/api/2.2/jobs/runs/cancel")
async def cancel(request: Request) -> Any:
    """Cancel a run that goes on; nothing for one that has ended."""
    run_id = int((await request.json())["run_id"])
    if run_id not in jobs._state["runs"]:
        raise DatabricksError("INVALID_PARAMETER_VALUE", f"Run {run_id} does not exist.", 400)
    if RUNS[run_id].is_active:
        RUNS[run_id].cancelled_at = time.time()
    return {}


@front.post("/api/2.2/jobs/runs/cancel-all")
async def cancel_all(request: Request) -> Any:
    """Cancel what goes on of a job."""
    job_id = int((await request.json())["job_id"])
    for run in RUNS.values():
        if run.is_active and jobs._state["runs"][run.run_id].get("job_id") == job_id:
            run.cancelled_at = time.time()
    return {}


@front.get("/standin/runs")
async def runs(name: str = "") -> Any:
    """All runs whose name starts with ``name``, in order."""
    found = [run for run in RUNS.values() if run.name.startswith(name)]
    return [{**asdict(run), "is_active": run.is_active} for run in found]


@front.post("/standin/runs/{run_id}/finish")
async def finish(run_id: int) -> Any:
    """End a run now, with the result that its work had."""
    RUNS[run_id].ends_at = min(RUNS[run_id].ends_at, time.time())
    return {}


front.mount("/", minilake)

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    uvicorn.run(front, host="127.0.0.1", port=parser.parse_args().port, log_level="warning", http="h11")
