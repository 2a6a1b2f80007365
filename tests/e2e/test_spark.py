"""SparkSubmitOperator on real Airflow and a real standalone cluster: one driver for one intent.

Drivers are counted in the master's book and in their own. What all three cluster managers must do is shown on
all three; what only YARN or Kubernetes can do is in test_spark_yarn.py and test_spark_kubernetes.py.
"""

from __future__ import annotations

import pytest

from harness.processes import wait_until
from harness.spark_case import JOB_ID, StandaloneCase
from harness.spark_stage import start_recovering

MANAGERS = ("standalone", "yarn", "kubernetes")
#: A second process of the task must not start before the LocalExecutor has reported the end of the first.
RESCHEDULE = """
class SparkSubmitOperator(SparkSubmitOperator):
    min_reschedule_interval = datetime.timedelta(seconds=12)
"""
#: The first try ends between the submission and the deferral.
LINGER_BEFORE_DEFERRAL = """
import time

class SparkSubmitOperator(SparkSubmitOperator):
    def make_trigger(self, external_id, context):
        if context["ti"].try_number == 1:
            time.sleep(600)
        return super().make_trigger(external_id, context)
"""

#: The first try's second process lingers when it asks for the job.
LINGER_IN_POLL = (
    RESCHEDULE
    + """
    def get_job_status(self, external_id, context):
        if context["ti"].try_number == 1:
            import time

            time.sleep(600)
        return super().get_job_status(external_id, context)
"""
)
#: What the crash matrix calls the three.
OPERATORS = {manager: f"spark-{manager}" for manager in MANAGERS}


@pytest.fixture
def case(request, stage, airflow):
    """A task on the standalone cluster."""
    return stage.spark.case("standalone", airflow.client, short(request))


@pytest.fixture(params=MANAGERS)
def any_case(request, stage, airflow):
    """A task on each of the three."""
    return stage.spark.case(request.param, airflow.client, short(request))


@pytest.fixture
def recovering(request, stage, airflow, tmp_path):
    """A cluster of the test's own, of which it may stop the masters, and a task on it."""
    spark, connection = start_recovering(tmp_path, airflow.client, request.param, short(request))
    proxy = stage.spark.standalone()[1]
    case = StandaloneCase.named(short(request), airflow.client, (spark, proxy), connection)
    yield case
    spark.stop()


def short(request):
    kept = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return kept.removeprefix("test-").strip("-")[:40].strip("-")


def kill(task):
    """Kill the task's process, and wait until the next try runs."""
    attempt = task.try_number()
    task.task_process(attempt).kill()
    task.wait_try(attempt + 1)


def end_well(case, task):
    """Let the latest job succeed, and the task with it."""
    case.finish(case.running()[-1].id)
    task.wait("success")


def wait_deferred(case, task):
    case.wait(lambda: task.state() == "deferred", "the task is deferred")


def wait_watched(case, task):
    """Wait until a triggerer runs the trigger: before, Airflow has nobody to tell of a person's click."""
    wait_deferred(case, task)
    task.wait_log(f"trigger {case.name}/")


def only(case):
    (job,) = case.jobs()
    return job


# -- what holds on all three ---------------------------------------------------------------------


@pytest.mark.crash_matrix(OPERATORS, "poke")
def test_a_retry_after_a_kill_in_mid_poll_reconnects(any_case):
    case, task = any_case, any_case.start()
    job_id = case.stored_id(task)
    case.running()
    kill(task)
    end_well(case, task)

    assert [(one["try_number"], one["state"]) for one in task.tries()] == [(1, "failed"), (2, "success")]
    assert (only(case).id, only(case).cancelled) == (job_id, False)
    assert task.return_value() is None


def test_marking_failed_cancels_the_job_that_an_earlier_try_started(any_case):
    case, task = any_case, any_case.start()
    job_id = case.stored_id(task)
    case.running()
    kill(task)
    task.wait_log("econnect")
    process = task.task_process(2)
    task.mark("failed")
    process.wait_gone()
    wait_until(lambda: not only(case).active, "the job has ended", 60)

    assert (only(case).id, only(case).cancelled) == (job_id, True)


@pytest.mark.crash_matrix(OPERATORS, "reschedule")
def test_a_kill_during_a_rescheduled_poll_makes_no_second_job(any_case):
    case = any_case
    task = case.start(mode="reschedule", code=LINGER_IN_POLL)
    job_id = case.stored_id(task)
    case.wait(lambda: task.state() == "up_for_reschedule", "the task has left its worker")
    case.wait(lambda: task.state() == "running", "it is back")
    task.task_process(1).kill()
    task.wait_try(2, ("running", "up_for_reschedule"))
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (job_id, False)
    assert task.try_number() == 2


@pytest.mark.crash_matrix(OPERATORS, "defer")
@pytest.mark.usefixtures("triggerer")
def test_marking_a_deferred_task_failed_cancels_the_job_that_an_earlier_try_started(any_case):
    case = any_case
    task = case.start(deferrable=True, code=LINGER_BEFORE_DEFERRAL)
    job_id = case.stored_id(task)
    task.task_process(1).kill()
    wait_watched(case, task)
    task.mark("failed")
    wait_until(lambda: not only(case).active, "the job has ended", 60)

    assert (only(case).id, only(case).cancelled) == (job_id, True)


# -- standalone ----------------------------------------------------------------------------------


def test_a_kill_before_the_deferral_is_recorded_makes_no_second_job(case):
    task = case.start(deferrable=True, code=LINGER_BEFORE_DEFERRAL)
    job_id = case.stored_id(task)
    task.task_process(1).kill()
    task.wait_try(2, "deferred")
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (job_id, False)
    assert task.try_number() == 2


