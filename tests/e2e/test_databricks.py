"""Databricks on real Airflow, against minilake: whatever dies, and whenever, one run for one intent.

Each test counts the runs in the service's own books. The SQL in them is executed.
"""

from __future__ import annotations

import re

import pytest

from harness.databricks_case import DatabricksCase
from harness.databricks_service import FAILING_SQL
from harness.processes import wait_until

#: The task's method that starts it, the path of its submissions, and the key of its run id.
SUBMIT = ("submit", "runs/submit", "databricks_run_id")
RUN_NOW = ("run_now", "run-now", "databricks_run_now_id")
OPERATORS = {"submit": "databricks-submit", "run": "databricks-run-now"}
BOTH = pytest.mark.parametrize(("start", "path", "key"), [SUBMIT, RUN_NOW], ids=["submit", "run-now"])


@pytest.fixture
def case(request, airflow, workspace):
    """A Databricks task on the shared Airflow."""
    kept = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    return DatabricksCase.named(kept, airflow.client, *workspace)


def stored_id(case, task, key="databricks_run_id"):
    return case.wait(lambda: task.store().get(key), "the run id is stored")


def kill(task):
    """Kill the task's process, and wait until the next try runs."""
    attempt = task.try_number()
    task.task_process(attempt).kill()
    task.wait_try(attempt + 1)


def end_well(case, task):
    case.finish()
    task.wait("success")


def only(case):
    (run,) = case.runs()
    return run


# -- the process dies ----------------------------------------------------------------------------


@pytest.mark.crash_matrix(OPERATORS, "poke")
@BOTH
def test_a_kill_in_mid_poll_reconnects(case, start, path, key):
    task = getattr(case, start)()
    run_id = stored_id(case, task, key)
    kill(task)
    end_well(case, task)

    run = only(case)
    assert (run.run_id, run.submissions, run.cancelled) == (run_id, 1, False)
    assert task.return_value() == run_id
    assert "499500" in case.databricks.output(run_id)["logs"]


@pytest.mark.crash_matrix(OPERATORS, "poke")
@BOTH
def test_a_kill_between_acceptance_and_storing_the_id_makes_no_second_run(case, start, path, key):
    case.make_job()
    with case.fault("hold_response", path, times=1) as answer:
        task = getattr(case, start)()
        answer.wait_held()
        case.submitted()
        assert key not in task.store()
        kill(task)
    stored_id(case, task, key)
    end_well(case, task)

    run = only(case)
    assert run.submissions == 2
    assert task.return_value() == run.run_id
    assert run.token == task.store()[f"{key}_submission"]["token"]


# -- the answer is lost --------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("fault", ["drop_response", "answer_after"])
def test_a_lost_answer_makes_no_second_run(case, start, path, key, fault):
    case.make_job(seconds=2)
    with case.fault(fault, path, times=1, status=503) as lost:
        task = getattr(case, start)(seconds=2)
        task.wait("success")
        assert lost.hits == 1

    run = only(case)
    assert run.submissions == 2
    assert task.try_number() == 1
    assert task.return_value() == run.run_id


def test_a_retry_that_cannot_ask_the_service_submits_nothing(case):
    task = case.submit(retries=6)
    run_id = stored_id(case, task)
    with case.fault(
        "answer", f"runs/get[?]run_id={run_id}$", status=403, answer={"error_code": "PERMISSION_DENIED"}
    ):
        task.task_process().kill()
        task.wait_try(3, ("running", "up_for_retry", "queued", "scheduled"))
    end_well(case, task)

    assert (only(case).run_id, only(case).submissions) == (run_id, 1)


# -- the worker goes away, a person acts ---------------------------------------------------------


def test_a_retry_after_an_eviction_reconnects(case):
    task = case.submit()
    run_id = stored_id(case, task)
    process = task.task_process()
    task.supervisor_process().terminate()
    process.wait_gone()
    assert not only(case).cancelled
    task.wait_try(2)
    end_well(case, task)

    assert (only(case).run_id, only(case).submissions) == (run_id, 1)


def test_marking_the_running_task_failed_cancels_the_run(case):
    task = case.submit()
    stored_id(case, task)
    process = task.task_process()
    task.mark("failed")
    process.wait_gone()

    assert only(case).cancelled


def test_clearing_a_succeeded_task_runs_a_second_run_under_a_token_of_its_own(case):
    task = case.submit(seconds=1, idempotency_token=case.name[-40:])
    task.wait("success")
    task.clear()
    case.submitted(2)
    task.wait("success")

    first, second = case.runs()
    assert first.token == case.name[-40:] != second.token
    assert task.return_value() == second.run_id


def test_clearing_the_running_task_cancels_the_old_run_and_starts_a_new_one(case):
    task = case.submit()
    stored_id(case, task)
    task.clear()
    case.submitted(2)
    end_well(case, task)

    old, new = case.runs()
    assert (old.cancelled, new.cancelled) == (True, False)
    assert task.return_value() == new.run_id


# -- the run ends --------------------------------------------------------------------------------


def test_a_failed_run_says_which_task_failed_and_why(case):
    task = case.submit(seconds=0, sql=FAILING_SQL, retries=1)
    task.wait("failed")

    assert re.search(r"ended as FAILED: .*; task .{1,3}sql.{1,3} FAILED: .*no_such_table", task.log(2))
    first, second = case.runs()
    assert first.token != second.token


@pytest.mark.crash_matrix(OPERATORS, "reschedule")
@BOTH
def test_a_kill_during_a_rescheduled_poll_makes_no_second_run(case, start, path, key):
    task = getattr(case, start)(mode="reschedule")
    run_id = stored_id(case, task, key)
    task.wait("up_for_reschedule")
    with case.fault("hold_response", f"runs/get[?]run_id={run_id}$", times=1) as poll:
        poll.wait_held()
        task.task_process().kill()
        poll.release()
    task.wait_try(2, ("running", "up_for_reschedule"))
    end_well(case, task)

    run = only(case)
    assert (run.run_id, run.submissions, run.cancelled) == (run_id, 1, False)
    assert task.return_value() == run_id


# -- the triggerer -------------------------------------------------------------------------------


@pytest.mark.crash_matrix(OPERATORS, "defer")
@pytest.mark.usefixtures("triggerer")
@BOTH
def test_a_deferred_task_outlives_its_triggerer(case, airflow, start, path, key):
    task = getattr(case, start)(deferrable=True)
    task.wait("deferred")
    run_id = stored_id(case, task, key)
    airflow.stop_component("triggerer", kill=True)
    airflow.start_component("triggerer")
    end_well(case, task)

    run = only(case)
    assert (run.run_id, run.submissions, run.cancelled) == (run_id, 1, False)
    assert task.return_value() == run_id


@pytest.mark.usefixtures("triggerer")
def test_marking_a_deferred_task_failed_cancels_the_run(case):
    task = case.submit(deferrable=True)
    task.wait("deferred")
    run_id = stored_id(case, task)
    # The worker asks once or twice; the rest is the triggerer, which has to have the task before it can act.
    asked = f"/runs/get[?]run_id={run_id}$"
    case.wait(lambda: case.proxy.count(asked) > 3, "the triggerer watches the run")
    task.mark("failed")
    wait_until(lambda: only(case).cancelled, "the run is cancelled", timeout=60)
