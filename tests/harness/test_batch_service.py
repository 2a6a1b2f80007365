"""The AWS Batch stand-in behaves like AWS where our operators look."""

from __future__ import annotations

import time

import pytest
from botocore.exceptions import ClientError

from harness.batch_service import DEFINITION, QUEUE, BatchService
from harness.processes import wait_until


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    service = BatchService.start(tmp_path_factory.mktemp("batch"))
    yield service
    service.stop()


def submit(service, name, **extra):
    parameters = {key: str(value) for key, value in extra.pop("parameters", {}).items()}
    answer = service.client().submit_job(
        jobName=name, jobQueue=QUEUE, jobDefinition=DEFINITION, parameters=parameters, **extra
    )
    return answer["jobId"]


def describe(service, job_id):
    return service.client().describe_jobs(jobs=[job_id])["jobs"][0]


def test_a_job_goes_through_its_states_by_the_clock(service):
    job_id = submit(service, "clock", parameters={"standin_start_seconds": 0.6, "standin_seconds": 0.6})
    seen = []
    deadline = time.monotonic() + 20
    while (status := describe(service, job_id)["status"]) != "SUCCEEDED" and time.monotonic() < deadline:
        if status not in seen:
            seen.append(status)
    assert seen == ["SUBMITTED", "RUNNABLE", "STARTING", "RUNNING"]
    job = describe(service, job_id)
    assert job["container"]["exitCode"] == 0
    assert job["container"]["logStreamName"].endswith(job_id)
    assert job["createdAt"] < job["startedAt"] < job["stoppedAt"]


def test_the_clock_is_that_of_whoever_asks_and_says_so(service):
    job_id = submit(service, "later", parameters={"standin_start_seconds": 600, "standin_seconds": 600})
    client, ahead = service.client(), {}

    def tell(request, **_):
        request.headers["X-Standin-Now"] = str(time.time() + ahead["seconds"])

    client.meta.events.register("before-sign.batch", tell)
    seen = []
    for ahead["seconds"] in (0, 700, 1300, 0):
        seen.append(client.describe_jobs(jobs=[job_id])["jobs"][0]["status"])
    assert seen == ["SUBMITTED", "RUNNING", "SUCCEEDED", "SUBMITTED"]


def test_a_job_fails_as_its_parameters_say(service):
    parameters = {"standin_seconds": 0, "standin_start_seconds": 0, "standin_exit_code": 3, "mark": "x y"}
    job = describe(service, submit(service, "fails", parameters=parameters))
    assert (job["status"], job["container"]["exitCode"]) == ("FAILED", 3)
    assert job["statusReason"] == "Essential container in task exited"
    assert job["parameters"]["mark"] == "x y"


def test_a_test_decides_how_a_running_job_ends(service):
    job_id = submit(service, "decided", parameters={"standin_seconds": 600})
    service.wait_running("decided")
    service.finish(job_id, exit_code=7, reason="Host EC2 terminated")
    job = describe(service, job_id)
    assert (job["status"], job["statusReason"], job["container"]["exitCode"]) == (
        "FAILED",
        "Host EC2 terminated",
        7,
    )


def test_terminate_takes_its_time_and_keeps_the_reason(service):
    job_id = submit(service, "stopped", parameters={"standin_seconds": 600, "standin_stop_seconds": 1})
    service.wait_running("stopped")
    service.client().terminate_job(jobId=job_id, reason="not needed")
    job = describe(service, job_id)
    assert (job["status"], job["isTerminated"]) == ("RUNNING", True)
    wait_until(lambda: describe(service, job_id)["status"] == "FAILED", "it failed", timeout=20)
    assert describe(service, job_id)["statusReason"] == "not needed"
    assert service.job(job_id).terminated


def test_a_forgotten_job_is_not_described_and_still_counted(service):
    job_id = submit(service, "forgotten")
    service.forget(job_id)
    assert service.client().describe_jobs(jobs=[job_id])["jobs"] == []
    assert [job.forgotten for job in service.jobs("forgotten")] == [True]


def test_list_jobs_takes_one_filter_and_returns_all_states(service):
    before = int(time.time() * 1000) - 1
    ids = [submit(service, "Listed", parameters={"standin_seconds": n * 600}) for n in range(2)]
    wait_until(lambda: service.job(ids[0]).status == "SUCCEEDED", "one ended", timeout=20)
    client = service.client()

    def listed(*filters):
        answer = client.list_jobs(jobQueue=QUEUE, filters=[*filters])
        return [job["jobId"] for job in answer["jobSummaryList"]]

    by_name = {"name": "JOB_NAME", "values": ["listed"]}
    by_time = {"name": "AFTER_CREATED_AT", "values": [str(before)]}
    assert listed(by_name) == ids[::-1]
    assert listed(by_time) == ids[::-1]
    with pytest.raises(ClientError, match="one filter"):
        listed(by_name, by_time)


def test_list_jobs_comes_in_pages(service):
    for _ in range(3):
        submit(service, "paged")
    pages = (
        service.client()
        .get_paginator("list_jobs")
        .paginate(
            jobQueue=QUEUE,
            filters=[{"name": "JOB_NAME", "values": ["paged"]}],
            PaginationConfig={"PageSize": 2},
        )
    )
    assert [len(page["jobSummaryList"]) for page in pages] == [2, 1]


def test_an_array_job_ends_with_its_children(service):
    parent = submit(service, "array", arrayProperties={"size": 3}, parameters={"standin_seconds": 600})
    for index in range(3):
        assert describe(service, parent)["status"] in ("SUBMITTED", "PENDING")
        service.finish(f"{parent}:{index}", exit_code=0 if index else 1)
    job = describe(service, parent)
    assert job["status"] == "FAILED"
    assert job["arrayProperties"]["statusSummary"]["SUCCEEDED"] == 2
    assert describe(service, f"{parent}:2")["status"] == "SUCCEEDED"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"jobName": ""}, "name"),
        ({"jobName": "n" * 129}, "name"),
        ({"jobQueue": "nope"}, "Job queue nope does not exist"),
        ({"jobDefinition": "nope"}, "Job definition nope does not exist"),
    ],
)
def test_bad_input_is_a_client_exception(service, arguments, message):
    good = {"jobName": "good", "jobQueue": QUEUE, "jobDefinition": DEFINITION}
    with pytest.raises(ClientError, match=message) as error:
        service.client().submit_job(**{**good, **arguments})
    assert error.value.response["Error"]["Code"] == "ClientException"


def test_describe_jobs_takes_a_hundred_ids(service):
    with pytest.raises(ClientError):
        service.client().describe_jobs(jobs=[f"id{n}" for n in range(101)])
    assert service.client().describe_jobs(jobs=["unknown"])["jobs"] == []
