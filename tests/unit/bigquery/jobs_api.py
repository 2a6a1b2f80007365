"""BigQuery's jobs in memory, behind the real Google client, and the operator and contexts of one task.

Of the provider and the client nothing is replaced but the transport.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import requests
import responses

from airflow_provider_durable.resumable import submission
from unit.fakes import TaskInstance

if TYPE_CHECKING:
    import pytest

    from unit.fakes import Store

HOST = "https://bigquery.googleapis.com/bigquery/v2"
PROJECT = "a-project"
#: Where the data is, and so where BigQuery runs a job that is sent without a location.
TOKYO = "asia-northeast1"


def refusal(status: int, reason: str, message: str = "no") -> tuple[int, dict[str, str], str]:
    """An answer of BigQuery's that is an error."""
    error = {"code": status, "message": message, "errors": [{"reason": reason, "message": message}]}
    return status, {}, json.dumps({"error": error})


class FakeBigQuery:
    """Jobs with places: outside US and EU none is found without its location."""

    def __init__(self, mock: responses.RequestsMock) -> None:
        #: After so many jobs.get a running job ends, in success or for this reason; None: it runs on.
        self.ends_after: int | None = 1
        self.ends_with: str | None = None
        self.project = PROJECT
        self.jobs: dict[str, dict[str, Any]] = {}
        #: (method, location) of each request, in order.
        self.requests: list[tuple[str, str | None]] = []
        #: By method: what happens instead, or (``lost``) after the request was carried out.
        self.planned: dict[str, list[Any]] = {}
        self.lost: dict[str, list[Any]] = {}
        self.to_repeats: list[Any] = []
        #: Milliseconds since the epoch, of each jobs.list.
        self.listed_since: list[int] = []
        jobs = rf"{re.escape(HOST)}/projects/[^/]+/jobs"
        for verb, url, handler in (
            ("POST", rf"{jobs}/[^/]+/cancel", self._cancel),
            ("POST", rf"{jobs}", self._insert),
            ("GET", rf"{jobs}/[^/]+", self._get),
            ("GET", rf"{jobs}", self._list),
        ):
            mock.add_callback(verb, re.compile(rf"{url}(\?.*)?$"), callback=self._wrap(handler))

    def _wrap(self, handler: Callable[[Any, list[str]], Any]) -> Callable[[Any], Any]:
        def callback(request: Any) -> Any:
            method = handler.__name__[1:]
            path = request.path_url.partition("?")[0].split("/projects/")[1].split("/")
            location = request.params.get("location")
            if method == "insert":
                location = json.loads(request.body)["jobReference"].get("location")
            self.requests.append((method, location))
            if planned := self.planned.get(method):
                return _play(planned.pop(0))
            answer = handler(request, path)
            if lost := self.lost.get(method):
                # What a repeat of the lost request is answered.
                self.planned.setdefault(method, []).extend(self.to_repeats)
                return _play(lost.pop(0))
            return answer if isinstance(answer, tuple) else (200, {}, json.dumps(answer))

        return callback

    def _insert(self, request: Any, path: list[str]) -> Any:
        body = json.loads(request.body)
        job_id = body["jobReference"]["jobId"]
        assert re.fullmatch(r"[A-Za-z0-9_-]{1,1024}", job_id)
        if body["configuration"].get("dryRun"):
            return self._resource(body["configuration"], {"projectId": path[0], "location": TOKYO}, "DONE")
        if job_id in self.jobs:
            there = self.jobs[job_id]["jobReference"]
            message = f"Already Exists: Job {there['projectId']}:{there['location']}.{job_id}"
            return refusal(409, "duplicate", message)
        return self.start(job_id, body["configuration"], body["jobReference"].get("location") or TOKYO)

    def _get(self, request: Any, path: list[str]) -> Any:
        job = self._find(request, path)
        if job is None:
            return refusal(404, "notFound", f"Not found: Job {path[0]}:{path[2]}")
        if self.ends_after is not None and job["status"]["state"] != "DONE":
            job["gets"] = job.get("gets", 0) + 1
            if job["gets"] > self.ends_after:
                self.finish(path[2], self.ends_with)
        return job

    def _find(self, request: Any, path: list[str]) -> dict[str, Any] | None:
        job = self.jobs.get(path[2])
        asked = request.params.get("location")
        if job is None or path[0] != job["jobReference"]["projectId"]:
            return None
        there = job["jobReference"]["location"]
        return job if there == asked or (asked is None and there in ("US", "EU")) else None

    def _list(self, request: Any, path: list[str]) -> Any:
        since = int(request.params.get("minCreationTime", 0))
        self.listed_since.append(since)
        newest_first = reversed(self.jobs.values())
        return {"jobs": [job for job in newest_first if int(job["statistics"]["creationTime"]) >= since]}

    def _cancel(self, request: Any, path: list[str]) -> Any:
        job = self._find(request, path)
        if job is None:
            return refusal(404, "notFound", f"Not found: Job {path[0]}:{path[2]}")
        if job["status"]["state"] != "DONE":
            self.finish(path[2], "stopped", "Job execution was cancelled: User requested cancellation")
        return {"job": job}

    @staticmethod
    def _resource(configuration: dict[str, Any], reference: dict[str, Any], state: str) -> dict[str, Any]:
        created = str(int(time.time() * 1000))
        statistics = {"creationTime": created, "totalBytesProcessed": "7"}
        return {
            "jobReference": reference,
            "configuration": configuration,
            "status": {"state": state},
            "statistics": statistics,
        }

    # -- what a test does ----------------------------------------------------------------------

    def start(self, job_id: str, configuration: dict[str, Any], location: str = TOKYO) -> dict[str, Any]:
        """Start a job; also one that nobody here submitted."""
        reference = {"projectId": self.project, "jobId": job_id, "location": location}
        self.jobs[job_id] = self._resource(configuration, reference, "RUNNING")
        return self.jobs[job_id]

    def finish(self, job_id: str, reason: str | None = None, message: str = "went wrong") -> None:
        """End a job, in failure if there is a ``reason``."""
        status: dict[str, Any] = {"state": "DONE"}
        if reason:
            error = {"reason": reason, "message": message}
            status.update(errorResult=error, errors=[error])
        self.jobs[job_id]["status"] = status

    @property
    def only_id(self) -> str:
        """The id of the one job there is."""
        (job_id,) = self.jobs
        return job_id

    def methods(self) -> list[str]:
        """The methods that were called, in order."""
        return [method for method, _ in self.requests]


