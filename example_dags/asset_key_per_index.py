"""Mapped tasks and one asset: each index writes a key of its own. Needs Airflow 3.3.

``asset_state_store`` belongs to the asset, not to the index. Were all of them to write ``offset``, the
last one would win.

The run's parameter names a folder with a file for each partition.
"""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from airflow.sdk import DAG, Asset, task

EVENTS = Asset("events")
PARTITIONS = [0, 1, 2]

with DAG(
    "asset_key_per_index",
    schedule=None,
    max_active_runs=1,
    params={"folder": "/data/events"},
    default_args={"retries": 2, "retry_delay": timedelta(seconds=5)},
):

    @task(outlets=[EVENTS])
    def load(partition, params=None, asset_state_store=None):
        state, key = asset_state_store[EVENTS], f"offset_{partition}"
        offset = state.get(key, default=0)
        events = (Path(params["folder"]) / f"{partition}.log").read_text().splitlines()[offset:]
        state.set(key, offset + len(events))
        return len(events)

    @task(inlets=[EVENTS])
    def offsets(asset_state_store=None):
        return {
            str(partition): asset_state_store[EVENTS].get(f"offset_{partition}") for partition in PARTITIONS
        }

    load.expand(partition=PARTITIONS) >> offsets()
