"""How long 1,000 Dag files take: ``python tests/review/bench.py [FILES]`` writes them and reviews them.

A measurement and no test: it prints seconds, on the clock and of the processor, and fails for nothing.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from airflow_provider_durable.review.engine import Selection, review
from airflow_provider_durable.review.versions import target

HEAD = """
from datetime import datetime, timedelta

from airflow.models import Variable
from airflow.operators.python import PythonOperator
from airflow.providers.amazon.aws.operators.glue import GlueJobOperator
from airflow.providers.amazon.aws.sensors.glue import GlueJobSensor
from airflow.sdk import DAG, Asset, task

DEFAULTS = {"owner": "data", "retries": 2, "retry_delay": timedelta(minutes=5)}

with DAG("dag_{number}", schedule="@daily", start_date=datetime(2026, 1, 1), default_args=DEFAULTS):
"""
STEP = """
    @task(outlets=[Asset("table_{step}")])
    def load_{step}(rows, **context):
        cursor = context["task_state_store"].get("cursor", default=0)
        for row in fetch("select * from source_{step} where id > ?", cursor):
            write(row, table="target_{step}", day=context["ds"])
            context["task_state_store"].set("cursor", row["id"])
        return {{"rows": len(rows), "table": "target_{step}"}}

    submit_{step} = GlueJobOperator(task_id="submit_{step}", job_name="job_{step}", wait_for_completion=False)
    wait_{step} = GlueJobSensor(
        task_id="wait_{step}",
        job_name="job_{step}",
        run_id="{{{{ ti.xcom_pull(task_ids='submit_{step}') }}}}",
        mode="reschedule",
    )
    report_{step} = PythonOperator(task_id="report_{step}", python_callable=print, op_args=["table_{step}"])
    submit_{step} >> wait_{step} >> [load_{step}(wait_{step}.output), report_{step}]
"""


def main(files: int) -> None:
    """Write the files, review them, print the numbers."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for number in range(files):
            path = Path(folder) / f"dag_{number}.py"
            steps = "".join(STEP.format(step=step) for step in range(4))
            path.write_text(HEAD.replace("{number}", str(number)) + steps)
            paths.append((path, path.name))
        lines = sum(path.read_text().count("\n") for path, _ in paths[:1])
        start, before = time.perf_counter(), os.times()
        result = review(paths, Selection(), target("3.3.2"))
        seconds, after = time.perf_counter() - start, os.times()
        processor = sum(after[:4]) - sum(before[:4])
    sys.stdout.write(
        f"{result.files} files of {lines} lines: {seconds:.1f} s ({processor:.1f} s of processor), "
        f"{len(result.findings)} findings\n"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
