"""The server side of the AWS Batch stand-in: moto's server, whose jobs take time and have an outcome.

Runs in moto's own venv, as a process; tests talk to it through batch_service.py. moto answers AWS's API;
this file replaces what a job does over time, and what moto 5.2.5 leaves out of ListJobs and DescribeJobs.
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from typing import Any
from urllib.parse import parse_qs

from moto.batch import models as batch_models
from moto.batch import responses as batch_responses
from moto.batch import urls as batch_urls
from moto.batch.exceptions import ClientException
from moto.batch_simple import models as simple_models
from moto.core.models import default_user_config
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ACTIVE = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING")
DEFAULT_SECONDS = 5.0
DESCRIBE_LIMIT = 100
LIST_LIMIT = 100
JOB_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
LOCK = threading.RLock()
#: Seconds by which whoever asks is ahead of this process: ``X-Standin-Now`` of the latest request says so.
AHEAD = [0.0]
JOBS: dict[str, StandinJob] = {}
"""Every job ever submitted, forgotten ones included: what tests count."""


def now() -> float:
    """The time, in seconds since the epoch, of whoever asks."""
    return time.time() + AHEAD[0]


class StandinJob(batch_models.Job):
    """A job whose status follows from the clock; nothing runs, and no thread waits.

    Its parameters (or environment variables of the same names in capitals) say what happens to it:
    ``standin_seconds`` in RUNNING, ``standin_start_seconds`` until RUNNING, ``standin_stop_seconds``
    between TerminateJob and FAILED, ``standin_exit_code`` and ``standin_reason``, and ``standin_log``:
    lines for CloudWatch.
    """

    __module__ = "moto.batch.standin"  # moto's metaclass reads the service from it

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.created = now()
        self.forgotten = False
        self.terminated_at: float | None = None
        self.finished: tuple[float, int | None, str | None] | None = None
        self.is_cancelled = False
        self.log_stream_name = self._stream_name
        self.environment = self._container_property_environment()
        self.start_seconds = float(self._setting("standin_start_seconds", 0.2))
        self.run_seconds = float(self._setting("standin_seconds", DEFAULT_SECONDS))
        self.stop_seconds = float(self._setting("standin_stop_seconds", 0.0))
        with LOCK:
            JOBS[self.job_id] = self

    def _container_property_environment(self) -> list[dict[str, str]]:
        own = self.container_overrides.get("environment", [])
        defined = (self.job_definition.container_properties or {}).get("environment", [])
        names = {entry["name"] for entry in own}
        return [*own, *(entry for entry in defined if entry["name"] not in names)]

    def _setting(self, name: str, default: Any) -> Any:
        if name in self.parameters:
            return self.parameters[name]
        variables = {entry["name"]: entry["value"] for entry in self.environment}
        return variables.get(name.upper(), default)

    def finish(self, exit_code: int | None, reason: str | None, delay: float = 0.0) -> None:
        """End the job ``delay`` seconds from now, unless it ends before."""
        if self.status in ACTIVE:
            self.finished = (now() + delay, exit_code, reason)

    def terminate(self, reason: str) -> None:
        """TerminateJob: FAILED after ``standin_stop_seconds``, with the caller's reason."""
        if self.terminated_at is None and self.status in ACTIVE:
            self.terminated_at = now()
            started = self.status in ("STARTING", "RUNNING")
            self.finish(137 if started else None, reason, self.stop_seconds if started else 0.0)
        for child in self._child_jobs or []:
            child.terminate(reason)

    def _end(self) -> tuple[float, int | None, str | None]:
        """When the job ends or ended, its exit code, and its status reason."""
        if self.finished is not None:
            return self.finished
        exit_code = int(self._setting("standin_exit_code", 0))
        default = "Essential container in task exited" if exit_code else None
        end = self.created + self.start_seconds + self.run_seconds
        return end, exit_code, self._setting("standin_reason", default)

    @property
    def status(self) -> str:
        """Where the job is now, from the clock; an array job follows its children."""
        if getattr(self, "_child_jobs", None):
            return self._array_status()
        end, exit_code, _ = self._end()
        moment = now()
        if moment >= end:
            return "SUCCEEDED" if exit_code == 0 else "FAILED"
        share = (moment - self.created) / self.start_seconds if self.start_seconds else 1.0
        if share >= 1.0:
            return "RUNNING"
        return ("SUBMITTED", "RUNNABLE", "STARTING")[min(2, int(share * 3))]

    @status.setter
    def status(self, value: str) -> None:
        """What moto would set is of no meaning here."""

    def _array_status(self) -> str:
        states = [child.status for child in self._child_jobs or []]
        if any(state in ACTIVE for state in states):
            return "PENDING" if any(state != "SUBMITTED" for state in states) else "SUBMITTED"
        return "FAILED" if "FAILED" in states else "SUCCEEDED"

    def describe_short(self) -> dict[str, Any]:
        """The job as ListJobs has it."""
        status = self.status
        end, exit_code, reason = self._end()
        result = {
            "jobId": self.job_id,
            "jobArn": self.arn,
            "jobName": self.job_name,
            "createdAt": int(self.created * 1000),
            "status": status,
            "jobDefinition": self.job_definition.arn,
        }
        if self.terminated_at is not None:
            result["isTerminated"] = True
        if self.is_cancelled:
            result["isCancelled"] = True
        if status not in ACTIVE[:4]:
            started = int((self.created + self.start_seconds) * 1000)
            result["startedAt"] = started
        if status not in ACTIVE:
            result["stoppedAt"] = int(end * 1000)
            if exit_code is not None:
                result["container"] = {"exitCode": exit_code}
        if reason is not None and (status not in ACTIVE or self.terminated_at is not None):
            result["statusReason"] = reason
        if "index" in self.array_properties:
            result["arrayProperties"] = {"index": self.array_properties["index"]}
        return result

    def describe(self) -> dict[str, Any]:
        """The job as DescribeJobs has it."""
        result = {
            **self.describe_short(),
            "jobQueue": self.job_queue.arn,
            "dependsOn": self.depends_on or [],
            "parameters": self.parameters,
            "tags": self.backend.list_tags_for_resource(self.arn),
            "attempts": [],
        }
        if self.timeout:
            result["timeout"] = self.timeout
        container = {**result.get("container", {}), "environment": self.environment}
        if result["status"] not in ACTIVE[:4]:
            container["logStreamName"] = self.log_stream_name
        if self._child_jobs:
            states = [child.status for child in self._child_jobs]
            summary = {state: states.count(state) for state in (*ACTIVE, "SUCCEEDED", "FAILED")}
            result["arrayProperties"] = {"statusSummary": summary, "size": len(states)}
        if self.job_definition.type == "multinode":
            result["nodeProperties"] = self.job_definition.node_properties
        else:
            properties = self.job_definition.container_properties or {}
            container.setdefault("logConfiguration", properties.get("logConfiguration", {}))
            container["command"] = self.container_overrides.get("command", properties.get("command", []))
        if "startedAt" in result:
            attempt = {key: result[key] for key in ("startedAt", "stoppedAt") if key in result}
            attempt["container"] = {k: container[k] for k in ("exitCode", "logStreamName") if k in container}
            result["attempts"] = [attempt]
        result["container"] = container
        return result


