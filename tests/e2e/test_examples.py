"""Every Dag of example_dags/ on real Airflow, all at once: what it says, and what became of its jobs.

They are what people copy, so nothing in them is changed for the test: what they need, their runs' parameters
say.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from filelock import FileLock

from harness.example_runs import DATASET, REGIONS, ExampleRuns, dag_files
from harness.processes import wait_until


@pytest.fixture(scope="session")
def examples(stage, airflow, bigquery, workspace):
    """All examples, triggered together by the first test process that needs one."""
    made = ExampleRuns(
        airflow.client,
        stage.batch,
        stage.proxy,
        bigquery[0],
        workspace[0],
        stage.spark,
        stage.folder / "examples",
    )
    with FileLock(stage.folder / "examples.lock"):
        runs = stage.folder / "examples.json"
        if not runs.exists():
            made.start()
            made.save(runs)
        made.join(runs)
    return made


@pytest.fixture
def task(request, examples):
    """The task of an example that has one, when its run has succeeded."""
    dag_id, task_id = request.param
    examples.runs[dag_id].wait("success")
    return examples.runs[dag_id].task(task_id)


def of(dag_id, task_id):
    return pytest.mark.parametrize("task", [(dag_id, task_id)], indirect=True, ids=[dag_id])


def batch_jobs(examples, definition):
    batch = examples.batch.client()
    jobs = [job.id for job in examples.batch.jobs()]
    pages = [jobs[start : start + 100] for start in range(0, len(jobs), 100)]
    found = [job for page in pages for job in batch.describe_jobs(jobs=page)["jobs"]]
    return [job for job in found if f"/{definition}:" in job["jobDefinition"]]


@pytest.mark.parametrize("dag_id", [path.stem for path in dag_files()])
def test_it_succeeds(examples, dag_id):
    examples.runs[dag_id].wait("success")


# -- one Dag for each operator and way of waiting ---------------------------------------------------


@pytest.mark.parametrize("task", [("batch_poke", "report"), ("batch_reschedule", "train")], indirect=True)
def test_batch_starts_one_job_and_returns_its_id(examples, task):
    (job,) = batch_jobs(examples, task.run.dag_id)
    assert task.return_value() == job["jobId"]
    assert task.store()["batch_job_id"] == job["jobId"]


def test_deferred_batch_tasks_start_one_job_each(examples):
    run = examples.runs["batch_deferrable"]
    run.wait("success")
    jobs = batch_jobs(examples, "batch_deferrable")
    assert sorted(job["parameters"]["region"] for job in jobs) == sorted(REGIONS)
    assert {run.task("report", index).return_value() for index in range(3)} == {job["jobId"] for job in jobs}


@pytest.mark.parametrize(
    "task",
    [(f"databricks_submit_run_{way}", "load") for way in ("poke", "deferrable", "reschedule")],
    indirect=True,
)
def test_a_databricks_run_is_submitted_once(examples, task):
    (run,) = examples.databricks.runs(f"load {task.run.run_id}")
    assert task.return_value() == run.run_id
    assert "499500" in examples.databricks.output(run.run_id)["logs"]


@pytest.mark.parametrize(
    "task",
    [(f"databricks_run_now_{way}", "report") for way in ("poke", "deferrable", "reschedule")],
    indirect=True,
)
def test_a_databricks_job_runs_once(examples, task):
    *earlier, run = examples.databricks.runs(task.run.dag_id)
    assert (task.return_value(), run.cancelled) == (run.run_id, False)
    # Only one of the examples ends what a person has started.
    assert [each.cancelled for each in earlier] == [True] * task.run.dag_id.endswith("_poke")


@pytest.mark.parametrize(
    ("task", "query", "rows"),
    [
        (("bigquery_poke", "load"), "SELECT COUNT(*), SUM(n) FROM {}.visits", ["3", "6"]),
        (("bigquery_deferrable", "summarize"), "SELECT COUNT(*), SUM(n) FROM {}.weekdays", ["5", "15"]),
        (("bigquery_reschedule", "history"), "SELECT COUNT(*), SUM(n) FROM {}.history", ["3", "6"]),
    ],
    indirect=["task"],
)
def test_a_bigquery_job_takes_effect_once(examples, task, query, rows):
    (job,) = examples.bigquery.jobs(task.run.dag_id)
    assert (task.return_value(), job.location) == (job.id, "asia-northeast1")
    assert examples.bigquery.sql(query.format(DATASET)) == [rows]


@of("spark_poke", "report")
def test_a_spark_driver_is_submitted_once(examples, task):
    spark = examples.spark.standalone()[0]
    (driver,) = spark.drivers(spark.application("spark_poke"))
    assert (driver.id, driver.state) == (task.store()["spark_job_id"], "FINISHED")


@of("spark_deferrable", "report")
def test_a_spark_application_on_yarn_is_submitted_once(examples, task):
    (app,) = examples.spark.yarn()[0].apps(f"report {task.run.run_id}")
    assert app.id == task.store()["spark_job_id"]
    assert "nightly" in app.tags


@of("spark_reschedule", "train")
def test_a_spark_driver_pod_is_created_once(examples, task):
    (pod,) = examples.spark.kubernetes()[0].pods(f"train-{task.run.run_id}")
    assert (pod.id, pod.cancelled) == (task.store()["spark_job_id"], False)
    assert task.try_number() == 1


# -- one of your own --------------------------------------------------------------------------------


@of("own_operator", "report")
def test_an_own_operator_reconnects_after_a_kill(examples, task):
    (execution,) = examples.executions("own_operator")
    assert (task.try_number(), execution["status"]) == (2, "SUCCEEDED")
    # Without a name AWS starts an execution for each request; the stand-in gives all of them one name.
    assert examples.proxy.count(body='stateMachine:own_operator"') == 1
    assert task.return_value() == {"rows": 3, "input": {}}


@of("own_operator_recover", "report")
def test_an_own_operator_finds_an_execution_whose_answer_was_lost(examples, task):
    (execution,) = examples.executions("own_operator_recover")
    assert (task.try_number(), execution["status"]) == (2, "SUCCEEDED")
    assert execution["name"] == task.store()["execution_arn_submission"]["token"]
    assert task.return_value() == {"rows": 3, "input": {"run": task.run.run_id}}
    assert "Found the job that was started" in task.log(2)


# -- on purpose -------------------------------------------------------------------------------------


def test_what_comes_after_a_sensor_waits_for_the_job(examples):
    run = examples.runs["submit_and_sensor"]
    run.wait("success")
    (job,) = batch_jobs(examples, "submit_and_sensor")
    published = run.task("publish").info()
    assert run.task("publish").return_value() == f"report of job {job['jobId']} is out"
    assert datetime.fromisoformat(published["start_date"]).timestamp() * 1000 > job["stoppedAt"]
    assert datetime.fromisoformat(run.task("submit").info()["end_date"]).timestamp() * 1000 < job["stoppedAt"]


@of("without_durable", "report")
def test_nothing_is_stored_without_durable(examples, task):
    (job,) = batch_jobs(examples, "without_durable")
    assert (task.return_value(), task.store()) == (job["jobId"], {})


# -- the stores -------------------------------------------------------------------------------------


@of("state_checkpoint", "load")
def test_a_retry_goes_on_from_the_checkpoint(examples, task):
    folder = examples.folder / "state_checkpoint"
    ids = [order["id"] for file in folder.glob("orders-*.json") for order in json.loads(file.read_text())]
    assert sorted(ids) == list(range(250))
    assert (task.return_value(), task.store()) == (250, {"cursor": 250})
    # Its first batch was written by the first try, and not again by the one that succeeded.
    last = next(one for one in task.tries() if one["state"] == "success")
    assert last["try_number"] > 1
    started = datetime.fromisoformat(last["start_date"]).timestamp()
    assert (folder / "orders-0.json").stat().st_mtime < started < (folder / "orders-100.json").stat().st_mtime


def test_a_mapped_task_has_a_store_for_each_index(examples):
    run = examples.runs["state_mapped_tasks"]
    run.wait("success")
    tasks = [run.task("load", index) for index in range(len(REGIONS))]
    assert [task.return_value() for task in tasks] == [{"region": name, "rows": 250} for name in REGIONS]
    assert [task.store() for task in tasks] == [{"cursor": 250}] * 3
    assert [task.try_number() > 1 for task in tasks] == [True, False, False]


@of("state_retention", "export")
def test_each_key_is_kept_for_as_long_as_it_says(task):
    found = task.run.client.api("GET", f"{task.path}/state-store")["task_state_store"]
    ends = {entry["key"]: entry["expires_at"] for entry in found}
    in_days = {
        key: end
        and round((datetime.fromisoformat(end) - datetime.now(tz=timezone.utc)) / timedelta(days=1), 1)
        for key, end in ends.items()
    }
    assert in_days == {
        "next_page": pytest.approx(0.2, abs=0.1),
        "export_id": None,
        "pages": pytest.approx(30, abs=0.2),
    }


def asset_store(client, name):
    (asset,) = [
        each for each in client.api("GET", "assets", name_pattern=name)["assets"] if each["name"] == name
    ]
    found = client.api("GET", f"assets/{asset['id']}/state-store")["asset_state_store"]
    return {entry["key"]: entry["value"] for entry in found}


def reports(client):
    found = client.api("GET", "dags/asset_watermark_report/dagRuns")["dag_runs"]
    return [run["dag_run_id"] for run in found if run["state"] == "success"]


def test_a_watermark_outlives_its_run_and_reaches_the_consumer(examples):
    client, first = examples.client, examples.runs["asset_watermark"]
    first.wait("success")
    assert first.task("load").return_value() == 250
    wait_until(lambda: len(reports(client)) == 1, "the first report")
    assert asset_store(client, "orders")["watermark"] == "2026-01-01T00:04:09Z"

    with (examples.folder / "asset_watermark" / "orders.jsonl").open("a") as source:
        source.write('\n{"id": 250, "at": "2026-01-02T00:00:00Z"}')
    conf = {name: str(examples.folder / "asset_watermark") for name in ("source", "target")}
    second = client.trigger("asset_watermark", {**conf, "source": f"{conf['source']}/orders.jsonl"})
    second.wait("success")

    assert second.task("load").return_value() == 1
    wait_until(lambda: len(reports(client)) == 2, "the second report")
    runs = [type(first)(client, "asset_watermark_report", run_id) for run_id in reports(client)]
    assert {run.task("report").return_value() for run in runs} == {
        "250 orders up to 2026-01-01T00:04:09Z",
        "1 orders up to 2026-01-02T00:00:00Z",
    }
    assert asset_store(client, "orders")["last_run"]["rows"] == 1


def test_each_index_writes_a_key_of_its_own(examples):
    run = examples.runs["asset_key_per_index"]
    run.wait("success")
    assert run.task("offsets").return_value() == {"0": 10, "1": 20, "2": 30}
    assert asset_store(examples.client, "events") == {"offset_0": 10, "offset_1": 20, "offset_2": 30}
