"""A checkpoint in ``task_state_store``: a retry goes on where the last try stopped. Needs Airflow 3.3.

The store belongs to one task instance and outlives its tries: no other run, task or mapped index sees it.

The run's parameters name a file of JSON lines and the folder to load it into.
"""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, task

#: Storing takes a request, some 20 ms: once for a batch of records, not for each.
BATCH = 100

with DAG(
    "state_checkpoint", schedule=None, params={"source": "/data/orders.jsonl", "target": "/data/loaded"}
):

    @task(retries=3, retry_delay=timedelta(seconds=5))
    def load(params=None, task_state_store=None):
        source, target = Path(params["source"]), Path(params["target"])
        lines = source.read_text().splitlines()
        for start in range(task_state_store.get("cursor", default=0), len(lines), BATCH):
            orders = [json.loads(line) for line in lines[start : start + BATCH]]
            # First the data, then the cursor. A try that dies in between does this batch again, so a batch
            # must be safe to write twice: here, the second time replaces the first.
            (target / f"orders-{start}.json").write_text(json.dumps(orders))
            task_state_store.set("cursor", start + len(orders))
        return len(lines)

    load()
