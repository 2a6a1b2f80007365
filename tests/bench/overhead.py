"""What being durable adds to a task, measured inside a task of a real Airflow with a real API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.airflow_server import AirflowServer


@dataclass(frozen=True)
class Overhead:
    """A first try's store calls and milliseconds, with a job that takes no time."""

    store_calls: int
    ms: float
    airflow_store_calls: int
    airflow_ms: float
    not_durable_ms: float

    @property
    def added_ms(self) -> float:
        """What ``durable=True`` adds to ``durable=False``."""
        return self.ms - self.not_durable_ms

    @property
    def airflow_added_ms(self) -> float:
        """What Airflow's own mixin adds to the same."""
        return self.airflow_ms - self.not_durable_ms


def measure(folder: Path, progress: Callable[[str, float], None]) -> Overhead:
    """
    Start an Airflow, run the Dag of ``overhead_dag.py``, and return what it measured.

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
    durable, airflow = by_variant["durable"], by_variant["airflow"]
    assert by_variant["not_durable"]["store_calls"] == 0
    return Overhead(
        store_calls=int(durable["store_calls"]),
        ms=durable["ms"],
        airflow_store_calls=int(airflow["store_calls"]),
        airflow_ms=airflow["ms"],
        not_durable_ms=by_variant["not_durable"]["ms"],
    )
