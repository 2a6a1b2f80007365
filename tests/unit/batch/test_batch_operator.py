"""The durable BatchOperator, request by request; boto3 is stubbed. Behaviour is shown in tests/e2e."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from airflow_provider_durable.operators.batch import BatchOperator
from airflow_provider_durable.resumable import (
    JobFailedError,
    LostSubmissionError,
    RecoveryUnavailableError,
    ServiceThrottledError,
    SubmissionRejectedError,
    SubmissionUnclearError,
    submission,
)
from airflow_provider_durable.resumable.record import utcnow
from airflow_provider_durable.services import aws_batch
from unit.fakes import Store, TaskInstance

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
        assert self.attempts == 1, "boto3 would repeat the request by itself"
        self._note("submit", request)
        accepted, error = self.submit_errors.pop(0) if self.submit_errors else (True, None)
        job_id = f"00000000-{len(self.jobs)}"
        if accepted:
            self.jobs[job_id] = {
                "jobId": job_id,
                "jobName": request["jobName"],
                "jobDefinition": "arn:definition",
                "jobQueue": "arn:queue",
                "status": "SUCCEEDED",
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


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
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
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any, **_: Any) -> None:
        if self.broken:
            raise ConnectionError("the API server is away")
        self.pushed[key] = value


def operator(**parameters: Any) -> BatchOperator:
    given = {**NAMES, "poll_interval": 0.01, **parameters}
    return BatchOperator(task_id="job", aws_conn_id=None, region_name="eu-west-1", **given)


def context(store: Store | None = None, **ti: Any) -> Any:
    return {"ti": Pushing(**ti), "task_state_store": Store() if store is None else store}


# -- submission --------------------------------------------------------------------------------


def test_the_token_travels_as_a_job_parameter_beside_the_authors(client: Client) -> None:
    task, store = operator(parameters={"day": "monday"}, tags={"team": "blue"}), Store()
    assert task.execute(context(store)) == "00000000-0"
    (request,) = client.sent("submit")
    assert request["parameters"].pop("day") == "monday"
    (token,) = request["parameters"].values()
    assert len(token) == 32
    if store.values:
        assert token == store.values["batch_job_id_submission"]["token"]
    assert request["tags"] == {"team": "blue"}
    assert task.parameters == {"day": "monday"}


def test_all_that_apaches_operator_sends_is_sent(client: Client) -> None:
    task = operator(
        container_overrides={"command": ["run"]},
        array_properties={"size": 3},
        node_overrides={"numNodes": 2},
        retry_strategy={"attempts": 2},
        share_identifier="share",
        scheduling_priority_override=7,
        submit_job_timeout=60,
    )
    task.execute(context())
    (request,) = client.sent("submit")
    assert request.keys() >= {
        "arrayProperties",
        "containerOverrides",
        "jobDefinition",
        "jobName",
        "jobQueue",
        "nodeOverrides",
        "parameters",
        "retryStrategy",
        "schedulingPriorityOverride",
        "shareIdentifier",
        "timeout",
    }


def test_after_the_submission_boto3_is_patient_again(client: Client) -> None:
    task = operator()
    task.execute(context())
    assert task.hook.client.attempts is None


UNCLEAR = [
    ReadTimeoutError(endpoint_url="x"),
    ConnectionClosedError(endpoint_url="x"),
    EndpointConnectionError(endpoint_url="x"),
    client_error("ServerException", 500),
    client_error("", 503),
    ValueError("a proxy's answer that is no JSON"),
]


@pytest.mark.parametrize("error", UNCLEAR, ids=lambda error: type(error).__name__)
def test_a_lost_answer_is_settled_by_the_token(client: Client, error: Exception) -> None:
    client.submit_errors = [(True, error)]
    assert operator().execute(context()) == "00000000-0"
    assert len(client.jobs) == 1


@pytest.mark.parametrize("error", UNCLEAR, ids=lambda error: type(error).__name__)
def test_an_error_that_started_nothing_is_followed_by_a_second_request(
    client: Client, error: Exception
) -> None:
    client.submit_errors = [(False, error)]
    assert operator().execute(context()) == "00000000-0"
    assert len(client.jobs) == 1
    assert len(client.sent("submit")) == 2


def test_a_throttled_submission_is_repeated_without_a_search(client: Client) -> None:
    client.submit_errors = [(False, client_error("TooManyRequestsException", 429))] * 3
    assert operator().execute(context()) == "00000000-0"
    assert not client.sent("list")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            client_error("ClientException"),
            "refused the job .job queue 'queue', job definition 'definition'.*ClientEx",
        ),
        (client_error("AccessDeniedException", 403), "The credentials lack batch:SubmitJob"),
        (NoCredentialsError(), "was not sent to AWS Batch .*Unable to locate credentials"),
    ],
)
def test_a_refusal_is_one_readable_error(client: Client, error: Exception, message: str) -> None:
    client.submit_errors = [(False, error)]
    with pytest.raises(SubmissionRejectedError, match=message):
        operator().execute(context())
    assert not client.sent("list")


# -- recovery ------------------------------------------------------------------------------------


def lost(client: Client, store: Store, **parameters: Any) -> None:
    """Submit, and lose answer and process."""
    client.submit_errors = [(True, ReadTimeoutError(endpoint_url="x"))]
    client.errors["list"] = [client_error("ServerException", 500, "ListJobs")]
    with pytest.raises(SubmissionUnclearError):
        operator(**parameters).execute(context(store))


@pytest.mark.task_state_store
def test_the_next_try_finds_the_job_by_the_name_it_was_submitted_under(client: Client) -> None:
    store = Store()
    lost(client, store, job_name="try-1")
    assert operator(job_name="try-2").execute(context(store, try_number=2)) == "00000000-0"
    assert client.sent("list")[-1]["filters"] == [{"name": "JOB_NAME", "values": ["try-1"]}]
    assert len(client.jobs) == 1


@pytest.mark.task_state_store
def test_the_search_reads_all_pages_and_asks_for_a_hundred_at_a_time(client: Client) -> None:
    store = Store()
    lost(client, store)
    ours = client.jobs["00000000-0"]
    for number in range(230):
        client.jobs[f"other-{number}"] = {**ours, "jobId": f"other-{number}", "parameters": {}}
        client.jobs[f"other-{number}"]["createdAt"] += 1000 + number
    assert operator().execute(context(store, try_number=2)) == "00000000-0"
    assert len(client.sent("list")) == 4
    assert [len(request["jobs"]) for request in client.sent("describe")[:3]] == [100, 100, 31]


@pytest.mark.task_state_store
def test_the_search_ends_at_jobs_that_are_older_than_the_token(client: Client) -> None:
    store = Store()
    lost(client, store)
    ours = client.jobs.pop("00000000-0")
    old = (datetime.now(timezone.utc) - timedelta(hours=1)).timestamp() * 1000
    for number in range(250):
        client.jobs[f"old-{number}"] = {**ours, "jobId": f"old-{number}", "createdAt": old, "parameters": {}}
    operator().execute(context(store, try_number=2))
    assert len(client.sent("list")) == 2
    assert len(client.sent("submit")) == 2


@pytest.mark.task_state_store
def test_a_job_that_is_not_visible_yet_is_looked_for_again(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_durable.operators.batch._VISIBLE_AFTER", timedelta(seconds=15))
    monkeypatch.setattr("time.sleep", lambda _: client.jobs.update(hidden))
    client.submit_errors = [(True, ReadTimeoutError(endpoint_url="x"))]
    hidden: dict[str, Any] = {}
    plain = client.list_jobs

    def list_jobs(**request: Any) -> Any:
        if not client.sent("list"):
            hidden.update(client.jobs)
            client.jobs.clear()
        return plain(**request)

    client.list_jobs = list_jobs  # type: ignore[method-assign]
    assert operator().execute(context()) == "00000000-0"
    assert len(client.sent("submit")) == 1


@pytest.mark.task_state_store
def test_without_listjobs_on_lost_submission_decides(client: Client) -> None:
    store = Store()
    lost(client, store)
    client.errors["list"] = [client_error("AccessDeniedException", 403, "ListJobs")] * 9
    with pytest.raises(LostSubmissionError, match="lack batch:ListJobs"):
        operator(on_lost_submission="fail").execute(context(store, try_number=2))
    assert len(client.jobs) == 1
    assert operator().execute(context(store, try_number=2)) == "00000000-1"


def test_a_token_is_not_looked_up_without_the_permission(client: Client) -> None:
    client.errors["list"] = [client_error("AccessDeniedException", 403, "ListJobs")]
    with pytest.raises(RecoveryUnavailableError, match="batch:ListJobs"):
        aws_batch.find_by_token(client, "t", "queue", "report", None)


# -- status --------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["TooManyRequestsException", "ThrottlingException", "RequestLimitExceeded"])
def test_throttling_is_told_apart(client: Client, code: str) -> None:
    client.errors["describe"] = [client_error(code, 400, "DescribeJobs")]
    with pytest.raises(ServiceThrottledError):
        operator().get_job_status("00000000-0", context())


def test_every_status_of_the_service_has_a_place() -> None:
    task = operator()
    active = [s for s in ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING") if task.is_job_active(s)]
    assert len(active) == 5
    assert [s for s in ("SUCCEEDED", "FAILED", "NOT_FOUND") if task.is_job_active(s)] == []
    assert [s for s in ("SUCCEEDED", "FAILED", "NOT_FOUND") if task.is_job_succeeded(s)] == ["SUCCEEDED"]


@pytest.mark.task_state_store
def test_a_job_that_the_service_has_forgotten_is_submitted_anew(client: Client) -> None:
    store = Store()
    operator().execute(context(store))
    client.jobs["forgotten"] = client.jobs.pop("00000000-0")
    assert operator().execute(context(store, try_number=2)) == "00000000-1"


@pytest.mark.task_state_store
def test_a_job_accepted_a_moment_ago_is_not_forgotten(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("airflow_provider_durable.operators.batch._VISIBLE_AFTER", timedelta(seconds=15))
    store = Store()
    operator(wait_for_termination=False).execute(context(store))
    hidden = client.jobs.pop("00000000-0")
    looks: list[int] = []
    plain = client.describe_jobs

    def describe_jobs(jobs: list[str]) -> Any:
        looks.append(1)
        if len(looks) == 3:
            client.jobs["00000000-0"] = hidden
        return plain(jobs)

    client.describe_jobs = describe_jobs  # type: ignore[method-assign]
    assert operator(poll_interval=0.01).execute(context(store, try_number=2)) == "00000000-0"
    assert len(client.sent("submit")) == 1


def test_a_failed_jobs_error_says_why(client: Client) -> None:
    task = operator()
    client.submit_job = lambda **_: client.jobs.update(x=failed) or {"jobId": "x"}  # type: ignore[method-assign,func-returns-value]
    failed = {
        "jobId": "x",
        "status": "FAILED",
        "statusReason": "Essential container in task exited",
        "container": {"exitCode": 137, "reason": "OutOfMemoryError", "logStreamName": "definition/default/1"},
        "attempts": [{"container": {"exitCode": 1}}, {"container": {"exitCode": 137}}],
    }
    with pytest.raises(
        JobFailedError,
        match="x failed: status reason: Essential container in task exited; container reason: "
        "OutOfMemoryError; exit code: 137; log stream: definition/default/1; attempts: 2",
    ):
        task.execute(context())


def test_a_failed_array_job_says_how_many_children_failed() -> None:
    job = {"statusReason": "Array Child Job failed", "arrayProperties": {"statusSummary": {"FAILED": 2}}}
    assert aws_batch.failure_summary(job) == (
        "status reason: Array Child Job failed; array children: {'FAILED': 2}"
    )


def test_links_are_pushed_again_by_every_try(client: Client) -> None:
    store = Store()
    for number in (1, 2):
        given = context(store, try_number=number)
        operator().execute(given)
        assert given["ti"].pushed.keys() == {"batch_job_details", "batch_job_definition", "batch_job_queue"}


@pytest.mark.task_state_store
def test_links_that_cannot_be_pushed_change_nothing(client: Client) -> None:
    store = Store()
    for number in (1, 2):
        given = context(store, try_number=number)
        given["ti"].broken = True
        assert operator().execute(given) == "00000000-0"
    assert len(client.jobs) == 1


def test_cancelling_says_who_and_can_be_done_twice(client: Client) -> None:
    task = operator()
    for _ in range(2):
        task.cancel_job("00000000-0", context())
    assert client.sent("terminate")[0] == {
        "jobId": "00000000-0",
        "reason": "Task stopped by Airflow: dag.job, run run",
    }


# -- parameters ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ({"job_name": ""}, r"BatchOperator\(task_id='job'\): job_name='' is empty"),
        ({"job_name": "a" * 129}, "129 characters. is no job name for AWS Batch. Use 1 to 128"),
        ({"job_name": "-a"}, "begin with a letter or digit"),
        ({"job_name": "a b"}, "is no job name"),
        ({"job_queue": " "}, "job_queue=' ' is empty"),
        ({"job_definition": ""}, "job_definition='' is empty"),
    ],
)
def test_a_bad_name_is_an_error_when_the_dag_is_parsed(names: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        operator(**names)


def test_a_templated_name_is_checked_before_anything_is_sent(client: Client) -> None:
    task = operator(job_name="{{ ds }}")
    task.job_name = ""
    with pytest.raises(ValueError, match="job_name='' is empty"):
        task.execute(context())
    assert not client.requests


@pytest.mark.parametrize("name", ["wait_for_termination", "wait_for_completion"])
def test_the_two_names_are_one_switch(name: str) -> None:
    task = operator(**{name: False})
    assert (task.wait_for_termination, task.wait_for_completion) == (False, False)
    assert operator().wait_for_termination is True
    with pytest.raises(ValueError, match=f"{name}=False does not. Write {name}=True"):
        operator(**{name: False}, deferrable=True)


def test_the_switch_with_two_values_is_an_error() -> None:
    with pytest.raises(ValueError, match="are one switch with two values"):
        operator(wait_for_termination=True, wait_for_completion=False)
    assert operator(wait_for_termination=False, wait_for_completion=False).wait_for_completion is False


def test_the_switch_may_be_a_template(client: Client) -> None:
    task = operator(wait_for_completion="{{ params.wait }}")
    task.wait_for_completion = "False"  # type: ignore[assignment]
    assert task.execute(context()) == "00000000-0"
    assert not client.sent("describe")


def test_the_trigger_gets_what_the_operator_has(client: Client) -> None:
    task = operator(poll_interval=7, deferrable=True, cancel_on_kill=False)
    trigger = task.make_trigger("00000000-0", context())
    assert trigger.serialize()[1] == {
        "job_id": "00000000-0",
        "aws_conn_id": None,
        "region_name": "eu-west-1",
        "verify": None,
        "botocore_config": None,
        "poll_interval": 7.0,
        "deadline": None,
        "cancel_on_kill": False,
        "poll_error_window": 600.0,
    }


def test_a_deferral_that_apaches_operator_began_is_taken_up(client: Client) -> None:
    client.jobs["theirs"] = {"jobId": "theirs", "status": "SUCCEEDED"}
    event = {"status": "success", "job_id": "theirs"}
    assert operator(deferrable=True).execute_complete(context(), event) == "theirs"
    assert not client.sent("submit")


def test_the_authors_waiters_are_used(client: Client) -> None:
    waited: list[str] = []
    task = operator(waiters=SimpleNamespace(wait_for_job=waited.append))
    assert task.execute(context()) == "00000000-0"
    assert waited == ["00000000-0"]
