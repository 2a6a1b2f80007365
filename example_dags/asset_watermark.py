"""A watermark and a run summary in ``asset_state_store``, kept with the asset. Needs Airflow 3.3.

``asset_watermark`` loads what is new and updates the asset; that starts ``asset_watermark_report``, which
reads what the producer noted. Any task that has the asset as an inlet or an outlet may read and write
there.

The run's parameters name a file of JSON lines, each with a time ``at``, and the folder to load them into.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.sdk import DAG, Asset, task

ORDERS = Asset("orders")

with DAG(
    "asset_watermark",
    schedule=None,
    max_active_runs=1,  # two runs at a time would start from the same watermark
    params={"source": "/data/orders.jsonl", "target": "/data/loaded"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
):

    @task(inlets=[ORDERS], outlets=[ORDERS])
    def load(params=None, asset_state_store=None):
        state = asset_state_store[ORDERS]
        since = state.get("watermark", default="1970-01-01T00:00:00+00:00")
        orders = map(json.loads, Path(params["source"]).read_text().splitlines())
        new = [order for order in orders if order["at"] > since]
        if new:
            # The newest record's own time, not now(): what arrives late is not skipped.
            watermark = max(order["at"] for order in new)
            (Path(params["target"]) / f"after-{since}.json").write_text(json.dumps(new))
            state.set("watermark", watermark)
        state.set("last_run", {"rows": len(new), "at": datetime.now(tz=timezone.utc).isoformat()})
        return len(new)

    load()

with DAG("asset_watermark_report", schedule=[ORDERS]):

    @task(inlets=[ORDERS])
    def report(asset_state_store=None):
        state = asset_state_store[ORDERS]
        last_run = state.get("last_run", default={"rows": 0})
        return f"{last_run['rows']} orders up to {state.get('watermark')}"

    report()