def test_a_rescheduled_task_stays_one_try_with_one_job(case):
    task = case.start(mode="reschedule", code=RESCHEDULE)
    case.wait(lambda: task.state() == "up_for_reschedule", "the task has left its worker")
    end_well(case, task)

    assert (len(case.jobs()), task.try_number()) == (1, 1)
    assert only(case).id == task.store()[JOB_ID]


def test_a_driver_that_fails_fails_the_task(case):
    task = case.start(retries=0)
    job_id = case.stored_id(task)
    case.running()
    case.finish(job_id, 3)
    task.wait("failed")

    assert (only(case).id, only(case).state) == (job_id, "FAILED")
    assert f"{job_id} ended as FAILED" in task.log()


def test_secrets_are_in_neither_log_nor_store(case):
    task = case.start(
        seconds=1,
        conf={"spark.hadoop.fs.s3a.secret.key": "conf-hush-1", "spark.app.password": "conf-hush-2"},
        arguments=["--password", "argument-hush-3", "--token=argument-hush-4", "--plain", "shown"],
    )
    task.wait("success")

    log = task.log()
    assert "shown" in log
    assert "hush" not in log
    assert "hush" not in str(task.store())


def test_a_retry_after_an_eviction_reconnects(case):
    task = case.start()
    job_id = case.stored_id(task)
    case.running()
    process = task.task_process()
    task.supervisor_process().terminate()
    process.wait_gone()
    assert only(case).active
    task.wait_try(2)
    end_well(case, task)

    assert (only(case).id, only(case).cancelled) == (job_id, False)


def test_clearing_the_running_task_kills_the_driver_and_runs_a_new_one(case):
    task = case.start()
    case.stored_id(task)
    case.running()
    task.clear()
    case.submitted(2)
    end_well(case, task)

    old, new = case.jobs()
    assert (old.state, new.state) == ("KILLED", "FINISHED")
    assert task.store()[JOB_ID] == new.id


def test_clearing_a_succeeded_task_runs_a_second_driver(case):
    task = case.start(seconds=0)
    task.wait("success")
    task.clear()
    case.submitted(2)
    task.wait("success")

    assert [job.state for job in case.jobs()] == ["FINISHED", "FINISHED"]


def test_post_submit_commands_run_once_when_the_driver_has_ended(case, tmp_path):
    marks = tmp_path / "marks"
    task = case.start(post_submit_commands=[f"sh -c 'echo done >> {marks}'"])
    case.stored_id(task)
    case.running()
    kill(task)
    assert not marks.exists()
    end_well(case, task)

    assert marks.read_text().splitlines() == ["done"]


def test_in_client_mode_the_driver_is_the_workers_child_and_the_task_says_so(case):
    task = case.start(seconds=2, deploy_mode="client")
    task.wait("success")

    (process,) = case.application.processes()
    assert process.id.startswith("client-")
    assert task.log().count("durable has no effect") == 1
    assert task.store() == {}


@pytest.mark.parametrize(("on_lost_submission", "drivers"), [("resubmit", 2), ("fail", 1)])
def test_a_driver_whose_id_was_lost_is_the_authors_decision(case, on_lost_submission, drivers):
    with case.fault("hold_response", "submit", times=1) as answer:
        task = case.start(on_lost_submission=on_lost_submission, retries=1)
        answer.wait_held()
        # At once: spark-submit waits for the answer for some 10 s only.
        task.task_process(1).kill()
        lost = case.submitted()[0].id
    if on_lost_submission == "resubmit":
        task.wait_try(2)
        case.finish(case.running(2)[-1].id)
        task.wait("success")
    else:
        task.wait("failed")
        assert "clear" in task.log(2).lower()
        assert f":{case.service.master().ui_port}" in task.log(2)

    assert len(case.jobs()) == drivers
    assert case.jobs()[0].id == lost
    assert not case.jobs()[0].cancelled


# -- a master goes away --------------------------------------------------------------------------


@pytest.mark.parametrize("recovering", ["FILESYSTEM"], indirect=True)
def test_a_driver_and_its_deferred_task_outlive_a_restart_of_the_master(recovering):
    case = recovering
    task = case.start(deferrable=True)
    job_id = case.stored_id(task)
    case.running()
    wait_deferred(case, task)
    case.service.restart_master()
    end_well(case, task)

    assert (only(case).id, only(case).state) == (job_id, "FINISHED")
    assert task.try_number() == 1


@pytest.mark.parametrize("recovering", ["ZOOKEEPER"], indirect=True)
def test_a_driver_and_its_task_outlive_the_end_of_the_leading_master(recovering):
    case, spark = recovering, recovering.service
    task = case.start()
    job_id = case.stored_id(task)
    case.running()
    first = spark.leader()
    spark.stop_master(first)
    kill(task)  # so that it is found again, too, with a host of the URL dead
    wait_until(lambda: spark.leader() not in (None, first), "the other master leads", 120)
    end_well(case, task)

    assert (only(case).id, only(case).state) == (job_id, "FINISHED")


@pytest.mark.parametrize("recovering", ["NONE"], indirect=True)
def test_a_driver_that_a_restarted_master_has_forgotten_is_not_doubled(recovering):
    case, spark = recovering, recovering.service
    task = case.start(retries=1)
    case.stored_id(task)
    (first,) = case.running()
    spark.restart_master()
    # The worker is told to kill what the new master does not know; only then may a new one start.
    case.wait(lambda: len(case.jobs()) == 2, "a second driver")
    forgotten = next(job for job in case.jobs() if job.id == first.id)
    assert (forgotten.active, forgotten.state) == (False, "FORGOTTEN")
    end_well(case, task)

    assert len(case.jobs()) == 2
