"""What being durable adds to a task, measured inside a task of a real Airflow with a real API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.airflow_server import AirflowServer

#: The variants of ``overhead_dag.py``, in the table's order and words.
LABELS = {
    "not_durable": "durable=False",
    "airflow": "Airflow's mixin, its six hooks",
    "id_only": "ours, the same six hooks",
    "durable": "ours, and recover_job: the record is written ahead",
}


@dataclass(frozen=True)
class Variant:
    """A first try's store calls, with a job that takes no time, and milliseconds more than not durable."""

    store_calls: int
    added_ms: float


def measure(folder: Path, progress: Callable[[str, float], None]) -> dict[str, Variant]:
    """
    Start an Airflow, run the Dag of ``overhead_dag.py``, and return what it measured, by variant.

    :param folder: becomes AIRFLOW_HOME
    :param progress: is told what happens, and which part of it is done
    """
    progress("starting Airflow", 0.1)
    server = AirflowServer.start(folder, components=("api-server", "scheduler", "dag-processor"))
    try:
        progress("running the task", 0.7)
        client = server.client
        client.add_dag("bench_overhead", Path(__file__).with_name("overhead_dag.py"))
        run = client.trigger("bench_overhead")
        run.wait("success")
        by_variant = run.task("measure").return_value()
    finally:
        server.stop()
    plain = by_variant["not_durable"]
    assert plain["store_calls"] == 0
    return {
        name: Variant(int(measured["store_calls"]), measured["ms"] - plain["ms"])
        for name, measured in by_variant.items()
    }
