"""A Dag whose one task measures, inside a real task, what remembering a job costs."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

from airflow.sdk import DAG, BaseOperator, task
from airflow.sdk import ResumableJobMixin as AirflowMixin

from airflow_provider_durable import ResumableJobMixin

ROUNDS = 10


class SixHooks:
    """A job that is done as soon as it is asked for."""

    external_id_key = "bench_job_id"

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)  # type: ignore[attr-defined]

    def submit_job(self, context: Any) -> str:
        return "job"

    def get_job_status(self, external_id: Any, context: Any) -> str:
        return "DONE"

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "DONE"

    def get_job_result(self, external_id: Any, context: Any) -> Any:
        return external_id


class AirflowOperator(SixHooks, AirflowMixin, BaseOperator):  # type: ignore[misc]
    """With the mixin that comes with Airflow."""

    def poll_until_complete(self, external_id: Any, context: Any) -> None:
        while self.is_job_active(self.get_job_status(external_id, context)):
            time.sleep(1)


class IdOnlyOperator(SixHooks, ResumableJobMixin, BaseOperator):  # type: ignore[misc]
    """With ours, and nothing else changed."""


class DurableOperator(IdOnlyOperator):
    """With ours, and everything that it can do."""

    def recover_job(self, token: str, context: Any) -> Any:
        return None


class TimedStore:
    """The task state store, and what it was asked."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self.store, name)

        def call(*arguments: Any, **options: Any) -> Any:
            self.calls += 1
            return method(*arguments, **options)

        return call


VARIANTS = {
    "durable": (DurableOperator, {}),
    "not_durable": (DurableOperator, {"durable": False}),
    "airflow": (AirflowOperator, {}),
    "id_only": (IdOnlyOperator, {}),
}


@task
def measure(**context: Any) -> dict[str, dict[str, float]]:
    """Return store calls and milliseconds of a first try, by variant."""
    calls: dict[str, int] = {}
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for number in range(ROUNDS + 1):
        for name, (operator, parameters) in VARIANTS.items():
            context["task_state_store"].clear()
            store = TimedStore(context["task_state_store"])
            op = operator(task_id=f"{name}_{number}", **parameters)
            begin = time.perf_counter()
            op.execute({**context, "task_state_store": store})
            elapsed = time.perf_counter() - begin
            calls[name] = store.calls
            if number:  # the first round imports and connects
                times[name].append(elapsed * 1000)
    return {name: {"store_calls": calls[name], "ms": median(times[name])} for name in VARIANTS}


with DAG("bench_overhead", schedule=None):
    measure()
