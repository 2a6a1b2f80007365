"""
A service of a few lines, an operator on it, and an Airflow that forgets nothing but its processes.

For unit tests: the store is a dictionary that outlives tries, a crash is an exception that no code may
catch.
"""

from __future__ import annotations

import itertools
import signal
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from airflow_provider_durable.resumable import ResumableJobMixin
from airflow_provider_durable.resumable.compat import BaseOperator


class Crash(BaseException):
    """The process dies here."""


@dataclass
class Job:
    """One job at the service."""

    id: str
    token: str = ""
    status: str = "RUNNING"
    cancels: int = 0


class Service:
    """An external system that starts jobs and knows what became of them."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.calls: list[str] = []
        self.failures: dict[str, list[Exception | None]] = {}
        self._ids = itertools.count(1)

    def call(self, name: str) -> None:
        """Count a request, and fail it if that is planned."""
        self.calls.append(name)
        if (planned := self.failures.get(name)) and (error := planned.pop(0)) is not None:
            raise error

    def submit(self, token: str = "") -> str:
        self.call("submit")
        job = Job(id=f"job-{next(self._ids)}", token=token)
        self.jobs[job.id] = job
        self.call("submit-answer")
        return job.id

    def status(self, job_id: Any) -> str:
        self.call("status")
        return self.jobs[job_id].status if job_id in self.jobs else "NOT_FOUND"

    def find(self, token: str) -> str | None:
        self.call("find")
        return next((job.id for job in self.jobs.values() if job.token == token), None)

    def cancel(self, job_id: Any) -> None:
        self.call("cancel")
        job = self.jobs[job_id]
        job.cancels += 1
        if job.status == "RUNNING":
            job.status = "CANCELLED"

    @property
    def active(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.status == "RUNNING"]


class QuickService(Service):
    """A service whose jobs have ended at the first look."""

    ends_as = "SUCCEEDED"

    def status(self, job_id: Any) -> str:
        self.call("status")
        if self.jobs[job_id].status == "RUNNING":
            self.jobs[job_id].status = self.ends_as
        return self.jobs[job_id].status


class Store:
    """``context["task_state_store"]``: JSON values by key, and what was asked of it."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.calls: list[tuple[Any, ...]] = []
        self.before_call = lambda name: None

    def get(self, key: str, default: Any = None) -> Any:
        self.before_call("get")
        self.calls.append(("get", key))
        return self.values.get(key, default)

    def set(self, key: str, value: Any, **options: Any) -> None:
        self.before_call("set")
        assert value is not None
        self.calls.append(("set", key, value, options))
        self.values[key] = value

    def delete(self, key: str) -> None:
        self.before_call("delete")
        self.calls.append(("delete", key))
        self.values.pop(key, None)

    def sets(self) -> list[str]:
        return [call[1] for call in self.calls if call[0] == "set"]


@dataclass
class TaskInstance:
    """What the mixin reads of a task instance."""

    try_number: int = 1
    max_tries: int = 0
    dag_id: str = "dag"
    task_id: str = "job"
    run_id: str = "run"
    map_index: int = -1
    state: Any = "running"
    stats_tags: dict[str, str] = field(default_factory=dict)

    def get_task_states(self, **_: Any) -> dict[str, dict[str, Any]]:
        if isinstance(self.state, Exception):
            raise self.state
        return {self.run_id: {} if self.state is None else {self.task_id: self.state}}


class SixHooks(ResumableJobMixin, BaseOperator):
    """An operator as it is written for Airflow's own mixin: nothing of ours."""

    external_id_key = "job_id"
    service: Service

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> Any:
        return self.service.submit()

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return self.service.status(external_id)

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        self.service.call("poll")
        job = self.service.jobs[external_id]
        if job.status == "RUNNING":
            job.status = "SUCCEEDED"
        if job.status != "SUCCEEDED":
            raise RuntimeError(job.status)

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        self.service.call("result")
        return f"result of {external_id}"


class Durable(SixHooks):
    """An operator with all the hooks."""

    def submit_job(self, context: Any) -> Any:
        return self.service.submit(self.submission_token)

    def recover_job(self, token: str, context: Any) -> Any:
        return self.service.find(token)

    def cancel_job(self, external_id: Any, context: Any) -> None:
        self.service.cancel(external_id)

    def make_trigger(self, external_id: Any, context: Any) -> Any:
        return SimpleNamespace(external_id=external_id)

    poll_until_complete = ResumableJobMixin.poll_until_complete


def make(operator: type[SixHooks] = Durable, service: Service | None = None, **parameters: Any) -> Any:
    """Return an operator on ``service`` that polls fast."""
    if operator is not SixHooks:
        parameters.setdefault("poll_interval", timedelta(milliseconds=1))
    task = operator(task_id="job", **parameters)
    task.service = service or Service()
    return task


def context(store: Store | None = None, **ti: Any) -> dict[str, Any]:
    """Return an Airflow context."""
    given: dict[str, Any] = {"ti": TaskInstance(**ti)}
    if store is not None:
        given["task_state_store"] = store
    return given


def waiting(service: Service, **parameters: Any) -> Any:
    """Return an operator that looks once and then sleeps for a minute."""
    return make(Durable, service, poll_interval=60, **parameters)


def kill_soon(after: float = 0.1) -> None:
    """Send SIGTERM from elsewhere; Linux delivers a process's signals to its main thread."""
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(after, signal.pthread_kill, (main, signal.SIGTERM)).start()
