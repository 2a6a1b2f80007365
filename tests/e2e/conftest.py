"""One Airflow, one AWS Batch and one proxy for the whole run, whatever the number of pytest processes.

The first process that needs them starts them; the others join. Their guards end them with the run.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from harness import bigquery_case, databricks_case, fault_proxy
from harness.airflow_server import AirflowServer, aws_connection
from harness.batch_case import BatchCase
from harness.batch_service import BatchService
from harness.bigquery_service import BigQueryService, emulator_env
from harness.databricks_service import DatabricksService
from harness.fault_proxy import FaultProxy
from harness.processes import LOOPBACK, OWNER_VARIABLE, ServiceProcess, accepts, free_port
from harness.spark_stage import SparkStage

#: Set it to look at logs and the database afterwards.
KEEP_VARIABLE = "E2E_KEEP"
CLEANER = """
import os, pathlib, shutil, signal, sys, time
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
signal.sigwait({signal.SIGTERM})
others = {int(path.read_text()) for path in pathlib.Path(sys.argv[1]).rglob("*.pid")} - {os.getpid()}
deadline = time.monotonic() + 30
while time.monotonic() < deadline and any(pathlib.Path(f"/proc/{pid}").exists() for pid in others):
    time.sleep(0.2)
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


def pytest_collection_modifyitems(items):
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.e2e)


@dataclass(frozen=True)
class Stage:
    """What the tests share."""

    folder: Path
    batch: BatchService
    proxy: FaultProxy
    owner: int

    @property
    def bigquery_port(self) -> int:
        """Where BigQuery will be: Google's client learns it from Airflow's environment alone, before that.

        Below the ports that the system gives away by itself.
        """
        return 15_000 + self.owner % 15_000

    @property
    def spark(self) -> SparkStage:
        """Spark's clusters, of which Airflow learns before they are there."""
        return SparkStage(self.folder / "spark")

    @property
    def database(self) -> Path:
        """A database with Airflow's tables, to copy from."""
        return self.folder / "empty.db"


@pytest.fixture(scope="session")
def stage(request):
    is_worker = hasattr(request.config, "workerinput")
    owner = os.getppid() if is_worker else os.getpid()
    os.environ[OWNER_VARIABLE] = str(owner)
    folder = Path(tempfile.gettempdir()) / f"durable-e2e-{os.getuid()}-{owner}"
    folder.mkdir(exist_ok=True)
    with FileLock(folder / "stage.lock"):
        urls = folder / "stage.json"
        if not urls.exists():
            if not os.environ.get(KEEP_VARIABLE):
                command = [sys.executable, "-S", "-c", CLEANER, str(folder)]
                ServiceProcess.start("cleaner", command, folder=folder, grace=60)
            batch = BatchService.start(folder / "batch")
            proxy = FaultProxy.start(folder / "proxy", batch.url)
            urls.write_text(json.dumps([batch.url, proxy.url, proxy.control_url]))
        batch_url, proxy_url, control_url = json.loads(urls.read_text())
    return Stage(folder, BatchService(batch_url), FaultProxy(proxy_url, control_url), owner)


def _start_once(stage, name, env=None, **options):
    """Start the Airflow of this name, or join the one that another pytest process has started."""
    home = stage.folder / name
    ready = home / "ready"
    with FileLock(stage.folder / f"{name}.lock"):
        if not ready.exists():
            env = {
                **aws_connection(stage.proxy.url),
                **emulator_env(f"http://{LOOPBACK}:{stage.bigquery_port}"),
                **stage.spark.airflow_env(),
                **(env or {}),
            }
            AirflowServer.start(home, env=env, database=stage.database, **options)
            ready.touch()
    return AirflowServer.attach(home)


@pytest.fixture(scope="session")
def airflow(stage):
    """The Airflow that all tests share."""
    return _start_once(stage, "airflow")


