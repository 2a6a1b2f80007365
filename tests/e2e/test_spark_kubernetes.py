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


def test_a_kill_while_spark_submit_waits_for_its_answer_makes_no_second_pod(case):
    with case.fault("hold_response", "configure", times=1) as answer:
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


def test_a_kill_while_the_operator_asks_for_the_id_makes_no_second_pod(case):
    with case.start_with_fault_in_finding("hold_response") as (task, find):
        find.wait_held()
        assert JOB_ID not in task.store()
        task.task_process(1).kill()
    task.wait_try(2)
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (task.store()[JOB_ID], False)


def test_a_pod_that_can_never_start_is_replaced_after_a_lost_answer(case):
    # spark-submit gives up before it has made the config map that the driver's pod waits for.
    with case.fault("drop_response", "submit", times=1) as lost:
        task = case.start()
        # The try fails with what spark-submit said: no job came of it.
        task.wait_try(2)
        assert lost.hits == 1
    end_well(case, task)

    first, second = case.service.pods(case.name)
    assert (first.gone, first.cancelled) == (True, True)
    assert (second.id, second.phase) == (task.store()[JOB_ID], "Succeeded")
    assert task.try_number() == 2


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


def test_a_pod_collected_after_its_success_is_no_failure(case, tmp_path):
    collected = tmp_path / "collected"
    task = case.start(
        deferrable=True,
        code=f"""
        import pathlib, time

        class SparkSubmitOperator(SparkSubmitOperator):
            def execute_complete(self, *arguments, **named):
                while not pathlib.Path({str(collected)!r}).exists():
                    time.sleep(0.1)
                return super().execute_complete(*arguments, **named)
        """,
    )
    pod_id = case.stored_id(task)
    case.running()
    case.wait(lambda: task.state() == "deferred", "the task is deferred")
    case.finish(pod_id)
    case.wait(lambda: task.state() == "running", "the triggerer has seen the end")
    case.service.garbage_collect(pod_id)
    collected.touch()
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
