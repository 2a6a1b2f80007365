"""The services that both operators of a pair run against, one process and no network.

The fakes are those of the unit tests: of the provider packages nothing is replaced but the transport.
"""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

if TYPE_CHECKING:
    from parity.pairs import Pair

COPY = {
    "copy": {
        "sourceTable": {"projectId": "p", "datasetId": "d", "tableId": "a"},
        "destinationTable": {"projectId": "p", "datasetId": "d", "tableId": "b"},
    }
}


async def first_event(trigger: Any) -> Any:
    """Run a trigger as a triggerer does."""
    return (await anext(trigger.run())).payload


@dataclass(frozen=True)
class Running:
    """
    A service that runs.

    :param arguments: what an operator needs to find it, and to ask it often
    :param context: makes a try's context
    :param fail: has the jobs of from now on fail
    :param start: starts a job, has it end, and returns its id
    :param id_attribute: where both operators keep the id of their job, for listeners to read
    :param hold: has jobs go on until a trigger runs
    :param triggerer: runs a trigger, Apache's too, and returns its event
    """

    arguments: Mapping[str, Any]
    context: Callable[[], dict[str, Any]]
    fail: Callable[[], None]
    start: Callable[[], Any]
    id_attribute: str | None = "job_id"
    hold: Callable[[], None] = lambda: None
    triggerer: Callable[[Any], Coroutine[Any, Any, Any]] = first_event


@contextmanager
def _databricks(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    from tenacity import stop_after_attempt, wait_none

    from unit.databricks import jobs_api
    from unit.fakes import Store

    arguments = {
        "polling_period_seconds": 0.001,
        "databricks_retry_args": {"stop": stop_after_attempt(1), "wait": wait_none()},
    }
    with jobs_api.workspace(monkeypatch) as api:
        outcome: dict[str, Any] = jobs_api.SUCCEEDED

        def end(run: dict[str, Any]) -> None:
            run.update(outcome)

        def fail() -> None:
            nonlocal outcome
            outcome = jobs_api.FAILED

        def hold() -> None:
            # Apache's operator looks at a run twice before it defers.
            api.ends = lambda run: None

        def start() -> int:
            run_id = api.start()
            end(api.runs[run_id])
            return run_id

        api.ends = end

        async def triggerer(trigger: Any) -> Any:
            for run in api.runs.values():
                end(run)
            # Apache's asks with aiohttp, which is not answered like the rest.
            async with jobs_api.served(api) as port:
                connection = {"host": "127.0.0.1", "port": port, "schema": "http", "password": "dapi"}
                with pytest.MonkeyPatch.context() as patch:
                    there = json.dumps({"conn_type": "databricks", **connection})
                    patch.setenv("AIRFLOW_CONN_DATABRICKS_DEFAULT", there)
                    return await first_event(trigger)

        yield Running(arguments, lambda: jobs_api.context(Store()), fail, start, "run_id", hold, triggerer)


@contextmanager
def _bigquery(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    from unit.bigquery import jobs_api
    from unit.fakes import Store

    with jobs_api.service(monkeypatch) as bigquery:

        def fail() -> None:
            bigquery.ends_with = "invalidQuery"

        def start() -> str:
            job_id = f"job-{len(bigquery.jobs)}"
            bigquery.start(job_id, COPY)
            bigquery.finish(job_id, bigquery.ends_with)
            return job_id

        # Apache's operator does not find a job where BigQuery put it, only where the author did.
        arguments = {"configuration": COPY, "poll_interval": 0.001, "location": jobs_api.TOKYO}
        yield Running(arguments, lambda: jobs_api.context(Store()), fail, start)


@contextmanager
def _batch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    from unit.batch import batch_api

    client = batch_api.account(monkeypatch)
    client.takes_repeats = True
    sleep = time.sleep
    monkeypatch.setattr(time, "sleep", lambda seconds: sleep(min(seconds, 0.002)))

    def fail() -> None:
        client.ends_as = "FAILED"

    def start() -> str:
        names = batch_api.NAMES
        request = {"jobName": names["job_name"], "jobQueue": names["job_queue"], "jobDefinition": "d"}
        job_id: str = client.submit_job(**request)["jobId"]
        return job_id

    arguments = {"poll_interval": 1, "aws_conn_id": None, "region_name": "eu-west-1"}
    yield Running(arguments, batch_api.context, fail, start)


@contextmanager
def _spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator

    from unit.fakes import Store, TaskInstance
    from unit.spark.cluster import Cluster

    class Pushing(TaskInstance):
        xcoms: ClassVar[dict[str, Any]] = {}

        def xcom_push(self, key: str, value: Any) -> None:
            self.xcoms[key] = value

    with TemporaryDirectory() as folder, Cluster.start("YARN", Path(folder), monkeypatch) as cluster:

        def fail() -> None:
            cluster.default = "FAILED"
            # Where it waits for the application, spark-submit ends as that does.
            cluster.plan("""
                if "spark.yarn.submit.waitAppCompletion=false" not in sys.argv:
                    sys.exit("Application finished with failed status")
            """)

        def context() -> dict[str, Any]:
            ti = Pushing()
            return {"ti": ti, "task_instance": ti, "task_state_store": Store()}

        # Newer versions of Apache's ask for it, unless durable=False.
        tracks = "yarn_track_via_rm_api"
        known = tracks in inspect.signature(SparkSubmitOperator.__init__).parameters
        arguments = {"status_poll_interval": 1, **({tracks: True} if known else {})}
        yield Running(arguments, context, fail, NotImplemented, id_attribute=None)


SERVICES: dict[str, Callable[[pytest.MonkeyPatch], AbstractContextManager[Running]]] = {
    "apache-airflow-providers-amazon": _batch,
    "apache-airflow-providers-apache-spark": _spark,
    "apache-airflow-providers-databricks": _databricks,
    "apache-airflow-providers-google": _bigquery,
}


def service_of(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> AbstractContextManager[Running]:
    """Return the service that the operators of ``pair`` run jobs on."""
    return SERVICES[pair.distribution](monkeypatch)


@dataclass(frozen=True)
class Ran:
    """What came of one run, where the job's id reads ID."""

    returned: Any
    pushed: Mapping[str, Any]
    error: Exception | None
    task: Any


def run(pair: Pair, operator: type[Any], service: Running, **arguments: Any) -> Ran:
    """Make a task and execute it."""
    task = operator(**pair.given(**{**service.arguments, **arguments}))
    return call(service, task, "execute")


def call(service: Running, task: Any, method: str, *arguments: Any, **more: Any) -> Ran:
    """Call a ``method`` of ``task`` as a worker does."""
    context = {**service.context(), "task": task}
    returned, error = None, None
    try:
        returned = getattr(task, method)(context, *arguments, **more)
    except Exception as raised:  # noqa: BLE001 - which error it is, is the question
        error = raised
    job_id = getattr(task, service.id_attribute) if service.id_attribute else None
    pushed = dict(context["ti"].xcoms)
    return Ran(_anonymous(returned, job_id), _anonymous(pushed, job_id), error, task)


def _anonymous(value: Any, job_id: Any) -> Any:
    if job_id is None:
        return value
    if isinstance(value, dict):
        return {key: _anonymous(one, job_id) for key, one in value.items()}
    if isinstance(value, str):
        return value.replace(str(job_id), "ID")
    return "ID" if value == job_id else value
