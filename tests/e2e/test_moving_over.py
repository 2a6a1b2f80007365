"""A Dag is moved while its job runs: what Apache's operator started ours waits for, and the other way round.

Both directions for every operator, on real Airflow: the import line of the Dag file is changed between two
tries of one task instance, or while the task is deferred. Jobs are counted at the service.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from harness.batch_case import BatchCase
from harness.bigquery_case import BigQueryCase
from harness.databricks_case import DatabricksCase
from harness.moving import ApacheClient, move

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.airflow_client import Task

THERE, BACK = ("apache", "ours"), ("ours", "apache")
both_ways = pytest.mark.parametrize("way", [THERE, BACK], ids=["there", "back"])


@dataclass(frozen=True)
class Moving:
    """One operator in a Dag that is about to be moved.

    :param start: starts the task
    :param key: under which both operators store their job's id
    :param ids: the ids of all jobs that the service ever accepted for this case
    :param end: ends a job, well or not
    :param returned: what a task with this job returns, by whose operator ended it
    """

    case: Any
    start: Callable[..., Task]
    key: str
    ids: Callable[[], list[Any]]
    end: Callable[..., None]
    returned: Callable[[str, Any], Any]

    def stored_id(self, task: Task) -> Any:
        return self.case.wait(lambda: task.store().get(self.key), "the job's id is stored")

    def deferred(self, task: Task) -> None:
        self.case.wait(lambda: task.state() == "deferred", "the task is deferred")


def databricks(method: str, key: str) -> Callable[..., Moving]:
    def make(name: str, client: Any, request: Any) -> Moving:
        case = DatabricksCase.named(name, client, *request.getfixturevalue("workspace"))

        def end(run_id: int, *, fails: bool = False) -> None:
            if fails:
                case.databricks.call("POST", "api/2.2/jobs/runs/cancel", {"run_id": run_id})
            else:
                case.databricks.finish(run_id)

        return Moving(
            case,
            getattr(case, method),
            key,
            lambda: [run.run_id for run in case.runs()],
            end,
            # Apache's return nothing.
            lambda package, job_id: job_id if package == "ours" else None,
        )

    return make


def bigquery(name: str, client: Any, request: Any) -> Moving:
    case = BigQueryCase.named(name, client, *request.getfixturevalue("bigquery"), "lake")
    return Moving(
        case,
        case.start,
        "bigquery_job_id",
        lambda: [job.id for job in case.jobs()],
        lambda job_id, fails=False: case.bigquery.finish(job_id, "invalidQuery" if fails else None),
        lambda package, job_id: job_id,
    )


def batch(name: str, client: Any, request: Any) -> Moving:
    stage = request.getfixturevalue("stage")
    case = BatchCase.named(name, client, stage.batch, stage.proxy)
    return Moving(
        case,
        case.start,
        "batch_job_id",
        lambda: [job.id for job in case.jobs()],
        lambda job_id, fails=False: stage.batch.finish(job_id, exit_code=int(fails)),
        lambda package, job_id: job_id,
    )


def spark(name: str, client: Any, request: Any) -> Moving:
    stage = request.getfixturevalue("stage")
    case = stage.spark.case("standalone", client, name)
    return Moving(
        case,
        case.start,
        "spark_job_id",
        lambda: [job.id for job in case.jobs()],
        lambda job_id, fails=False: case.finish(job_id, int(fails)),
        lambda package, job_id: None,
    )


SUBMIT_RUN = pytest.param(databricks("submit", "databricks_run_id"), id="databricks-submit-run")
RUN_NOW = pytest.param(databricks("run_now", "databricks_run_now_id"), id="databricks-run-now")
BIGQUERY = pytest.param(bigquery, id="bigquery")
BATCH = pytest.param(batch, id="batch")
SPARK = pytest.param(spark, id="spark")


def begin(make: Callable[..., Moving], way: tuple[str, str], airflow: Any, request: Any) -> Moving:
    """Make a case whose Dag imports from where the way begins."""
    client = ApacheClient.of(airflow.client) if way == THERE else airflow.client
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.callspec.id)
    return make(f"moving-{name}", client, request)


@both_ways
@pytest.mark.parametrize("make", [SUBMIT_RUN, RUN_NOW, BIGQUERY, SPARK])
def test_a_retry_waits_for_the_job_of_before_the_move(make, way, airflow, request):
    moving = begin(make, way, airflow, request)
    task = moving.start()
    job_id = moving.stored_id(task)
    move(moving.case, to=way[1])
    task.task_process(1).kill()
    task.wait_try(2)
    # It runs the other package's code now, and goes on only when the job has ended.
    task.task_process(2)
    moving.end(job_id)
    task.wait("success")
    assert moving.ids() == [job_id]
    assert task.return_value() == moving.returned(way[1], job_id)


# Apache's Batch operator stores nothing, and its trigger needs a library that pins another boto3; Spark's has
# no trigger.
deferrals = pytest.mark.parametrize(
    ("make", "way"),
    [
        pytest.param(*operator.values, way, id=f"{operator.id}-{name}")
        for operator in (SUBMIT_RUN, RUN_NOW, BIGQUERY, BATCH)
        for name, way in (("there", THERE), ("back", BACK))
        if (operator, way) != (BATCH, THERE)
    ],
)


@pytest.mark.usefixtures("triggerer")
@deferrals
def test_a_deferral_of_before_the_move_ends_in_the_jobs_result(make, way, airflow, request):
    moving = begin(make, way, airflow, request)
    task = moving.start(deferrable=True)
    moving.deferred(task)
    move(moving.case, to=way[1])
    (job_id,) = moving.ids()
    moving.end(job_id)
    task.wait("success")
    assert moving.ids() == [job_id]
    assert task.return_value() == moving.returned(way[1], job_id)
    assert task.try_number() == 1


@pytest.mark.usefixtures("triggerer")
@deferrals
def test_a_deferral_of_before_the_move_fails_if_its_job_does(make, way, airflow, request):
    moving = begin(make, way, airflow, request)
    task = moving.start(deferrable=True, retries=0)
    moving.deferred(task)
    move(moving.case, to=way[1])
    (job_id,) = moving.ids()
    moving.end(job_id, fails=True)
    task.wait("failed")
    assert moving.ids() == [job_id]
    # By the job, that is, and not because the trigger or the resumed task came to grief.
    assert "Trigger failure" not in task.log()
    assert "TypeError" not in task.log()
