"""The examples of the reference document: what it calls before is found, what it calls after is clean."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_durable.review.findings import Level

if TYPE_CHECKING:
    from collections.abc import Callable

BEFORE = {
    "cursor in a Variable": (
        "DUR101",
        """
        from airflow.models import Variable
        from airflow.sdk import task

        @task
        def process(**context):
            cursor = Variable.get("etl_cursor", default_var=0)
            new_cursor = work(cursor)
            Variable.set("etl_cursor", new_cursor)
        """,
    ),
    "watermark of an asset in a Variable": (
        "DUR102",
        """
        from airflow.sdk import Variable, task

        @task
        def load(asset_name):
            new_offset = work()
            Variable.set(f"watermark_{asset_name}", new_offset)
        """,
    ),
    "last_processed_at in a Variable": (
        "DUR102",
        """
        from airflow.sdk import Variable, task

        @task
        def load():
            Variable.set("last_processed_at", work())
        """,
    ),
    "job id pushed to survive a retry": (
        "DUR103",
        """
        from airflow.sdk import task

        @task(retries=3)
        def run(**context):
            job_id = hook.submit_job()
            context["ti"].xcom_push(key="job_id", value=job_id)
        """,
    ),
    "reconnect or submit, by hand": (
        "DUR104",
        """
        from airflow.models import Variable
        from airflow.sdk import BaseOperator

        class MySparkOperator(BaseOperator):
            def execute(self, context):
                job_id = Variable.get("spark_job_id", default_var=None)
                if job_id and self._is_running(job_id):
                    self._wait(job_id)
                else:
                    job_id = self.hook.submit(self.application)
                    Variable.set("spark_job_id", job_id)
                    self._wait(job_id)
        """,
    ),
    "reconnect or submit in one expression": (
        "DUR104",
        """
        from airflow.sdk import Variable, task

        @task(retries=3)
        def run():
            if Variable.get("job_id", default=None):
                reconnect()
            else:
                submit()
        """,
    ),
    "submit task and sensor": (
        "DUR201",
        """
        from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator
        from airflow.sdk import DAG, task

        with DAG("d"):
            submit = DatabricksSubmitRunOperator(task_id="submit", tasks=TASKS, wait_for_termination=False)

            @task.sensor(poke_interval=60)
            def wait(run_id):
                return finished(run_id)

            wait(submit.output["run_id"])
        """,
    ),
    "deferrable against the wait switch": (
        "DUR210",
        """
        from airflow.providers.databricks.operators.databricks import DatabricksSubmitRunOperator

        run_job = DatabricksSubmitRunOperator(
            task_id="run_job", tasks=TASKS, deferrable=True, wait_for_termination=False
        )
        """,
    ),
}

CHECKPOINT = """
from airflow.sdk import dag, task
from pendulum import datetime

@dag(start_date=datetime(2025, 1, 1), schedule="@daily")
def etl_with_checkpoint():
    @task(retries=3)
    def process_records(**context):
        task_state_store = context["task_state_store"]
        cursor = task_state_store.get("last_cursor", default=0)
        for record in fetch_records_after(cursor):
            process(record)
            cursor = record["id"]
            task_state_store.set("last_cursor", cursor)

    process_records()

etl_with_checkpoint()
"""

MAPPED = """
from airflow.sdk import task

@task(retries=2)
def process_partition(partition_id, **context):
    task_state_store = context["task_state_store"]
    cursor = task_state_store.get("cursor", default=0)
    task_state_store.set("cursor", work(cursor))

process_partition.expand(partition_id=[0, 1, 2, 3])
"""

ASSETS = """
from airflow.sdk import DAG, Asset, task
from datetime import datetime, timezone

ORDERS = Asset(name="orders/daily", uri="s3://warehouse/orders/daily")

