"""BatchOperator on real Airflow: array jobs, and a job's CloudWatch log, after a kill."""

from __future__ import annotations

import pytest

JOB_ID = "batch_job_id"


def test_an_array_job_is_found_again_and_its_failed_children_are_counted(case):
    with case.fault("hold_response", "submitjob", times=1) as answer:
        task = case.start(array_properties={"size": 3}, retries=1)
        answer.wait_held()
        task.task_process(1).kill()
    task.wait_try(2)
    case.wait(lambda: task.store().get(JOB_ID), "the job is found again")
    for number, child in enumerate(case.running(3)):
        case.batch.finish(child.id, exit_code=int(number == 1))
    task.wait("failed")

    (parent,) = [job for job in case.jobs() if job.array_parent is None]
    assert [job.array_parent for job in case.jobs()].count(parent.id) == 3
    assert task.store()[JOB_ID] == parent.id
    assert task.try_number() == 2
    log = task.log()
    assert f"AWS Batch job {parent.id} failed" in log
    assert "array children: 2 SUCCEEDED, 1 FAILED" in log


@pytest.mark.parametrize("waiting", [{}, {"mode": "reschedule"}], ids=["poke", "reschedule"])
def test_the_log_of_a_job_is_in_the_log_of_the_try_that_reconnects(case, waiting):
    said = "1,842 rows written"
    task = case.start(awslogs_enabled=True, parameters={"standin_log": said}, **waiting)
    (job,) = case.running()
    case.wait(lambda: task.store().get(JOB_ID), "the job's id is stored")
    if waiting:
        # No process that could be killed waits: the one that finds the job's end has not submitted it.
        case.batch.finish(job.id)
    else:
        task.task_process(1).kill()
        task.wait_try(2)
        case.batch.finish(job.id)
    task.wait("success")

    assert said in task.log()
    assert len(case.jobs()) == 1
