"""AWS Batch in the triggerer: what its answers mean, and what a client is made of."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from datetime import datetime, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ParamValidationError,
    ReadTimeoutError,
)

from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.services import aws_batch
from airflow_provider_durable.triggers.batch import BatchJobs, BatchJobTrigger
from airflow_provider_durable.triggers.service import RequestRejectedError


def refusal(code: str, status: int) -> ClientError:
    response = {
        "Error": {"Code": code, "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return ClientError(response, "DescribeJobs")  # type: ignore[arg-type]


class Client:
    """A boto3 client that answers as told."""

    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.calls: list[dict[str, Any]] = []

    def _answer(self, **request: Any) -> Any:
        self.calls.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    describe_jobs = terminate_job = _answer


class Jobs(BatchJobs):
    """``BatchJobs`` on such clients; each new one continues with the answers."""

    def __init__(self, *answers: Any) -> None:
        super().__init__("aws", "eu-west-1", None, None)
        self.answers = list(answers)
        self.made: list[Client] = []

    def client(self) -> Any:
        if self._client is None:
            self._client = Client(self.answers)
            self.made.append(self._client)
        return self._client


def test_the_answer_holds_the_jobs_that_aws_knows() -> None:
    known = [
        {"jobId": "a", "jobArn": "arn:aws:batch:eu-west-1:1:job/a", "status": "RUNNING"},
        {"jobId": "b", "status": "FAILED"},
    ]
    jobs = Jobs({"jobs": known})
    answer = jobs.ask(["a", "b", "c"])
    assert (answer["a"], answer["b"]) == ("RUNNING", "FAILED")
    assert answer["arn:aws:batch:eu-west-1:1:job/a"] == "RUNNING"
    assert "c" not in answer
    assert jobs.made[0].calls == [{"jobs": ["a", "b", "c"]}]


@pytest.mark.parametrize(
    ("error", "raised", "new_client"),
    [
        (refusal("TooManyRequestsException", 429), ServiceThrottledError, False),
        (refusal("ThrottlingException", 400), ServiceThrottledError, False),
        (refusal("ClientException", 400), RequestRejectedError, False),
        (ParamValidationError(report="bad"), RequestRejectedError, False),
        (refusal("ServerException", 500), ClientError, False),
        (ReadTimeoutError(endpoint_url="u"), ReadTimeoutError, False),
        (EndpointConnectionError(endpoint_url="u"), EndpointConnectionError, False),
        (refusal("AccessDeniedException", 403), ClientError, True),
        (refusal("ExpiredTokenException", 403), ClientError, True),
        (refusal("UnrecognizedClientException", 400), ClientError, True),
        (NoCredentialsError(), NoCredentialsError, True),
    ],
    ids=lambda value: str(value)[:60],
)
def test_what_an_error_means(error: Exception, raised: type[Exception], new_client: bool) -> None:
    jobs = Jobs(error, {"jobs": []})
    with pytest.raises(raised):
        jobs.ask(["a"])
    assert jobs.ask(["a"]) == {}
    assert len(jobs.made) == (2 if new_client else 1)


def test_cancelling_sends_terminate_job_with_a_reason_that_aws_takes() -> None:
    jobs = Jobs({})
    jobs.cancel("a", "r" * 2000)
    assert jobs.made[0].calls == [{"jobId": "a", "reason": "r" * 1024}]


@pytest.mark.parametrize("status", sorted(aws_batch.ACTIVE))
def test_a_job_that_has_not_ended_is_active(status: str) -> None:
    assert BatchJobs(None, None, None, None).is_active(status)


@pytest.mark.parametrize(("status", "succeeded"), [("SUCCEEDED", True), ("FAILED", False)])
def test_a_job_that_has_ended_is_not(status: str, succeeded: bool) -> None:
    jobs = BatchJobs(None, None, None, None)
    assert not jobs.is_active(status)
    assert jobs.is_succeeded(status) is succeeded


def test_one_connection_and_region_is_one_service() -> None:
    def key(**parameters: Any) -> Any:
        defaults = {"job_id": "a", "aws_conn_id": "aws", "region_name": "eu-west-1"}
        return BatchJobTrigger(**{**defaults, **parameters}).service().key

    same = key(botocore_config={"a": 1, "b": 2})
    assert key(job_id="b", poll_interval=5, botocore_config={"b": 2, "a": 1}) == same
    others = [
        key(),
        key(aws_conn_id="other", botocore_config={"a": 1, "b": 2}),
        key(region_name=None, botocore_config={"a": 1, "b": 2}),
        key(verify=False, botocore_config={"a": 1, "b": 2}),
        key(botocore_config={"a": 1, "b": 3}),
    ]
    assert len({same, *others}) == 6


def test_a_client_repeats_nothing_by_itself_unless_it_is_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_AWS",
        json.dumps(
            {
                "conn_type": "aws",
                "login": "a-key-id",
                "password": "a-secret-key",
                "extra": {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:9"},
            }
        ),
    )
    client = BatchJobs("aws", None, None, None).client()
    assert client.meta.region_name == "eu-west-1"
    assert client.meta.endpoint_url == "http://127.0.0.1:9"
    assert client.meta.config.retries["total_max_attempts"] == 1
    assert client.meta.config.read_timeout == 20
    told = BatchJobs("aws", "eu-north-1", None, {"read_timeout": 7, "retries": {"max_attempts": 3}}).client()
    assert told.meta.region_name == "eu-north-1"
    assert told.meta.config.read_timeout == 7
    assert told.meta.config.retries["total_max_attempts"] == 4


def test_a_trigger_can_be_made_anew_from_json() -> None:
    made = BatchJobTrigger(
        job_id="a",
        aws_conn_id="aws",
        region_name="eu-west-1",
        verify="/ca.pem",
        botocore_config={"read_timeout": 5},
        poll_interval=12,
        deadline=datetime(2026, 1, 1, tzinfo=timezone.utc),
        cancel_on_kill=False,
        poll_error_window=99,
    )
    path, parameters = made.serialize()
    assert path == "airflow_provider_durable.triggers.batch.BatchJobTrigger"
    assert parameters == {
        "job_id": "a",
        "aws_conn_id": "aws",
        "region_name": "eu-west-1",
        "verify": "/ca.pem",
        "botocore_config": {"read_timeout": 5},
        "poll_interval": 12.0,
        "deadline": "2026-01-01T00:00:00+00:00",
        "cancel_on_kill": False,
        "poll_error_window": 99.0,
    }
    again = BatchJobTrigger(**json.loads(json.dumps(parameters)))
    assert again.serialize() == (path, parameters)
    assert again.service().key == made.service().key


def test_airflow_can_store_it() -> None:
    """Trigger rows hold the parameters as Airflow encrypts them."""
    from airflow.models.trigger import Trigger

    made = BatchJobTrigger(job_id="a", deadline=datetime(2026, 1, 1, tzinfo=timezone.utc))
    row = Trigger.from_object(made)
    assert BatchJobTrigger(**row.kwargs).serialize() == made.serialize()


@pytest.mark.parametrize("status", ["success", "failed", "unknown", "timeout", "error"])
def test_apache_s_operator_understands_the_event(status: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A Dag that went back to Apache's operator while the task was deferred resumes there."""
    from airflow.providers.amazon.aws.operators.batch import BatchOperator

    job = BatchOperator(task_id="job", job_name="n", job_definition="d", job_queue="q")
    monkeypatch.setattr(job, "_persist_cloudwatch_link", lambda context: None, raising=False)
    # What looks at the job in some versions of the provider.
    monkeypatch.setattr(job, "monitor_job", lambda context: None)
    job.__dict__["hook"] = SimpleNamespace(
        check_job_success=lambda job_id: True, get_job_description=lambda job_id: {}
    )
    event = BatchJobTrigger(job_id="a").event(status, "why")
    if status == "success":
        assert job.execute_complete({}, event) == "a"  # type: ignore[arg-type]
    else:
        with pytest.raises(Exception, match=status):
            job.execute_complete({}, event)  # type: ignore[arg-type]


def test_the_triggerer_s_loop_imports_no_boto3() -> None:
    """A triggerer imports the trigger's class on its loop."""
    code = (
        "import sys, airflow_provider_durable.triggers.batch; "
        "heavy = ('boto3', 'aiobotocore', 'airflow.providers.amazon.aws.hooks'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip().splitlines()[-1] == "[]"


def test_on_kill_terminates_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = Jobs({})
    made = BatchJobTrigger(job_id="a")
    monkeypatch.setattr(made, "service", lambda: jobs)
    asyncio.run(made.on_kill())
    assert jobs.made[0].calls == [{"jobId": "a", "reason": "Task stopped by Airflow"}]
