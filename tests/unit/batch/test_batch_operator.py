"""The durable BatchOperator, request by request; boto3 is stubbed. Behaviour is shown in tests/e2e."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from botocore.exceptions import (
    ConnectionClosedError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from airflow_provider_durable.resumable import (
    JobFailedError,
    LostSubmissionError,
    RecoveryUnavailableError,
    ServiceThrottledError,
    SubmissionRejectedError,
    SubmissionUnclearError,
)
from airflow_provider_durable.services import aws_batch
from unit.batch.batch_api import client_error, context, operator
from unit.fakes import Store

if TYPE_CHECKING:
    from unit.batch.batch_api import Client

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
    children = {"RUNNING": 0, "SUCCEEDED": 7, "FAILED": 2}
    job = {"statusReason": "Array Child Job failed", "arrayProperties": {"statusSummary": children}}
    assert aws_batch.failure_summary(job) == (
        "status reason: Array Child Job failed; array children: 7 SUCCEEDED, 2 FAILED"
    )


def test_links_are_pushed_again_by_every_try(client: Client) -> None:
    store = Store()
    for number in (1, 2):
        given = context(store, try_number=number)
        operator().execute(given)
        assert given["ti"].xcoms.keys() == {"batch_job_details", "batch_job_definition", "batch_job_queue"}


@pytest.mark.task_state_store
def test_links_that_cannot_be_pushed_change_nothing(client: Client) -> None:
    store = Store()
    for number in (1, 2):
        given = context(store, try_number=number)
        given["ti"].broken = True
        assert operator().execute(given) == "00000000-0"
    assert len(client.jobs) == 1


def test_max_retries_do_not_end_the_wait_for_a_job_that_is_alive(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    client.ends_as = "RUNNING"
    describe = type(client).describe_jobs

    def describe_five_times(self: Client, jobs: list[str]) -> dict[str, Any]:
        if len(self.sent("describe")) == 5:
            self.jobs[jobs[0]]["status"] = "SUCCEEDED"
        return describe(self, jobs)

    monkeypatch.setattr(type(client), "describe_jobs", describe_five_times)
    assert operator(max_retries=1, status_retries=1).execute(context()) == "00000000-0"


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