@pytest.fixture(scope="session")
def bigquery(stage, airflow):
    """The service and the proxy in front of it, for all processes, and Airflow's connection to it."""
    folder = stage.folder / "bigquery"
    with FileLock(stage.folder / "bigquery.lock"):
        urls = stage.folder / "bigquery.json"
        if not urls.exists():
            service, port, control = BigQueryService.start(folder), stage.bigquery_port, free_port()
            script = Path(fault_proxy.__file__).with_name("fault_proxy_server.py")
            ports = ["--port", str(port), "--control-port", str(control)]
            ServiceProcess.start(
                "bigquery-proxy",
                [sys.executable, "-S", str(script), *ports, "--upstream", service.url],
                folder=folder,
                ready=lambda: accepts(port) and accepts(control),
                grace=1,
            )
            urls.write_text(json.dumps([service.url, f"http://{LOOPBACK}:{control}"]))
        service_url, control_url = json.loads(urls.read_text())
        bigquery_case.connect(airflow.client)
    return BigQueryService(service_url), FaultProxy(f"http://{LOOPBACK}:{stage.bigquery_port}", control_url)


@pytest.fixture(scope="session")
def workspace(stage, airflow):
    """The service and the proxy in front of it, for all processes, and Airflow's connection to it."""
    folder = stage.folder / "databricks"
    with FileLock(stage.folder / "databricks.lock"):
        urls = stage.folder / "databricks.json"
        if not urls.exists():
            service = DatabricksService.start(folder)
            proxy = FaultProxy.start(folder, service.url, name="databricks-proxy")
            urls.write_text(json.dumps([service.url, proxy.url, proxy.control_url]))
        service_url, proxy_url, control_url = json.loads(urls.read_text())
        databricks_case.connect(airflow.client, proxy_url)
    return DatabricksService(service_url), FaultProxy(proxy_url, control_url)


@pytest.fixture
def private_airflow(stage, airflow):
    """An Airflow for a test that stops parts of it; one such test at a time, in all pytest processes.

    Started after the shared one, for which most tests wait.
    """
    with FileLock(stage.folder / "private.use"):
        server = _start_once(
            stage,
            "private",
            components=("api-server", "scheduler", "dag-processor"),
            # With the API server gone a request fails within 2 s, not after minutes of patience.
            settings={
                "SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 15,
                "WORKERS__EXECUTION_API_RETRIES": 2,
                "WORKERS__EXECUTION_API_RETRY_WAIT_MIN": 0.2,
                "WORKERS__EXECUTION_API_RETRY_WAIT_MAX": 0.5,
            },
        )
        yield server
        for name in {"api-server", "scheduler", "dag-processor"} - set(server.components):
            server.start_component(name)


@pytest.fixture(scope="session")
def tidy_airflow(stage):
    """An Airflow that keeps as little state as it can, and keeps it on the workers; see test_settings.py."""
    return _start_once(
        stage,
        "tidy",
        settings={
            "STATE_STORE__CLEAR_ON_SUCCESS": True,
            "STATE_STORE__DEFAULT_RETENTION_DAYS": 0,
            "STATE_STORE__STATE_CLEANUP_BATCH_SIZE": 1,
            "WORKERS__STATE_STORE_BACKEND": "file_state_store.FileStateStore",
        },
        env={"STATE_STORE_FOLDER": str(stage.folder / "tidy" / "state")},
    )


@pytest.fixture
def triggerer(stage, airflow):
    """The shared triggerer, for a test that kills it, or that needs it alive at one moment: one at a time."""
    with FileLock(stage.folder / "triggerer.use"):
        yield


@pytest.fixture
def case(request, stage, airflow):
    """A Batch task on the shared Airflow."""
    return BatchCase.named(_short(request.node.name), airflow.client, stage.batch, stage.proxy)


@pytest.fixture
def private_case(request, stage, private_airflow):
    """A Batch task on the private Airflow."""
    return BatchCase.named(_short(request.node.name), private_airflow.client, stage.batch, stage.proxy)


def _short(name):
    kept = "".join(letter if letter.isalnum() else "-" for letter in name.removeprefix("test_"))
    return kept[:60]
