"""Mapped tasks have a ``task_state_store`` each: one index resumes at its own cursor. Needs Airflow 3.3.

The run's parameter names a folder with a file of JSON lines for each region.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

BATCH = 100

with DAG("state_mapped_tasks", schedule=None, params={"folder": "/data/orders"}):

    @task(retries=3, retry_delay=timedelta(seconds=5))
    def load(region, params=None, task_state_store=None):
        folder = Path(params["folder"])
        lines = (folder / f"{region}.jsonl").read_text().splitlines()
        # "cursor" is this index's own, although all of them use the same key.
        for start in range(task_state_store.get("cursor", default=0), len(lines), BATCH):
            orders = [json.loads(line) for line in lines[start : start + BATCH]]
            (folder / f"{region}-{start}.json").write_text(json.dumps(orders))
            task_state_store.set("cursor", start + len(orders))
        return {"region": region, "rows": len(lines)}

    load.expand(region=["emea", "apac", "amer"])
