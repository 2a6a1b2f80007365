"""What the settings of Airflow's state stores do to a durable task, as docs/operating.md says.

``tidy_airflow`` has those that keep as little as can be kept, all at once: ``clear_on_success``, no
retention, and values that only the workers have.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from harness.batch_case import BatchCase, Code
from harness.batch_service import DEFINITION, QUEUE

KEY = "batch_job_id"


@pytest.fixture
def tidy_case(request, stage, tidy_airflow):
    """A Batch task on that Airflow."""
    name = request.node.name.removeprefix("test_").replace("[", "-").replace("]", "")
    return BatchCase.named(name[:50], tidy_airflow.client, stage.batch, stage.proxy)


def files(stage, case):
    """What the workers keep of a case."""
    return sorted(
        file.stem for file in (stage.folder / "tidy" / "state" / "tasks").glob(f"{case.name}/*/*/*/*.json")
    )


def stored(case, task):
    """Wait until the job's id is stored."""
    case.wait(lambda: task.store().get(KEY), "the job id is stored")


@pytest.mark.parametrize(
    "how", [{}, {"deferrable": True}, {"mode": "reschedule"}], ids=["poke", "defer", "reschedule"]
)
def test_a_killed_task_finds_its_job_and_leaves_nothing_behind(stage, tidy_case, how):
    with tidy_case.fault("hold_response", "submitjob", times=1) as answer:
        task = tidy_case.start(**how)
        answer.wait_held()
        task.task_process(1).kill()
    stored(tidy_case, task)
    (job,) = tidy_case.running()
    # The database has a reference and no end, the workers have the value.
    (entry,) = [
        one
        for one in task.run.client.api("GET", f"{task.path}/state-store")["task_state_store"]
        if one["key"] == KEY
    ]
    assert entry["expires_at"] is None
    assert list(entry["value"]) == ["__airflow_state_ref__"]
    assert files(stage, tidy_case) == [KEY, f"{KEY}_submission"]

    tidy_case.batch.finish(job.id)
    task.wait("success")
    assert (task.return_value(), len(tidy_case.jobs())) == (job.id, 1)
    assert (task.store(), files(stage, tidy_case)) == ({}, [])


@pytest.mark.parametrize("on_clear", ["resubmit", "resume"])
def test_after_a_clear_there_is_nothing_to_resume(stage, tidy_case, on_clear):
    task = tidy_case.start(seconds=2, on_clear=on_clear)
    task.wait("success")
    task.clear()
    tidy_case.wait(lambda: len(tidy_case.jobs()) == 2, "a second job")
    task.wait("success")
    assert task.return_value() == tidy_case.jobs()[1].id


def test_a_failed_task_keeps_its_job(stage, tidy_case):
    task = tidy_case.start(seconds=1, parameters={"standin_exit_code": 1}, retries=0)
    task.wait("failed")
    assert files(stage, tidy_case) == [KEY, f"{KEY}_submission"]


def kill_after_cleaning(case, airflow, **operator):
    """Clean the store while the job runs, then kill the worker."""
    task = case.start(**operator)
    case.running()
    stored(case, task)
    airflow.run("state-store", "clean")
    task.task_process(1).kill()
    task.wait_try(2)
    return task


def test_without_a_retention_a_cleaning_leaves_a_running_job_alone(tidy_case, tidy_airflow):
    task = kill_after_cleaning(tidy_case, tidy_airflow)
    task.wait_log("Reconnecting to existing job")
    tidy_case.batch.finish(tidy_case.running()[0].id)
    task.wait("success")
    assert len(tidy_case.jobs()) == 1


def test_a_retention_of_its_own_outlives_or_loses_the_job(case, airflow):
    """The limit that docs/operating.md names: a job must not outlive what is known of it."""
    task = kill_after_cleaning(case, airflow, state_retention=timedelta(milliseconds=1))
    case.wait(lambda: len(case.jobs()) == 2, "a second job, since the first is forgotten")
    for job in case.jobs():
        case.batch.finish(job.id)
    task.wait("success")


def test_a_key_that_never_expires_is_not_cleaned(case, airflow):
    task = kill_after_cleaning(
        case, airflow, state_retention=Code("__import__('airflow.sdk').sdk.NEVER_EXPIRE")
    )
    task.wait_log("Reconnecting to existing job")
    case.batch.finish(case.running()[0].id)
    task.wait("success")
    assert len(case.jobs()) == 1


# -- what docs/operating.md says to do with an orphan -----------------------------------------------


def orphaned(case):
    """A task that was marked failed, and whose job nobody waits for."""
    task = case.start(cancel_on_kill=False, retries=0)
    stored(case, task)
    task.mark("failed")
    task.wait("failed")
    return task


def test_a_clear_takes_an_orphan_back_whose_id_is_stored(case):
    task = orphaned(case)
    task.clear()
    task.wait_log("Reconnecting to existing job")
    case.batch.finish(case.running()[0].id)
    task.wait("success")
    assert (task.return_value(), len(case.jobs())) == (case.jobs()[0].id, 1)


def test_an_orphan_is_given_back_to_its_task_by_its_id(case):
    task = orphaned(case)
    orphan = case.batch.client().submit_job(
        jobName=case.name, jobQueue=QUEUE, jobDefinition=DEFINITION, parameters={"standin_seconds": "600"}
    )["jobId"]
    client, keys = task.run.client, f"{task.path}/state-store"
    client.api("DELETE", f"{keys}/{KEY}_submission")
    client.api("PUT", f"{keys}/{KEY}", {"value": orphan})
    task.clear()
    task.wait_log("Reconnecting to existing job")
    case.batch.finish(orphan)
    task.wait("success")
    assert (task.return_value(), len(case.jobs())) == (orphan, 2)
