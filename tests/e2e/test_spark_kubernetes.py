"""SparkSubmitOperator on Kubernetes: the real spark-submit, and an API server that follows the public API.

What all cluster managers must do is in test_spark.py; here is what pods and their labels make possible.
"""

from __future__ import annotations

import signal

import pytest

from harness.spark_case import JOB_ID


@pytest.fixture
def case(request, stage, airflow):
    """A task on Kubernetes."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return stage.spark.case("kubernetes", airflow.client, name.removeprefix("test-"))


def end_well(case, task):
    case.finish(case.running()[-1].id)
    task.wait("success")


def only(case):
    (pod,) = case.service.pods(case.name)
    return pod


@pytest.mark.parametrize("moment", ["configure", "find"])
def test_a_kill_between_acceptance_and_storing_the_id_makes_no_second_pod(case, moment):
    # While spark-submit waits for its last answer, and while the operator asks for the pod's name.
    with case.fault("hold_response", moment, times=1) as answer:
        task = case.start()
        answer.wait_held()
        pod = only(case)
        assert JOB_ID not in task.store()
        task.task_process(1).kill()
    task.wait_try(2)
    assert case.stored_id(task) == pod.id
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (pod.id, False)
    assert task.store()[f"{JOB_ID}_submission"]["token"] in pod.labels.values()


def test_a_lost_answer_about_the_pods_name_makes_no_second_pod(case):
    with case.fault("drop_response", "find", times=1) as lost:
        task = case.start()
        pod_id = case.stored_id(task)
        end_well(case, task)
        assert lost.hits == 1

    assert only(case).id == pod_id
    assert task.try_number() == 1


def test_a_pod_that_can_never_start_is_replaced_after_a_lost_answer(case):
    # spark-submit asks again, is told that the pod is there, and gives up before it has made the config map
    # that the driver's pod waits for.
    with case.fault("drop_response", "submit", times=1) as lost:
        task = case.start()
        end_well(case, task)
        assert lost.hits == 1

    first, second = case.service.pods(case.name)
    assert (first.gone, first.cancelled) == (True, True)
    assert (second.id, second.phase) == (task.store()[JOB_ID], "Succeeded")
    assert task.try_number() == 1


def test_a_pod_that_can_never_start_is_replaced_after_a_kill(case):
    with case.fault("hold_response", "submit", times=1) as answer:
        task = case.start()
        answer.wait_held()
        task.task_process(1).kill()
    task.wait_try(2)
    end_well(case, task)

    first, second = case.service.pods(case.name)
    assert (first.gone, first.cancelled) == (True, True)
    assert (second.id, second.phase) == (task.store()[JOB_ID], "Succeeded")


def test_a_failure_has_exit_code_and_reason_of_the_container(case):
    task = case.start(retries=0)
    pod_id = case.stored_id(task)
    case.running()
    case.service.finish(pod_id, 137, "OOMKilled")
    task.wait("failed")

    assert "137" in task.log()
    assert "OOMKilled" in task.log()


def test_a_pod_collected_after_its_success_is_no_failure(case):
    task = case.start(deferrable=True)
    pod_id = case.stored_id(task)
    case.running()
    case.wait(lambda: task.state() == "deferred", "the task is deferred")
    # The pod is gone when the worker resumes; the triggerer saw it succeed.
    with case.fault("hold_response", "status", body=pod_id, times=1) as seen:
        case.finish(pod_id)
        case.wait(lambda: seen.hits or task.state() != "deferred", "the triggerer asks")
        seen.release()
        case.wait(lambda: task.state() != "deferred", "the triggerer has seen the end")
        case.service.garbage_collect(pod_id)
    task.wait("success")

    assert [pod.id for pod in case.service.pods(case.name)] == [pod_id]
    assert task.try_number() == 1


def test_a_pod_that_failed_and_was_collected_while_nobody_watched_runs_again(case):
    task = case.start()
    pod_id = case.stored_id(task)
    case.running()
    process = task.task_process()
    process.signal(signal.SIGSTOP)
    case.finish(pod_id, 1)
    case.service.garbage_collect(pod_id)
    process.kill()
    case.submitted(2)
    end_well(case, task)

    assert [pod.gone for pod in case.service.pods(case.name)] == [True, False]


def test_a_node_that_does_not_report_for_a_while_does_not_fail_the_task(case):
    task = case.start()
    pod_id = case.stored_id(task)
    case.running()
    before = case.proxy.count(f"/pods/{pod_id.partition(':')[2]}$")
    case.service.set_phase(pod_id, "Unknown")
    case.wait(
        lambda: case.proxy.count(f"/pods/{pod_id.partition(':')[2]}$") > before + 3, "more status requests"
    )
    case.service.set_phase(pod_id, "Running")
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (pod_id, False)
    assert task.try_number() == 1
