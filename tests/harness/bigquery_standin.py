"""The server side of the BigQuery stand-in: crucible, whose jobs take time and have a location.

Runs in crucible's own venv, as a process; tests talk to it through bigquery_service.py. crucible executes the
SQL (on DuckDB), inside jobs.insert. This front accepts at once, says RUNNING for as long as the job's label
``standin-seconds`` asks, then has crucible execute it; a job that is cancelled before is never executed.
Where a job runs depends on its datasets, and it is found there and nowhere else, as with BigQuery. Load, copy
and extract jobs, which crucible does not know, take their time and do nothing.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import uvicorn
from crucible.engine import Engine
from crucible.server.app import create_app
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request  # noqa: TC002 - as in the services beside it
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route

JOBS = "/bigquery/v2/projects/{project}/jobs"
#: A dataset of this name is in Tokyo, every other one in the US.
TOKYO = "asia-northeast1"
IN_TOKYO = re.compile(r"\btokyo\w*\b")
FOUND_WITHOUT_LOCATION = ("US", "EU")


@dataclass
class Job:
    """One job, as this front tells of it; times are seconds since the epoch."""

    id: str
    project: str
    location: str
    configuration: dict[str, Any]
    seconds: float
    created_at: float = field(default_factory=time.time)
    submissions: int = 1
    cancelled_at: float | None = None
    executed: bool = False
    error: dict[str, str] | None = None
    done: bool = False

    def resource(self) -> dict[str, Any]:
        """What jobs.get answers."""
        status: dict[str, Any] = {"state": "DONE" if self.done else "RUNNING"}
        if self.error:
            status.update(errorResult=self.error, errors=[self.error])
        created = str(int(self.created_at * 1000))
        return {
            "kind": "bigquery#job",
            "id": f"{self.project}:{self.location}.{self.id}",
            "jobReference": {"projectId": self.project, "jobId": self.id, "location": self.location},
            "configuration": self.configuration,
            "statistics": {"creationTime": created, "startTime": created},
            "status": status,
        }


JOBS_BY_ID: dict[tuple[str, str], Job] = {}
"""Every job ever accepted: what tests count."""
LOCK = threading.Lock()
PORT = 0


def refusal(status: int, reason: str, message: str) -> JSONResponse:
    """An error as BigQuery answers it."""
    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
    return JSONResponse({"error": error}, status)


async def insert(request: Request) -> JSONResponse:
    """Accept a job, once for each id."""
    project, body = request.path_params["project"], await request.json()
    reference, configuration = body["jobReference"], body["configuration"]
    job_id, asked = reference["jobId"], reference.get("location")
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,1024}", job_id):
        return refusal(400, "invalid", f"Invalid job ID {job_id!r}")
    location = TOKYO if IN_TOKYO.search(json.dumps(configuration)) else "US"
    if asked and asked != location:
        return refusal(404, "notFound", f"Not found: Dataset was not found in location {asked}")
    with LOCK:
        if there := JOBS_BY_ID.get((project, job_id)):
            there.submissions += 1
            name = f"{project}:{there.location}.{job_id}"
            return refusal(409, "duplicate", f"Already Exists: Job {name}")
        seconds = float((configuration.get("labels") or {}).get("standin-seconds", 0))
        job = JOBS_BY_ID[project, job_id] = Job(job_id, project, location, configuration, seconds)
    if seconds:
        timer = threading.Timer(seconds, end, [job])
        timer.daemon = True
        timer.start()
    else:
        await run_in_threadpool(end, job)
    return JSONResponse(job.resource())


def end(job: Job, error: dict[str, str] | None = None) -> None:
    """End a job: in failure if an ``error`` is planned, else as crucible executes it."""
    with LOCK:
        if job.done or job.executed:
            return
        job.executed = error is None
        if error:
            job.error, job.done = error, True
            return
    if "query" in job.configuration:
        answer = execute(job)
        job.error = (
            answer["status"].get("errorResult") if "status" in answer else answer["error"]["errors"][0]
        )
        job.configuration = {**answer.get("configuration", job.configuration)}
    job.done = True


def execute(job: Job) -> dict[str, Any]:
    """Have crucible execute the job."""
    labels = job.configuration.get("labels") or {}
    body = {"jobReference": {"jobId": job.id, "location": job.location}, "configuration": job.configuration}
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}/crucible/bigquery/v2/projects/{job.project}/jobs",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            resource: dict[str, Any] = json.load(answer)
    except urllib.error.HTTPError as refused:
        resource = json.load(refused)
    else:
        resource["configuration"]["labels"] = labels
    return resource


def at_place(request: Request) -> Job | None:
    """Return the job of a request, if it asks where the job is."""
    job = JOBS_BY_ID.get((request.path_params["project"], request.path_params["job"]))
    asked = request.query_params.get("location")
    if job is None or (asked is None and job.location not in FOUND_WITHOUT_LOCATION):
        return None
    return job if asked in (None, job.location) else None


def for_job(answer: Callable[[Job], Any]) -> Callable[[Request], Any]:
    """Answer requests about one job."""

    async def handle(request: Request) -> JSONResponse:
        if (job := at_place(request)) is None:
            name = f"{request.path_params['project']}:{request.path_params['job']}"
            return refusal(404, "notFound", f"Not found: Job {name}")
        return JSONResponse(answer(job))

    return handle


def cancel(job: Job) -> dict[str, Any]:
    """Cancel a job that goes on; nothing for one that has ended."""
    stopped = {"reason": "stopped", "message": "Job execution was cancelled: User requested cancellation"}
    if not job.done and not job.executed:
        job.cancelled_at = time.time()
        end(job, stopped)
    return {"kind": "bigquery#jobCancelResponse", "job": job.resource()}


def wait_done(job: Job, seconds: float) -> None:
    """Wait for a job's end, not for long: a thread is held meanwhile."""
    until = time.monotonic() + seconds
    while not job.done and time.monotonic() < until:
        time.sleep(0.1)


