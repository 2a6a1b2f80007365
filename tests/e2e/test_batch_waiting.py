"""Waiting without holding a worker, on real Airflow: deferred in a triggerer, or rescheduled without one.

Each test counts the jobs in the service's own books, and never mocks.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from harness.batch_case import BatchCase
from harness.processes import wait_until

JOB_ID = "batch_job_id"

#: A second process of the task must not start before the LocalExecutor has reported the end of the first.
RESCHEDULE = """
class BatchOperator(BatchOperator):
    min_reschedule_interval = datetime.timedelta(seconds=12)
"""


def wait_deferred(case, task):
    case.wait(lambda: task.state() == "deferred", "the task is deferred")


def wait_watched(case, task):
    """Wait until the triggerer has the task: before that, Airflow has nobody to tell of a person's click."""
    wait_deferred(case, task)
    (job,) = case.jobs()
    # The worker submitted and asked nothing.
    case.wait(lambda: case.proxy.count("/v1/describejobs$", job.id) > 0, "the triggerer watches the job")


def rescheduled(case, **operator):
    task = case.start(code=RESCHEDULE, mode="reschedule", **operator)
    case.wait(lambda: task.state() == "up_for_reschedule", "the task has left its worker")
    return task


# -- deferred ------------------------------------------------------------------------------------


def test_a_deferred_task_returns_the_job_id_with_links_as_in_every_way_of_waiting(case):
    task = case.start(deferrable=True)
    (job,) = case.running()
    wait_deferred(case, task)
    case.batch.finish(job.id)
    task.wait("success")

    assert [one.id for one in case.jobs()] == [job.id]
    assert task.return_value() == job.id
    assert task.try_number() == 1


@pytest.mark.crash_matrix("batch", "defer")
def test_a_kill_after_submission_and_before_the_deferral_is_recorded_makes_no_second_job(case):
    task = case.start(
        deferrable=True,
        code="""
        import time

        class BatchOperator(BatchOperator):
            def make_trigger(self, external_id, context):
                if context["ti"].try_number == 1:
                    time.sleep(600)
                return super().make_trigger(external_id, context)
        """,
    )
    (job,) = case.running()
    case.wait(lambda: task.store().get(JOB_ID), "the job's id is stored")
    task.task_process(try_number=1).kill()
    task.wait_try(2, "deferred")
    case.batch.finish(job.id)
    task.wait("success")

    assert [(one.id, one.terminated) for one in case.jobs()] == [(job.id, False)]
    assert task.return_value() == job.id


@pytest.mark.crash_matrix("batch", "defer")
def test_a_kill_while_the_task_resumes_makes_no_second_job_and_loses_no_result(case):
    task = case.start(
        deferrable=True,
        code="""
        import time

        class BatchOperator(BatchOperator):
            def get_job_result(self, external_id, context):
                if context["ti"].try_number == 1:
                    self.log.info("lingering in the result")
                    time.sleep(600)
                return super().get_job_result(external_id, context)
        """,
    )
    (job,) = case.running()
    wait_deferred(case, task)
    case.batch.finish(job.id)
    task.wait_log("lingering in the result")
    task.task_process(try_number=1).kill()
    task.wait("success")

    assert [one.id for one in case.jobs()] == [job.id]
    assert task.return_value() == job.id
    assert task.try_number() == 2


def test_twenty_jobs_outlive_their_triggerer(private_case, private_airflow):
    case = private_case
    private_airflow.start_component("triggerer")
    names = [f"{case.name}-{index}" for index in range(20)]
    case.start(deferrable=True, expand={"job_name": names})
    tasks = [case.run.task("job", index) for index in range(20)]
    case.wait(lambda: all(task.state() == "deferred" for task in tasks), "20 deferred tasks", 300)
    private_airflow.stop_component("triggerer", kill=True)
    for job in case.jobs()[:10]:  # some end while nobody watches
        case.batch.finish(job.id)
    private_airflow.start_component("triggerer")
    for job in case.jobs()[10:]:
        case.batch.finish(job.id)
    case.run.wait("success", 300)

    jobs = case.jobs()
    assert len(jobs) == 20
    assert not any(job.terminated for job in jobs)
    by_name = {job.name: job.id for job in jobs}
    assert [task.return_value() for task in tasks] == [by_name[name] for name in names]
    assert {task.try_number() for task in tasks} == {1}


