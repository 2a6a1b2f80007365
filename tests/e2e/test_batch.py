"""BatchOperator on real Airflow: whatever dies, and whenever, there is one job for one intent.

Each test counts the jobs in the service's own books, and never mocks.
"""

from __future__ import annotations

import signal
from datetime import datetime, timedelta

import pytest

from harness.batch_case import Code
from harness.fault_proxy import aws_error

JOB_ID = "batch_job_id"


def end_well(case, task, count=1):
    """Let the latest jobs succeed, and the task with them."""
    for job in case.running(count)[-count:]:
        case.batch.finish(job.id)
    task.wait("success")


def wait_for_stored_id(case, task):
    return case.wait(lambda: task.store().get(JOB_ID), "the job's id is stored")


# -- the process dies ----------------------------------------------------------------------------


@pytest.mark.crash_matrix("batch", "poke")
def test_a_retry_after_a_kill_in_mid_poll_reconnects_and_returns_the_job_id(case):
    task = case.start()
    (job,) = case.running()
    wait_for_stored_id(case, task)
    task.task_process().kill()
    task.wait_try(2)
    end_well(case, task)

    assert [(one["try_number"], one["state"]) for one in task.tries()] == [(1, "failed"), (2, "success")]
    assert task.return_value() == job.id
    assert [job.terminated for job in case.jobs()] == [False]


@pytest.mark.crash_matrix("batch", "poke")
def test_a_kill_between_acceptance_and_storing_the_id_makes_no_second_job(case):
    with case.fault("hold_response", "submitjob", times=1) as answer:
        task = case.start()
        answer.wait_held()
        assert len(case.jobs()) == 1
        assert JOB_ID not in task.store()
        task.task_process(try_number=1).kill()
    task.wait_try(2)
    end_well(case, task)

    (job,) = case.jobs()
    assert task.return_value() == job.id
    assert task.try_number() == 2


def test_a_kill_before_the_submission_arrives_makes_one_job(case):
    with case.fault("hold_request", "submitjob", times=1) as request:
        task = case.start()
        request.wait_held()
        task.task_process(try_number=1).kill()
        # The request is still under way, as in a slow network, and nobody knows: the retry is careful.
        assert case.jobs() == []
        request.release()
    task.wait_try(2)
    end_well(case, task)

    (job,) = case.jobs()
    assert task.return_value() == job.id


def test_a_kill_of_the_supervisor_and_its_task_makes_no_second_job(private_case):
    case = private_case
    task = case.start()
    (job,) = case.running()
    wait_for_stored_id(case, task)
    supervisor, process = task.supervisor_process(), task.task_process()
    supervisor.kill()  # with its worker, as a node that fails: only missing heartbeats tell
    process.kill()
    task.wait_try(2)
    end_well(case, task)

    assert [job.id for job in case.jobs()] == [job.id]
    assert task.return_value() == job.id


def test_mapped_tasks_reconnect_each_to_its_own_job(case):
    names = [f"{case.name}-{index}" for index in range(3)]
    case.start(expand={"job_name": names})
    tasks = [case.run.task("job", index) for index in range(3)]
    case.running(3)
    for task in tasks:
        wait_for_stored_id(case, task)
        task.task_process(try_number=1).kill()
    for task in tasks:
        task.wait_try(2)
    for job in case.jobs():
        case.batch.finish(job.id)
    case.run.wait("success")

    by_name = {job.name: job.id for job in case.jobs()}
    assert len(case.jobs()) == 3
    assert [task.return_value() for task in tasks] == [by_name[name] for name in names]


# -- the answer is lost --------------------------------------------------------------------------


def test_a_lost_answer_to_the_submission_makes_no_second_job(case):
    with case.fault("drop_response", "submitjob", times=1) as lost:
        task = case.start()
        end_well(case, task)
        assert lost.hits == 1

    (job,) = case.jobs()
    assert task.return_value() == job.id
    assert task.try_number() == 1


def test_a_server_error_after_the_job_was_accepted_makes_no_second_job(case):
    error = aws_error("ServerException")
    with case.fault("answer_after", "submitjob", times=1, status=500, answer=error):
        task = case.start()
        end_well(case, task)

    assert len(case.jobs()) == 1
    assert task.try_number() == 1


