"""AWS Batch as a process on loopback, for tests: start it, see every job, decide how jobs end.

The process is batch_standin.py in moto's venv. Start it with ``BatchService.start(folder)``; another
process takes hold of the same one with ``BatchService(url)``. What it answers is AWS's API at ``.url``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.http_client import HttpClient
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port, wait_until
from harness.venvs import python_of

REGION = "eu-west-1"
QUEUE = "standin-queue"
DEFINITION = "standin-definition"
CREDENTIALS = {"aws_access_key_id": "standin", "aws_secret_access_key": "standin"}
ACTIVE = frozenset({"SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING"})


@dataclass(frozen=True)
class BatchJob:
    """One job as the service has it; times are seconds since the epoch."""

    id: str
    name: str
    status: str
    parameters: dict[str, str]
    created_at: float
    started_at: float | None
    stopped_at: float | None
    terminated_at: float | None
    status_reason: str | None
    exit_code: int | None
    forgotten: bool
    array_parent: str | None

    @property
    def terminated(self) -> bool:
        """Whether somebody asked the service to stop the job."""
        return self.terminated_at is not None

    @property
    def active(self) -> bool:
        """Whether it has yet to end."""
        return self.status in ACTIVE


@dataclass
class BatchService:
    """A client of the stand-in's control side, and the process itself where ``start`` made it."""

    url: str
    process: ServiceProcess | None = None
    http: HttpClient = field(default_factory=HttpClient, repr=False)

    @classmethod
    def start(cls, folder: Path, port: int | None = None) -> BatchService:
        """Start the service with a queue (``QUEUE``) and a job definition (``DEFINITION``).

        :param folder: holds the process's log and pid file.
        """
        port = port or free_port()
        command = [python_of("moto"), str(Path(__file__).with_name("batch_standin.py")), "--port", str(port)]
        process = ServiceProcess.start("batch", command, folder=folder, ready=lambda: accepts(port), grace=1)
        service = cls(f"http://{LOOPBACK}:{port}", process)
        service._set_up()
        return service

    def stop(self) -> None:
        """End the process, if this object started it."""
        if self.process is not None:
            self.process.stop()

    def client(self, service: str = "batch") -> Any:
        """A boto3 client of the stand-in."""
        import boto3

        return boto3.client(service, endpoint_url=self.url, region_name=REGION, **CREDENTIALS)

    def _set_up(self) -> None:
        role = self.client("iam").create_role(RoleName="standin", AssumeRolePolicyDocument="{}")
        batch = self.client()
        environment = batch.create_compute_environment(
            computeEnvironmentName="standin", type="UNMANAGED", serviceRole=role["Role"]["Arn"]
        )
        order = [{"order": 1, "computeEnvironment": environment["computeEnvironmentArn"]}]
        batch.create_job_queue(jobQueueName=QUEUE, state="ENABLED", priority=1, computeEnvironmentOrder=order)
        self.define_job(DEFINITION)

    def define_job(self, name: str, **container: Any) -> None:
        """Register a job definition of a container job; ``container`` adds to its properties."""
        properties = {"image": "busybox", "command": ["true"], "vcpus": 1, "memory": 128, **container}
        self.client().register_job_definition(
            jobDefinitionName=name, type="container", containerProperties=properties
        )

    def jobs(self, name: str = "") -> list[BatchJob]:
        """All jobs ever submitted, in order, forgotten ones too, whose name starts with ``name``."""
        answer = self.http.get(f"{self.url}/standin/jobs", params={"name": name})
        answer.raise_for_status()
        return [BatchJob(**job) for job in answer.json()]

    def job(self, job_id: str) -> BatchJob:
        """One job."""
        return next(job for job in self.jobs() if job.id == job_id)

    def finish(
        self, job_id: str, *, exit_code: int | None = 0, reason: str | None = None, delay: float = 0.0
    ) -> BatchJob:
        """End a job now, or ``delay`` seconds from now; exit code 0 is SUCCEEDED, all else FAILED."""
        body = {"exit_code": exit_code, "reason": reason, "delay": delay}
        return self._post(f"jobs/{job_id}/finish", body)

    def forget(self, job_id: str) -> BatchJob:
        """Make the service forget a job, as AWS does some days after its end."""
        return self._post(f"jobs/{job_id}/forget", {})

    def _post(self, path: str, body: dict[str, Any]) -> BatchJob:
        answer = self.http.post(f"{self.url}/standin/{path}", json=body)
        answer.raise_for_status()
        return BatchJob(**answer.json())

    def wait_running(self, name: str, count: int = 1, timeout: float = 240.0) -> list[BatchJob]:
        """Wait until ``count`` jobs of this name are RUNNING, and return them."""

        def running() -> list[BatchJob] | None:
            found = [job for job in self.jobs(name) if job.status == "RUNNING"]
            return found if len(found) >= count else None

        return wait_until(running, lambda: f"{count} running: {self.jobs(name)}", timeout)

    def wait_submitted(self, name: str, count: int = 1, timeout: float = 240.0) -> list[BatchJob]:
        """Wait until ``count`` jobs of this name were submitted, whatever became of them."""

        def submitted() -> list[BatchJob] | None:
            found = self.jobs(name)
            return found if len(found) >= count else None

        return wait_until(submitted, lambda: f"{count} submitted: {self.jobs(name)}", timeout)
