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


def test_a_kill_while_spark_submit_waits_for_its_answer_makes_no_second_application(case):
    with case.fault("hold_response", "submit", times=1) as answer:
        task = case.start(conf={"spark.yarn.tags": "Nightly,finance"})
        answer.wait_held()
        app = only(case)
        assert JOB_ID not in task.store()
        task.task_process(1).kill()
    task.wait_try(2)
    assert case.stored_id(task) == app.id
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (app.id, False)
    token = task.store()[f"{JOB_ID}_submission"]["token"]
    assert {"nightly", "finance"} < set(app.tags)  # the author's own
    assert any(tag.endswith(token) for tag in app.tags)


def test_a_kill_while_the_operator_asks_for_the_id_makes_no_second_application(case):
    with case.start_with_fault_in_finding("hold_response") as (task, find):
        find.wait_held()
        assert JOB_ID not in task.store()
        task.task_process(1).kill()
    task.wait_try(2)
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (task.store()[JOB_ID], False)


def test_a_lost_answer_to_the_submission_makes_no_second_application(case):
    with case.fault("drop_response", "submit", times=1) as lost:
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


def test_a_deferred_task_fails_with_the_applications_diagnostics(case):
    task = case.start(retries=0, deferrable=True)
    job_id = case.stored_id(task)
    case.wait(lambda: task.state() == "deferred", "the task is deferred")
    case.service.finish(job_id, "FAILED", "Container killed by YARN for exceeding memory limits.")
    task.wait("failed")

    assert "Container killed by YARN for exceeding memory limits." in task.log()


def test_an_application_that_succeeded_while_nobody_watched_is_not_run_again(case):
    task = case.start()
    job_id = case.stored_id(task)
    case.running()
    process = task.task_process()
    process.signal(signal.SIGSTOP)
    case.finish(job_id)
    process.kill()
    task.wait("success")

    assert only(case).id == job_id
    assert task.try_number() == 2


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