def keep_job(_backend: Any, *, include_start_attempt: bool, job: StandinJob) -> None:
    """Replace moto's "mark as finished": the job is known, and goes on by the clock."""
    job.backend.backend._jobs[job.job_id] = job
    if lines := job.parameters.get("standin_log"):
        logs = job._log_backend
        logs.ensure_log_group(job._log_group)
        logs.ensure_log_stream(job._log_group, job._stream_name)
        moment = int(now() * 1000)
        events = [{"timestamp": moment, "message": line} for line in lines.splitlines()]
        logs.put_log_events(job._log_group, job._stream_name, events)


class StandinResponse(batch_responses.BatchResponse):
    """What moto 5.2.5 answers differently from AWS, by the API reference of each operation."""

    def submitjob(self) -> str:
        """SubmitJob with AWS's rule for names."""
        name = self._get_param("jobName") or ""
        if not JOB_NAME.fullmatch(name):
            raise ClientException("Error executing request, Exception : Job name should match valid pattern")
        return super().submitjob()

    def describejobs(self) -> str:
        """DescribeJobs: up to 100 ids or ARNs; what is not known is left out."""
        wanted = self._get_param("jobs") or []
        if len(wanted) > DESCRIBE_LIMIT:
            raise ClientException(f"Error executing request, Exception : jobs size exceeds {DESCRIBE_LIMIT}")
        keys = [key.rpartition("job/")[2] if key.startswith("arn:") else key for key in wanted]
        found = [JOBS[key] for key in keys if key in JOBS and not JOBS[key].forgotten]
        return json.dumps({"jobs": [job.describe() for job in found]})

    def listjobs(self) -> str:
        """ListJobs: one filter at a time, newest first, in pages; without filter or status only RUNNING."""
        filters = self._get_param("filters") or []
        if len(filters) > 1:
            raise ClientException(
                "Error executing request, Exception : Only one filter can be used at a time"
            )
        parent = self._get_param("arrayJobId")
        if parent:
            jobs = [job for job in JOBS.values() if job.job_id.startswith(f"{parent}:")]
        else:
            queue = self.batch_backend.get_job_queue(self._get_param("jobQueue") or "")
            if queue is None:
                raise ClientException(f"Job queue {self._get_param('jobQueue')} does not exist")
            jobs = [job for job in JOBS.values() if job.job_queue is queue and ":" not in job.job_id]
        jobs = [job for job in jobs if not job.forgotten]
        if filters and not parent:
            jobs = [job for job in jobs if _matches(job, filters[0])]
        else:
            status = self._get_param("jobStatus") or "RUNNING"
            jobs = [job for job in jobs if job.status == status]
        jobs.sort(key=lambda job: job.created, reverse=True)
        first = int(self._get_param("nextToken") or 0)
        last = first + min(int(self._get_param("maxResults") or LIST_LIMIT), LIST_LIMIT if filters else 1000)
        answer: dict[str, Any] = {"jobSummaryList": [job.describe_short() for job in jobs[first:last]]}
        if last < len(jobs):
            answer["nextToken"] = str(last)
        return json.dumps(answer)