async def results(request: Request) -> JSONResponse:
    """Wait a little for a query, as Apache's operator has the client do; the rows are nobody's concern."""
    if (job := at_place(request)) is None:
        return refusal(404, "notFound", f"Not found: Job {request.path_params['job']}")
    await run_in_threadpool(wait_done, job, min(float(request.query_params.get("timeoutMs", 0)) / 1000, 1.0))
    if job.error:
        return refusal(400, job.error["reason"], job.error["message"])
    answer = {"kind": "bigquery#getQueryResultsResponse", "jobComplete": job.done}
    empty = {"schema": {"fields": []}, "totalRows": "0"} if job.done else {}
    return JSONResponse({**answer, **empty, "jobReference": job.resource()["jobReference"]})


async def listing(request: Request) -> JSONResponse:
    """All jobs of a project, the latest first, from all locations."""
    since = int(request.query_params.get("minCreationTime", 0))
    jobs = [job for job in JOBS_BY_ID.values() if job.project == request.path_params["project"]]
    found = [job.resource() for job in reversed(jobs) if job.created_at * 1000 >= since]
    return JSONResponse({"kind": "bigquery#jobList", "jobs": found})


async def told(request: Request) -> JSONResponse:
    """All jobs whose label ``airflow-dag`` is ``dag``, in order."""
    dag = request.query_params.get("dag")
    jobs = list(JOBS_BY_ID.values())
    labels = [job.configuration.get("labels") or {} for job in jobs]
    return JSONResponse(
        [asdict(job) for job, has in zip(jobs, labels, strict=True) if dag in (None, has.get("airflow-dag"))]
    )


async def finish(request: Request) -> JSONResponse:
    """End a job now; with ``reason`` in failure."""
    job = next(job for job in JOBS_BY_ID.values() if job.id == request.path_params["job"])
    reason = (await request.json()).get("reason")
    error = {"reason": reason, "message": f"made to fail: {reason}"} if reason else None
    await run_in_threadpool(end, job, error)
    return JSONResponse(asdict(job))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    PORT = parser.parse_args().port
    crucible = create_app("bigquery", Engine(None))
    app = Starlette(
        routes=[
            Route(JOBS, insert, methods=["POST"]),
            Route(JOBS, listing),
            Route(f"{JOBS}/{{job}}", for_job(Job.resource)),
            Route(f"{JOBS}/{{job}}/cancel", for_job(cancel), methods=["POST"]),
            Route("/bigquery/v2/projects/{project}/queries/{job}", results),
            Route("/standin/jobs", told),
            Route("/standin/jobs/{job}/finish", finish, methods=["POST"]),
            Mount("/crucible", crucible),
            Mount("/", crucible),
        ]
    )
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="warning", http="h11")
