"""BigQuery on real Airflow, against crucible: whatever dies, and whenever, one job for one intent.

Each test counts the jobs in the service's own books and the rows that their INSERT left. No test but those
about locations names one.
"""

from __future__ import annotations

import pytest

from harness.bigquery_case import BigQueryCase
from harness.bigquery_service import PROJECT, TOKYO
from harness.processes import wait_until

KEY = "bigquery_job_id"


def make_case(request, airflow, bigquery, dataset):
    kept = "".join(c if c.isalnum() else "-" for c in request.node.name.removeprefix("test_"))
    return BigQueryCase.named(kept.strip("-"), airflow.client, *bigquery, dataset)


@pytest.fixture
def case(request, airflow, bigquery):
    """A task on the shared Airflow whose data is in the US."""
    return make_case(request, airflow, bigquery, "lake")


@pytest.fixture
def tokyo(request, airflow, bigquery):
    """The same in Tokyo, where no job is found without its location."""
    return make_case(request, airflow, bigquery, "tokyo_lake")


def stored_id(case, task):
    return case.wait(lambda: task.store().get(KEY), "the job id is stored")


def end_well(case, task):
    """Let the latest job succeed, and the task with it."""
    job = case.submitted()[-1]
    case.bigquery.finish(job.id)
    task.wait("success")


def only(case):
    (job,) = case.jobs()
    return job


# -- the process dies ----------------------------------------------------------------------------


@pytest.mark.crash_matrix("bigquery", "poke")
def test_a_kill_in_mid_poll_reconnects_in_tokyo(tokyo):
    task = tokyo.start()
    job_id = stored_id(tokyo, task)
    task.task_process().kill()
    task.wait_try(2)
    end_well(tokyo, task)

    job = only(tokyo)
    assert (job.id, job.location, job.submissions, job.cancelled) == (job_id, TOKYO, 1, False)
    assert task.return_value() == job_id
    assert tokyo.rows() == 1


@pytest.mark.crash_matrix("bigquery", "poke")
@pytest.mark.parametrize("given", [{}, {"force_rerun": False}, {"job_id": "nightly"}], ids=str)
def test_a_kill_between_acceptance_and_storing_the_id_makes_no_second_job(tokyo, given):
    with tokyo.fault("hold_response", "POST", times=1) as answer:
        task = tokyo.start(**given)
        answer.wait_held()
        assert len(tokyo.jobs()) == 1
        assert KEY not in task.store()
        task.task_process(try_number=1).kill()
    task.wait_try(2)
    stored_id(tokyo, task)
    end_well(tokyo, task)

    job = only(tokyo)
    assert job.submissions == 1
    assert task.return_value() == job.id
    assert tokyo.rows() == 1


# -- the answer is lost --------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["drop_response", "answer_after"])
def test_the_clients_repeats_of_a_submission_start_no_second_job(tokyo, fault):
    with tokyo.fault(fault, "POST", times=1, status=503) as lost:
        task = tokyo.start(seconds=1)
        task.wait("success")
        assert lost.hits == 1

    job = only(tokyo)
    assert job.submissions == 2
    assert task.try_number() == 1
    assert task.return_value() == job.id
    assert tokyo.rows() == 1


def test_a_status_request_that_fails_does_not_fail_the_task(case):
    task = case.start(result_retry=None)
    stored_id(case, task)
    with case.fault("answer", "GET", times=4, status=503) as failing:
        failing.wait_hits(4)
    end_well(case, task)

    assert only(case).submissions == 1
    assert task.try_number() == 1
    assert "Asking for the job's status failed" in task.log()
    assert case.rows() == 1


def test_a_retry_that_cannot_ask_the_service_submits_nothing(case):
    task = case.start(retries=6, result_retry=None)
    job_id = stored_id(case, task)
    with case.fault("answer", "GET", status=403):
        task.task_process().kill()
        task.wait_try(3, ("running", "up_for_retry", "queued", "scheduled"))
    end_well(case, task)

    assert (only(case).id, only(case).submissions) == (job_id, 1)
    assert case.rows() == 1


# -- the worker goes away, a person acts ---------------------------------------------------------


def test_a_retry_after_an_eviction_reconnects(tokyo):
    task = tokyo.start()
    job_id = stored_id(tokyo, task)
    process = task.task_process()
    task.supervisor_process().terminate()
    process.wait_gone()
    assert not only(tokyo).cancelled
    task.wait_try(2)
    end_well(tokyo, task)

    assert (only(tokyo).id, only(tokyo).submissions) == (job_id, 1)
    assert tokyo.rows() == 1


