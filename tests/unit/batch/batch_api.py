"""AWS Batch behind boto3's client, in a process, with failures to plan; an operator and its contexts."""

from __future__ import annotations

import copy
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from airflow_provider_durable.operators.batch import BatchOperator
from airflow_provider_durable.resumable import submission
from airflow_provider_durable.resumable.record import utcnow
from unit.fakes import Store, TaskInstance

if TYPE_CHECKING:
    import pytest

NAMES = {"job_name": "report", "job_queue": "queue", "job_definition": "definition"}


def client_error(code: str, http_status: int = 400, operation: str = "SubmitJob") -> ClientError:
    response = {
        "Error": {"Code": code, "Message": f"about {code}"},
        "ResponseMetadata": {"HTTPStatusCode": http_status},
    }
    return ClientError(response, operation)  # type: ignore[arg-type]


class Client:
    """The few calls of boto3's client for ``batch``, and what AWS would remember."""

    meta = SimpleNamespace(region_name="eu-west-1", partition="aws")
    meta.client = SimpleNamespace(meta=meta)
    attempts: int | None = None
    #: Whether an operator may leave it to boto3 to send SubmitJob again, as Apache's does.
    takes_repeats = False
    #: What becomes of a job.
    ends_as = "SUCCEEDED"

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.submit_errors: list[tuple[bool, Exception]] = []
        self.errors: dict[str, list[Exception]] = {}
        self.page = 100

    def with_attempts(self, attempts: int | None) -> Client:
        """Return a client of the same account that sends each request so often."""
        client = copy.copy(self)
        client.attempts = attempts
        return client

    def _note(self, name: str, request: dict[str, Any]) -> None:
        self.requests.append((name, request))
        if self.errors.get(name):
            raise self.errors[name].pop(0)

    def submit_job(self, **request: Any) -> dict[str, Any]:
        assert self.takes_repeats or self.attempts == 1, "boto3 would repeat the request by itself"
        self._note("submit", request)
        accepted, error = self.submit_errors.pop(0) if self.submit_errors else (True, None)
        job_id = f"00000000-{len(self.jobs)}"
        if accepted:
            self.jobs[job_id] = {
                "jobId": job_id,
                "jobName": request["jobName"],
                "jobDefinition": "arn:definition",
                "jobQueue": "arn:queue",
                "status": self.ends_as,
                "createdAt": int(utcnow().timestamp() * 1000),
                "parameters": request.get("parameters", {}),
            }
        if error:
            raise error
        return {"jobId": job_id, "jobName": request["jobName"]}

    def describe_jobs(self, jobs: list[str]) -> dict[str, Any]:
        self._note("describe", {"jobs": jobs})
        assert len(jobs) <= 100
        return {"jobs": [self.jobs[job_id] for job_id in jobs if job_id in self.jobs]}

    def list_jobs(self, **request: Any) -> dict[str, Any]:
        self._note("list", request)
        (only,) = request["filters"]
        assert only["name"] == "JOB_NAME"
        named = [job for job in self.jobs.values() if job["jobName"] == only["values"][0]]
        named.sort(key=lambda job: -job["createdAt"])
        begin = int(request.get("nextToken", 0))
        page = [
            {key: job[key] for key in ("jobId", "jobName", "createdAt")} for job in named[begin:][: self.page]
        ]
        more = {"nextToken": str(begin + self.page)} if begin + self.page < len(named) else {}
        return {"jobSummaryList": page, **more}

    def terminate_job(self, **request: Any) -> dict[str, Any]:
        self._note("terminate", request)
        return {}

    def sent(self, name: str) -> list[dict[str, Any]]:
        return [request for kind, request in self.requests if kind == name]


def account(monkeypatch: pytest.MonkeyPatch) -> Client:
    """Have the provider's hook use a client of an account without jobs."""
    from airflow.providers.amazon.aws.hooks.batch_client import BatchClientHook

    client = Client()

    def get_client_type(self: Any, region_name: Any = None, config: Any = None, **_: Any) -> Any:
        retries = (config.retries or {}) if config else {}
        return client.with_attempts(retries.get("total_max_attempts"))

    monkeypatch.setattr(BatchClientHook, "get_client_type", get_client_type)
    monkeypatch.setattr(submission, "jitter", lambda seconds: 0.0)
    monkeypatch.setattr("airflow_provider_durable.operators.batch._VISIBLE_AFTER", timedelta(0))
    return client


class Pushing(TaskInstance):
    """Keeps the XComs of one try; with ``broken``, there is no pushing."""

    broken = False

    def __init__(self, **fields: Any) -> None:
        super().__init__(**fields)
        self.xcoms: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any, **_: Any) -> None:
        if self.broken:
            raise ConnectionError("the API server is away")
        self.xcoms[key] = value


def operator(**parameters: Any) -> BatchOperator:
    given = {**NAMES, "poll_interval": 0.01, **parameters}
    return BatchOperator(task_id="job", aws_conn_id=None, region_name="eu-west-1", **given)


def context(store: Store | None = None, **ti: Any) -> Any:
    return {"ti": Pushing(**ti), "task_state_store": Store() if store is None else store}
