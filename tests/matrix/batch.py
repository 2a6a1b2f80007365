"""AWS Batch: moto's server, as the end-to-end tests have it, asked through boto3."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from harness.airflow_server import aws_connection
from harness.batch_service import DEFINITION, QUEUE, BatchService
from matrix.service import Job, Service

if TYPE_CHECKING:
    from matrix.kinds import Side, Way

#: The operation by the last part of its path.
OPERATIONS = {
    "submitjob": "SubmitJob",
    "describejobs": "DescribeJobs",
    "listjobs": "ListJobs",
    "terminatejob": "TerminateJob",
}


class Batch(Service):
    """One account and region."""

    key = "batch_job_id"

    def start(self) -> None:
        """Start moto."""
        self.batch = BatchService.start(self.folder / "batch")
        os.environ.update(aws_connection(self.batch.url))
        self._port = urlsplit(self.batch.url).port
        import botocore.loaders
        import botocore.session
        from airflow.providers.amazon.aws.hooks.base_aws import AwsGenericHook

        # For a word in the user agent it reads the source of all callers, who are many in here.
        AwsGenericHook._get_caller = lambda self, target_function_name="execute": "matrix"
        # AWS's description of its API is the same for every try; reading it takes longer than all the rest.
        loader = botocore.loaders.create_loader()
        botocore.session.create_loader = lambda search_path_string=None: loader

    def stop(self) -> None:
        """End moto."""
        self.batch.stop()

    def reset(self, name: str) -> None:
        """Look at the jobs of this name only."""
        super().reset(name)
        self._name = name

    def jobs(self) -> list[Job]:
        """The jobs that have the cell's name."""
        return [
            Job(job.id, running=job.active, succeeded=job.status == "SUCCEEDED", cancelled=job.terminated)
            for job in self.batch.jobs(self._name)
        ]

    def end(self, job_id: Any, *, success: bool) -> None:
        """End a job; moto leaves one alone that has ended."""
        self.batch.finish(job_id, exit_code=0 if success else 1)

    def serves(self, host: str, port: int | None) -> bool:
        """Whether it is moto's address."""
        return port == self._port

    def headers(self) -> Mapping[str, str]:
        """The time: jobs start by the clock, which moves faster here than in moto's process."""
        return {"X-Standin-Now": repr(time.time())}

    def operation(self, method: str, url: str, body: Any) -> str:
        """The operation's name in AWS's reference."""
        last = urlsplit(url).path.rpartition("/")[2]
        return OPERATIONS.get(last, last)

    def looked_at(self, method: str, url: str, body: Any) -> list[Any]:
        """The jobs that DescribeJobs names."""
        return list(json.loads(body)["jobs"]) if self.operation(method, url, body) == "DescribeJobs" else []

    def error(self, status: int) -> tuple[bytes, dict[str, str]]:
        """An error as AWS sends it."""
        body = json.dumps({"__type": "ServerException", "message": "try again later"})
        return body.encode(), {"Content-Type": "application/json", "x-amzn-ErrorType": "ServerException"}

    def operator(self, side: Side, way: Way) -> Callable[..., Any] | None:
        """``BatchOperator``."""
        if side == "upstream" and way == "reschedule":
            return None
        if side == "ours":
            from airflow_provider_durable.operators.batch import BatchOperator
        else:
            from airflow.providers.amazon.aws.operators.batch import BatchOperator  # type: ignore[assignment]
        what = {"job_name": "{{ run_id }}", "job_queue": QUEUE, "job_definition": DEFINITION}
        waits: dict[str, Any] = {
            "poke": {},
            "defer": {"deferrable": True},
            "reschedule": {"mode": "reschedule"},
        }
        long = {"parameters": {"standin_seconds": "1e9"}}
        return lambda **task: BatchOperator(**what, **long, **waits[way], **task)


SERVICES: dict[str, Callable[[Path], Service]] = {"batch": Batch}