@pytest.mark.parametrize(("on_lost_submission", "jobs"), [("resubmit", 2), ("fail", 1)])
def test_without_permission_to_list_jobs_the_author_decides(case, on_lost_submission, jobs):
    denied = {"status": 403, "answer": aws_error("AccessDeniedException", "no batch:ListJobs")}
    with (
        case.fault("hold_response", "submitjob", times=1) as answer,
        case.fault("answer", "listjobs", **denied),
    ):
        task = case.start(on_lost_submission=on_lost_submission, retries=1)
        answer.wait_held()
        task.task_process(try_number=1).kill()
        answer.release()
        task.wait_try(2, ("running", "failed"))
        if on_lost_submission == "resubmit":
            case.wait(lambda: len(case.jobs()) == 2, "a second job")
            case.batch.finish(case.jobs()[-1].id)
            task.wait("success")
        else:
            task.wait("failed")
            assert "batch:ListJobs" in task.log(2)
    assert len(case.jobs()) == jobs


def test_throttling_while_polling_does_not_fail_the_task(case):
    task = case.start()
    (job,) = case.running()
    throttled = {"status": 429, "answer": aws_error("TooManyRequestsException")}
    # More often than boto's own retries.
    with case.fault("answer", "describejobs", body=job.id, times=12, **throttled) as rule:
        rule.wait_hits(12)
    end_well(case, task)

    assert len(case.jobs()) == 1
    assert task.try_number() == 1


def test_a_retry_that_cannot_ask_the_service_submits_nothing(case):
    task = case.start(retries=5)
    (job,) = case.running()
    wait_for_stored_id(case, task)
    with case.fault("answer", "describejobs", body=job.id, status=500, answer=aws_error("ServerException")):
        task.task_process().kill()
        task.wait_try(3, ("running", "up_for_retry", "queued", "scheduled"))
    end_well(case, task)

    assert [job.id for job in case.jobs()] == [job.id]
    assert task.return_value() == job.id


# -- the worker goes away ------------------------------------------------------------------------


@pytest.mark.crash_matrix("batch", "poke")
def test_a_retry_after_an_eviction_reconnects(case):
    task = case.start()
    (job,) = case.running()
    wait_for_stored_id(case, task)
    process = task.task_process()
    task.supervisor_process().terminate()
    process.wait_gone()
    assert not case.batch.job(job.id).terminated
    task.wait_try(2)
    end_well(case, task)

    first, second = task.tries()
    pause = datetime.fromisoformat(second["start_date"]) - datetime.fromisoformat(first["end_date"])
    assert pause < timedelta(seconds=30)
    assert [job.terminated for job in case.jobs()] == [False]
    assert task.return_value() == job.id


def test_an_eviction_on_the_last_try_cancels_the_job(case):
    task = case.start(retries=0)
    case.running()
    wait_for_stored_id(case, task)
    task.supervisor_process().terminate()
    task.wait("failed")

    assert [job.terminated for job in case.jobs()] == [True]


def test_a_long_outage_of_the_api_server_leaves_the_job_running(private_case, private_airflow):
    case = private_case
    task = case.start()
    (job,) = case.running()
    wait_for_stored_id(case, task)
    process = task.task_process()
    # Without the API server no try can start: keep Airflow from using them up.
    case.client.pause(case.name)
    private_airflow.stop_component("api-server")
    process.wait_gone(120)
    assert not case.batch.job(job.id).terminated
    private_airflow.start_component("api-server")
    case.client.pause(case.name, False)
    task.wait_try(2)
    end_well(case, task)

    assert [job.terminated for job in case.jobs()] == [False]
    assert task.return_value() == job.id


# -- a person acts -------------------------------------------------------------------------------


def test_marking_the_running_task_failed_cancels_the_job_before_the_process_is_gone(case):
    task = case.start()
    case.running()
    wait_for_stored_id(case, task)
    process = task.task_process()
    task.mark("failed")
    process.wait_gone()

    assert [job.terminated for job in case.jobs()] == [True]
    assert task.state() == "failed"


def test_clearing_the_running_task_cancels_the_old_job_and_runs_a_new_one(case):
    task = case.start()
    case.running()
    wait_for_stored_id(case, task)
    task.clear()
    case.wait(lambda: len(case.jobs()) == 2, "a second job")
    end_well(case, task)

    old, new = case.jobs()
    assert (old.terminated, new.terminated) == (True, False)
    assert task.return_value() == new.id