with DAG(dag_id="producer", schedule=None, start_date=datetime(2026, 1, 1), catchup=False):
    @task(inlets=[ORDERS], outlets=[ORDERS])
    def load(asset_state_store=None):
        asset_state_store = asset_state_store[ORDERS]
        watermark = asset_state_store.get("watermark", default="2026-01-01T00:00:00+00:00")
        records = fetch_records_since(watermark)
        now = datetime.now(tz=timezone.utc).isoformat()
        asset_state_store.set("watermark", now)
        asset_state_store.set("last_run_summary", {"rows_loaded": len(records), "completed_at": now})

    load()

with DAG(dag_id="consumer", schedule=[ORDERS], start_date=datetime(2026, 1, 1), catchup=False):
    @task(inlets=[ORDERS])
    def consume(asset_state_store=None):
        asset_state_store = asset_state_store[ORDERS]
        summary = asset_state_store.get("last_run_summary") or {}
        print(summary.get("rows_loaded"), asset_state_store.get("watermark"))

    consume()
"""

MAPPED_ASSET = """
from airflow.sdk import task

@task(outlets=[my_asset])
def load_partition(partition_id, asset_state_store=None):
    asset_state_store = asset_state_store[my_asset]
    asset_state_store.set(f"offset_{partition_id}", work(partition_id))

load_partition.expand(partition_id=[1, 2])
"""

MIXIN = """
from airflow.sdk import BaseOperator, ResumableJobMixin

class MyBatchOperator(BaseOperator, ResumableJobMixin):
    external_id_key = "batch_job_id"

    def execute(self, context):
        return self.execute_resumable(context)

    def submit_job(self, context):
        return self.hook.submit_batch(self.job)

    def get_job_status(self, external_id, context):
        return self.hook.get_status(external_id)

    def is_job_active(self, status):
        return status in ("RUNNING", "PENDING", "QUEUED")

    def is_job_succeeded(self, status):
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id, context):
        self.hook.wait(external_id)

    def get_job_result(self, external_id, context):
        return None
"""

ONE_TASK = """
from airflow_provider_durable.operators.databricks import DatabricksSubmitRunOperator

run_job = DatabricksSubmitRunOperator(
    task_id="run_job",
    tasks=[{"task_key": "job", "notebook_task": {"notebook_path": NOTEBOOK_PATH}}],
    deferrable=True,
    wait_for_termination=True,
)
run_other = DatabricksSubmitRunOperator(
    task_id="run_other",
    tasks=[{"task_key": "job", "notebook_task": {"notebook_path": NOTEBOOK_PATH}}],
    wait_for_termination=True,
    durable=True,
)
"""


@pytest.mark.parametrize("example", BEFORE)
def test_before_is_found(codes: Callable[..., list[str]], example: str) -> None:
    code, text = BEFORE[example]
    assert code in codes(text)


@pytest.mark.parametrize("text", [CHECKPOINT, MAPPED, ASSETS, MAPPED_ASSET, ONE_TASK])
def test_after_is_clean(codes: Callable[..., list[str]], text: str) -> None:
    assert codes(text) == []


def test_the_document_s_operator_is_clean_but_for_the_order_of_its_bases_which_airflow_refuses(
    review,
) -> None:
    # The document puts BaseOperator first; on Airflow 3.3.2 making a task of that class raises TypeError.
    findings = review(MIXIN)
    assert [(finding.code, finding.level) for finding in findings] == [("DUR405", Level.NOTE)]
    assert review(MIXIN.replace("BaseOperator, ResumableJobMixin)", "ResumableJobMixin, BaseOperator)")) == []


def test_switching_durability_off_is_found_in_both_forms_of_the_document(
    codes: Callable[..., list[str]],
) -> None:
    text = """
    from airflow.sdk import DAG

    MyBatchOperator(task_id="job", durable=False)
    with DAG("my_dag", default_args={"durable": False}):
        ...
    """
    assert codes(text) == ["DUR231", "DUR231"]
    assert codes(text, path="tests/dags/example.py") == []