def test_marking_the_running_task_failed_cancels_the_job_in_tokyo(tokyo):
    task = tokyo.start()
    stored_id(tokyo, task)
    process = task.task_process()
    task.mark("failed")
    process.wait_gone()

    assert only(tokyo).cancelled
    assert tokyo.rows() == 0


def test_clearing_a_succeeded_task_runs_the_query_again(case):
    task = case.start(seconds=0)
    task.wait("success")
    task.clear()
    case.submitted(2)
    task.wait("success")

    first, second = case.jobs()
    assert task.return_value() == second.id != first.id
    assert case.rows() == 2


# -- the job ends --------------------------------------------------------------------------------


def test_after_a_job_that_hit_a_rate_limit_the_next_try_submits(case):
    task = case.start()
    job_id = stored_id(case, task)
    case.bigquery.finish(job_id, "rateLimitExceeded")
    case.submitted(2)
    end_well(case, task)

    assert "rateLimitExceeded: made to fail" in task.log(1)
    assert [bool(job.error) for job in case.jobs()] == [True, False]
    assert task.return_value() == case.jobs()[1].id
    assert case.rows() == 1


def test_a_failed_query_says_why(case):
    wrong = {"query": {"query": "SELECT * FROM lake.no_such_table", "useLegacySql": False}}
    task = case.start(seconds=0, configuration=wrong, retries=0)
    task.wait("failed")

    assert "no_such_table" in task.log()
    assert f"BigQuery job {PROJECT}:US.{only(case).id} failed" in task.log()


def test_a_load_job_reconnects(tokyo):
    table = {"projectId": PROJECT, "datasetId": "tokyo_lake", "tableId": "visits"}
    load = {"load": {"sourceUris": ["gs://bucket/visits.csv"], "destinationTable": table}}
    task = tokyo.start(configuration=load)
    job_id = stored_id(tokyo, task)
    task.task_process().kill()
    task.wait_try(2)
    end_well(tokyo, task)

    assert (only(tokyo).id, only(tokyo).submissions) == (job_id, 1)
    assert task.return_value() == job_id


@pytest.mark.crash_matrix("bigquery", "reschedule")
def test_a_kill_during_a_rescheduled_poll_makes_no_second_job(tokyo):
    task = tokyo.start(mode="reschedule")
    job_id = stored_id(tokyo, task)
    task.wait("up_for_reschedule")
    with tokyo.fault("hold_response", "GET", times=1) as poll:
        poll.wait_held()
        task.task_process().kill()
        poll.release()
    task.wait_try(2, ("running", "up_for_reschedule"))
    end_well(tokyo, task)

    assert (only(tokyo).id, only(tokyo).submissions, only(tokyo).cancelled) == (job_id, 1, False)
    assert task.return_value() == job_id
    assert tokyo.rows() == 1


# -- the triggerer -------------------------------------------------------------------------------


@pytest.mark.usefixtures("triggerer")
def test_a_deferred_task_resumes_in_tokyo(tokyo):
    task = tokyo.start(deferrable=True)
    task.wait("deferred")
    job_id = stored_id(tokyo, task)
    end_well(tokyo, task)

    assert (only(tokyo).id, only(tokyo).submissions, only(tokyo).location) == (job_id, 1, TOKYO)
    assert task.return_value() == job_id
    assert tokyo.rows() == 1


@pytest.mark.crash_matrix("bigquery", "defer")
@pytest.mark.usefixtures("triggerer")
def test_a_deferred_task_outlives_its_triggerer_in_tokyo(tokyo, airflow):
    task = tokyo.start(deferrable=True)
    task.wait("deferred")
    job_id = stored_id(tokyo, task)
    airflow.stop_component("triggerer", kill=True)
    airflow.start_component("triggerer")
    end_well(tokyo, task)

    assert (only(tokyo).id, only(tokyo).submissions, only(tokyo).cancelled) == (job_id, 1, False)
    assert task.return_value() == job_id
    assert tokyo.rows() == 1


@pytest.mark.usefixtures("triggerer")
def test_marking_a_deferred_task_failed_cancels_the_job_in_tokyo(tokyo):
    task = tokyo.start(deferrable=True)
    task.wait("deferred")
    # The worker asked nothing: this is the triggerer, which has taken over and knows BigQuery.
    asked = f"/jobs/[^/]*{tokyo.id_part}"
    tokyo.wait(lambda: tokyo.proxy.count(asked) > 0, "the triggerer asks")
    task.mark("failed")
    wait_until(lambda: only(tokyo).cancelled, "the job is cancelled", timeout=60)
    assert tokyo.rows() == 0