def test_clearing_a_succeeded_task_runs_a_second_job(case):
    task = case.start(seconds=1)
    task.wait("success")
    task.clear()
    case.wait(lambda: len(case.jobs()) == 2, "a second job")
    task.wait("success")

    first, second = case.jobs()
    assert task.return_value() == second.id != first.id


def test_clearing_a_succeeded_task_with_on_clear_resume_runs_nothing(case):
    task = case.start(seconds=1, on_clear="resume")
    task.wait("success")
    task.clear()
    task.wait_try(2, "success")

    (job,) = case.jobs()
    assert task.return_value() == job.id


# -- the job ends --------------------------------------------------------------------------------


def test_a_job_that_failed_while_nobody_watched_is_submitted_again(case):
    task = case.start()
    (job,) = case.running()
    wait_for_stored_id(case, task)
    process = task.task_process()
    process.signal(signal.SIGSTOP)
    case.batch.finish(job.id, exit_code=1)
    process.kill()
    case.wait(lambda: len(case.jobs()) == 2, "a second job")
    end_well(case, task)

    first, second = case.jobs()
    assert (first.status, second.status) == ("FAILED", "SUCCEEDED")
    assert task.return_value() == second.id


def test_a_job_that_the_service_forgot_is_submitted_again(case):
    task = case.start()
    (job,) = case.running()
    wait_for_stored_id(case, task)
    process = task.task_process()
    process.signal(signal.SIGSTOP)
    case.batch.finish(job.id, exit_code=1)
    case.batch.forget(job.id)
    process.kill()
    case.wait(lambda: len(case.jobs()) == 2, "a second job")
    end_well(case, task)

    assert task.return_value() == case.jobs()[-1].id


def test_a_failed_job_says_reason_exit_code_and_log_stream(case):
    task = case.start(retries=0)
    (job,) = case.running()
    case.batch.finish(job.id, exit_code=7, reason="Host EC2 (instance i-0abc) terminated.")
    task.wait("failed")

    log = task.log()
    assert "Host EC2 (instance i-0abc) terminated." in log
    assert "exit code: 7" in log
    assert job.id in log[log.index("exit code: 7") :]
    assert len(case.jobs()) == 1


def test_execution_timeout_cancels_the_job(case):
    task = case.start(retries=0, execution_timeout=timedelta(seconds=15))
    task.wait("failed")

    assert [job.terminated for job in case.jobs()] == [True]
    assert "AirflowTaskTimeout" in str(task.log_lines())


# -- without waiting, without durability ---------------------------------------------------------


def test_without_waiting_the_task_ends_with_the_job_accepted(case):
    task = case.start(wait_for_termination=False)
    task.wait("success")

    (job,) = case.jobs()
    assert job.active
    assert not job.terminated
    assert task.return_value() == job.id == task.store()[JOB_ID]


def test_a_kill_after_acceptance_without_waiting_submits_nothing_more(case):
    task = case.start(
        wait_for_termination=False,
        code="""
        import time

        def linger(context, result):
            if context["ti"].try_number == 1:
                time.sleep(600)
        """,
        post_execute=Code("linger"),
    )
    stored = wait_for_stored_id(case, task)
    task.task_process(try_number=1).kill()
    task.wait("success")

    assert [job.id for job in case.jobs()] == [stored]
    assert task.return_value() == stored
    assert task.try_number() == 2


@pytest.mark.parametrize("through", ["argument", "default_args"])
def test_not_durable_means_no_store_and_always_a_new_job(case, airflow, through):
    off = {"durable": False}
    task = case.start(**off) if through == "argument" else case.start(default_args=off)
    case.running()
    first_try = task.info()["id"]
    task.task_process().kill()
    task.wait_try(2)
    case.wait(lambda: len(case.jobs()) == 2, "a second job")
    second_try = task.info()["id"]
    assert task.store() == {}
    # The first job runs on, as nobody looks for it: only the second one is this try's.
    case.batch.finish(case.jobs()[-1].id)
    task.wait("success")

    assert len(case.jobs()) == 2
    assert task.return_value() == case.jobs()[-1].id
    requests = airflow.components["api-server"].log_text()
    for try_id in (first_try, second_try):
        assert f"/execution/task-instances/{try_id}" in requests
        assert f"/execution/store/ti/{try_id}" not in requests