@pytest.mark.usefixtures("triggerer")
def test_marking_a_deferred_task_failed_cancels_the_job(case):
    task = case.start(deferrable=True)
    case.running()
    wait_watched(case, task)
    task.mark("failed")
    # The run has failed with its task; the triggerer hears of it within a moment.
    wait_until(lambda: case.jobs()[0].terminated, "the job is terminated", 60)

    assert [job.terminated for job in case.jobs()] == [True]


@pytest.mark.usefixtures("triggerer")
def test_clearing_a_deferred_task_cancels_the_old_job_and_runs_a_new_one(case):
    task = case.start(deferrable=True, parameters={"standin_stop_seconds": 5})
    case.running()
    wait_watched(case, task)
    task.clear()
    case.wait(lambda: len(case.jobs()) == 2, "a second job")
    old, new = case.jobs()
    case.batch.finish(new.id)
    task.wait("success")

    assert (old.terminated, case.batch.job(new.id).terminated) == (True, False)
    assert len(case.jobs()) == 2
    assert task.return_value() == new.id


def test_a_deferred_job_that_fails_fails_the_task_with_its_reason(case):
    task = case.start(deferrable=True, retries=0)
    (job,) = case.running()
    wait_deferred(case, task)
    case.batch.finish(job.id, exit_code=9, reason="Spot interruption")
    task.wait("failed")

    log = task.log()
    assert "Spot interruption" in log
    assert "exit code: 9" in log
    assert len(case.jobs()) == 1


def test_execution_timeout_of_a_deferred_task_cancels_the_job(case):
    task = case.start(deferrable=True, retries=0, execution_timeout=timedelta(seconds=20))
    wait_deferred(case, task)
    task.wait("failed")

    assert [job.terminated for job in case.jobs()] == [True]
    assert "AirflowTaskTimeout" in str(task.log_lines())


# -- rescheduled ---------------------------------------------------------------------------------


def test_a_rescheduled_task_frees_its_slot_and_stays_one_try(case):
    case.client.set_pool(case.name, 1)
    task = rescheduled(case, pool=case.name)
    (job,) = case.running()
    other = BatchCase.named(f"{case.name[:40]}-other", case.client, case.batch, case.proxy)
    assert other.start(seconds=1, pool=case.name, poll_interval=0.5).wait("success") == "success"
    assert case.batch.job(job.id).active
    case.batch.finish(job.id)
    task.wait("success")

    assert [one.id for one in case.jobs()] == [job.id]
    assert task.return_value() == job.id
    assert task.try_number() == 1


@pytest.mark.crash_matrix("batch", "reschedule")
def test_a_kill_during_a_rescheduled_poll_makes_no_second_job(case):
    task = rescheduled(case)
    (job,) = case.running()
    with case.fault("hold_response", "describejobs", body=job.id, times=1) as poll:
        poll.wait_held()
        task.task_process().kill()
        poll.release()
    task.wait_try(2, ("running", "up_for_reschedule"))
    case.batch.finish(job.id)
    task.wait("success")

    assert [(one.id, one.terminated) for one in case.jobs()] == [(job.id, False)]
    assert task.return_value() == job.id


@pytest.mark.parametrize("retries", [0, 1])
def test_a_rescheduled_job_that_fails_fails_the_try(case, retries):
    task = rescheduled(case, retries=retries)
    (job,) = case.running()
    case.batch.finish(job.id, exit_code=3)
    if retries:
        case.wait(lambda: len(case.jobs()) == 2, "the next try's job")
        case.batch.finish(case.jobs()[1].id)
        task.wait("success")
    else:
        task.wait("failed")
        assert "exit code: 3" in task.log()

    assert len(case.jobs()) == task.try_number() == retries + 1


def test_execution_timeout_of_a_rescheduled_task_counts_from_the_submission(case):
    task = rescheduled(case, retries=0, execution_timeout=timedelta(seconds=20))
    task.wait("failed")

    assert [job.terminated for job in case.jobs()] == [True]
    assert "passed since job" in str(task.log_lines())