def _matches(job: StandinJob, filter_: dict[str, Any]) -> bool:
    value = filter_["values"][0]
    name = filter_["name"]
    if name == "JOB_NAME":
        own, value = job.job_name.lower(), value.lower()
        return own.startswith(value[:-1]) if value.endswith("*") else own == value
    if name == "JOB_DEFINITION":
        if value.startswith("arn:"):
            return job.job_definition.arn == value
        own = job.job_definition.name
        return own.startswith(value[:-1]) if value.endswith("*") else own == value
    if name in ("AFTER_CREATED_AT", "BEFORE_CREATED_AT"):
        later = int(job.created * 1000) - int(value)
        return later > 0 if name == "AFTER_CREATED_AT" else later < 0
    raise ClientException(f"Error executing request, Exception : Invalid filter name {name}")


def view(job: StandinJob) -> dict[str, Any]:
    """A job as tests see it, whatever the API still tells about it."""
    short = job.describe_short()
    return {
        "id": job.job_id,
        "name": job.job_name,
        "status": short["status"],
        "parameters": job.parameters,
        "created_at": job.created,
        "started_at": short.get("startedAt", 0) / 1000 or None,
        "stopped_at": short.get("stoppedAt", 0) / 1000 or None,
        "terminated_at": job.terminated_at,
        "status_reason": short.get("statusReason"),
        "exit_code": short.get("container", {}).get("exitCode"),
        "forgotten": job.forgotten,
        "array_parent": job.job_id.rpartition(":")[0] or None,
    }


def control(method: str, path: list[str], query: dict[str, list[str]], body: dict[str, Any]) -> Any:
    """What tests may do that AWS does not offer: see everything, finish a job now, forget it."""
    with LOCK:
        if method == "GET" and path == ["jobs"]:
            prefix = query.get("name", [""])[0]
            return [view(job) for job in list(JOBS.values()) if job.job_name.startswith(prefix)]
        job = JOBS[path[1]]
        if path[2] == "finish":
            job.finish(body.get("exit_code", 0), body.get("reason"), body.get("delay", 0.0))
        elif path[2] == "forget":
            job.forgotten = True
        return view(job)


class Application:
    """moto's WSGI application, with ``/standin/...`` in front of it and a short way to AWS Batch."""

    def __init__(self) -> None:
        self.moto = DomainDispatcherApplication(create_backend_app)
        self.batch = create_backend_app("batch")

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Any:
        """Answer one request."""
        path = environ.get("PATH_INFO", "")
        if "HTTP_X_STANDIN_NOW" in environ:
            AHEAD[0] = float(environ["HTTP_X_STANDIN_NOW"]) - time.time()
        if not path.startswith("/standin/"):
            # moto finds the service by 150 patterns, behind a lock: not needed where the path says it.
            return (self.batch if path.startswith("/v1/") else self.moto)(environ, start_response)
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = json.loads(environ["wsgi.input"].read(length) or b"{}")
        query = parse_qs(environ.get("QUERY_STRING", ""))
        try:
            answer, status = control(environ["REQUEST_METHOD"], path.split("/")[2:], query, body), "200 OK"
        except (KeyError, IndexError) as unknown:
            answer, status = {"error": repr(unknown)}, "404 Not Found"
        data = json.dumps(answer).encode()
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(data)))])
        return [data]


class QuietHandler(WSGIRequestHandler):
    """Keeps connections open and logs nothing: a benchmark asks a hundred times a second."""

    protocol_version = "HTTP/1.1"

    def log_request(self, *_: Any) -> None:
        """Log nothing."""


def main() -> None:
    """Serve until ended by a signal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    default_user_config["batch"] = {"use_docker": False}
    simple_models.Job = StandinJob
    simple_models.BatchSimpleBackend._mark_job_as_finished = keep_job
    for pattern in batch_urls.url_paths:
        batch_urls.url_paths[pattern] = StandinResponse.dispatch
    server = make_server(
        "127.0.0.1", options.port, Application(), threaded=True, request_handler=QuietHandler
    )
    server.serve_forever()


if __name__ == "__main__":
    main()
