"""SparkSubmitOperator on YARN: the real spark-submit, and a ResourceManager that follows the public document.

What all cluster managers must do is in test_spark.py; here is what the ResourceManager makes possible.
"""

from __future__ import annotations

import signal

import pytest

from harness.spark_case import JOB_ID


@pytest.fixture
def case(request, stage, airflow):
    """A task on YARN."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return stage.spark.case("yarn", airflow.client, name.removeprefix("test-"))


def end_well(case, task):
    case.finish(case.running()[-1].id)
    task.wait("success")


def only(case):
    (app,) = case.service.apps(case.name)
    return app


def tag_of(task):
    """What the application's tags end with."""
    return task.store()[f"{JOB_ID}_submission"]["token"]


@pytest.mark.parametrize("moment", ["submit", "find"])
def test_a_kill_between_acceptance_and_storing_the_id_makes_no_second_application(case, moment):
    # While spark-submit waits for its answer, and while the operator asks for the id.
    with case.fault("hold_response", moment, times=1) as answer:
        task = case.start()
        answer.wait_held()
        app = only(case)
        assert JOB_ID not in task.store()
        task.task_process(1).kill()
    task.wait_try(2)
    assert case.stored_id(task) == app.id
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (app.id, False)
    assert any(tag.endswith(tag_of(task)) for tag in app.tags)


@pytest.mark.parametrize("fault", ["drop_response", "answer_after"])
def test_a_lost_answer_to_the_submission_makes_no_second_application(case, fault):
    with case.fault(fault, "submit", times=1, status=500) as lost:
        task = case.start()
        job_id = case.stored_id(task)
        end_well(case, task)
        assert lost.hits == 1

    assert only(case).id == job_id
    assert task.try_number() == 1


def test_a_submission_that_never_arrived_is_made_again(case):
    with case.fault("drop_request", "submit", times=1):
        task = case.start()
        task.wait_try(2)
    end_well(case, task)

    assert only(case).id == task.store()[JOB_ID]


def test_the_authors_tags_are_kept(case):
    task = case.start(seconds=0, conf={"spark.yarn.tags": "Nightly,finance"})
    task.wait("success")

    tags = only(case).tags
    assert {"nightly", "finance"} < set(tags)
    assert any(tag.endswith(tag_of(task)) for tag in tags)


def test_a_failure_has_the_applications_diagnostics(case):
    task = case.start(retries=0)
    job_id = case.stored_id(task)
    case.service.finish(job_id, "FAILED", "Container killed by YARN for exceeding memory limits.")
    task.wait("failed")

    assert "Container killed by YARN for exceeding memory limits." in task.log()


@pytest.mark.parametrize("ended_well", [True, False])
def test_an_application_that_ended_while_nobody_watched(case, ended_well):
    task = case.start()
    job_id = case.stored_id(task)
    case.running()
    process = task.task_process()
    process.signal(signal.SIGSTOP)
    case.finish(job_id, 0 if ended_well else 1)
    process.kill()
    if not ended_well:
        case.submitted(2)
        end_well(case, task)
    task.wait("success")

    assert len(case.jobs()) == (1 if ended_well else 2)


def test_an_application_that_the_resource_manager_forgot_is_submitted_again(case):
    task = case.start()
    job_id = case.stored_id(task)
    case.running()
    process = task.task_process()
    process.signal(signal.SIGSTOP)
    case.finish(job_id, 1)
    case.service.forget(job_id)
    process.kill()
    case.submitted(2)
    end_well(case, task)

    assert [app.forgotten for app in case.service.apps(case.name)] == [True, False]


def test_an_outage_of_the_resource_manager_does_not_fail_the_task(case):
    task = case.start()
    job_id = case.stored_id(task)
    case.running()
    with case.fault("answer", "status", body=job_id, status=503, answer={}) as outage:
        outage.wait_hits(5)
    end_well(case, task)

    assert only(case).id == job_id
    assert task.try_number() == 1