@contextmanager
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBigQuery]:
    """A BigQuery whose data is in Tokyo, and a connection to it; a job is seen running once, and succeeds."""
    extra = {"project": PROJECT, "is_anonymous": True}
    connection = {"conn_type": "google_cloud_platform", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_GOOGLE_CLOUD_DEFAULT", json.dumps(connection))
    # The Google client's own repeats begin after a second.
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.002)))
    monkeypatch.setattr(submission, "jitter", lambda seconds: 0.0)
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield FakeBigQuery(mock)


def _play(planned: Any) -> Any:
    if isinstance(planned, BaseException):
        raise planned
    return planned


#: The connection breaks before the answer; the Google client repeats the request.
BROKEN = requests.exceptions.ConnectionError("connection reset by peer")

QUERY = {"query": {"query": "INSERT INTO lake.visits VALUES (1)", "useLegacySql": False}}


@dataclass
class Ti(TaskInstance):
    """A task instance that keeps what is pushed."""

    pushed: list[tuple[str, Any]] = field(default_factory=list)

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed.append((key, value))

    @property
    def xcoms(self) -> dict[str, Any]:
        return dict(self.pushed)


def make(**parameters: Any) -> Any:
    """Return an operator that polls fast, as a new process has it."""
    from airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator

    parameters.setdefault("configuration", json.loads(json.dumps(QUERY)))
    parameters.setdefault("poll_interval", 0.001)
    return BigQueryInsertJobOperator(task_id="load.visits", **parameters)


def context(store: Store | None = None, **ti: Any) -> Any:
    """Return the context of a try in one run."""
    due = datetime(2026, 3, 1, tzinfo=timezone.utc)
    dag_run = SimpleNamespace(start_date=due, run_after=due, run_type="manual")
    given: dict[str, Any] = {"ti": Ti(**ti), "dag_run": dag_run, "logical_date": due}
    if store is not None:
        given["task_state_store"] = store
    return given
