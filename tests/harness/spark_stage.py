"""Spark's three clusters for a whole test run: what Airflow must know of them before they are there, and each
of them started once, by the first process that needs it.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from filelock import FileLock

from harness.airflow_client import AirflowApiError
from harness.fault_proxy import FaultProxy
from harness.kubernetes_service import NAMESPACE, KubernetesService, kubeconfig
from harness.spark_case import KubernetesCase, StandaloneCase, YarnCase
from harness.spark_install import SparkInstallation
from harness.spark_service import SparkService
from harness.yarn_service import YarnFront, YarnService

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.airflow_client import AirflowClient
    from harness.spark_case import SparkCase
    from harness.spark_service import Recovery

Manager = Literal["standalone", "yarn", "kubernetes"]


def connect(client: AirflowClient, conn_id: str, host: str, port: int | None, **extra: object) -> str:
    """Add a Spark connection, in cluster mode, unless another process has; returns its name."""
    body = {
        "connection_id": conn_id,
        "conn_type": "spark",
        "host": host,
        "port": port,
        "extra": json.dumps({"deploy-mode": "cluster", **extra}),
    }
    with contextlib.suppress(AirflowApiError):
        client.api("POST", "connections", body)
    assert client.api("GET", f"connections/{conn_id}")["host"] == host
    return conn_id


@dataclass(frozen=True)
class SparkStage:
    """A folder for Spark; nothing in it runs until it is asked for."""

    folder: Path

    @property
    def _kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    def airflow_env(self) -> dict[str, str]:
        """For Airflow's processes, which start before the clusters: where things will be."""
        return {
            "PATH": os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]]),
            "YARN_CONF_DIR": str(self.folder / "yarn-conf"),
            "KUBECONFIG": str(self._kubeconfig),
            "AIRFLOW__KUBERNETES_EXECUTOR__IN_CLUSTER": "False",
            "AIRFLOW__KUBERNETES_EXECUTOR__CONFIG_FILE": str(self._kubeconfig),
        }

    def installation(self) -> SparkInstallation:
        """Spark itself, and the spark-submit on Airflow's PATH."""
        with self._lock("installation"):
            return SparkInstallation.make(self.folder)

    def standalone(self) -> tuple[SparkService, FaultProxy]:
        """The shared standalone cluster, and the proxy in front of its REST server."""
        self.installation()

        def start() -> FaultProxy:
            spark = SparkService.start(self.folder)
            return FaultProxy.start(self.folder, spark.rest_url(), name="spark-proxy")

        proxy = self._once("standalone", start)
        return SparkService.attach(self.folder), proxy

    def yarn(self) -> tuple[YarnService, FaultProxy]:
        """The ResourceManager, and the proxy in front of its REST API."""
        installation = self.installation()
        urls = self.folder / "yarn.url"

        def start() -> FaultProxy:
            yarn = YarnService.start(self.folder)
            urls.write_text(yarn.url)
            proxy = FaultProxy.start(self.folder, yarn.url, name="yarn-proxy")
            YarnFront.start(self.folder, proxy.url, installation)
            return proxy

        proxy = self._once("yarn", start)
        return YarnService(urls.read_text()), proxy

    def kubernetes(self) -> tuple[KubernetesService, FaultProxy]:
        """The API server, and the proxy in front of it."""
        self.installation()
        urls = self.folder / "kubernetes.url"

        def start() -> FaultProxy:
            kubernetes = KubernetesService.start(self.folder)
            urls.write_text(kubernetes.url)
            proxy = FaultProxy.start(self.folder, kubernetes.url, name="kubernetes-proxy")
            kubeconfig(self._kubeconfig, proxy.url)
            return proxy

        proxy = self._once("kubernetes", start)
        return KubernetesService(urls.read_text()), proxy

    def connect_standalone(self, client: AirflowClient) -> str:
        """Airflow's connection to the shared standalone cluster, through the proxy: to its REST gateway."""
        spark, proxy = self.standalone()
        port = _port(proxy.url)
        ports = {"rest-port": port, "webui-port": spark.master().ui_port}
        return connect(client, "spark_rest", "spark://127.0.0.1", port, **ports)

    def connect_yarn(self, client: AirflowClient) -> str:
        """Airflow's connection to YARN."""
        _, proxy = self.yarn()
        return connect(client, "spark_yarn", "yarn", None, yarn_resourcemanager_webapp_address=proxy.url)

    def connect_kubernetes(self, client: AirflowClient) -> str:
        """Airflow's connection to Kubernetes."""
        _, proxy = self.kubernetes()
        return connect(
            client, "spark_kubernetes", "k8s://http://127.0.0.1", _port(proxy.url), namespace=NAMESPACE
        )

    def connect_all(self, client: AirflowClient) -> None:
        """The connections that example_dags/ name; ``spark_default`` leads to the master itself."""
        master = self.standalone()[0].master()
        connect(client, "spark_default", "spark://127.0.0.1", master.port, **{"rest-port": master.rest_port})
        self.connect_yarn(client)
        self.connect_kubernetes(client)

    def case(self, manager: Manager, client: AirflowClient, name: str) -> SparkCase:
        """A case on one of the three, which is started if it is not there yet."""
        kind, cluster, connect = {
            "standalone": (StandaloneCase, self.standalone, self.connect_standalone),
            "yarn": (YarnCase, self.yarn, self.connect_yarn),
            "kubernetes": (KubernetesCase, self.kubernetes, self.connect_kubernetes),
        }[manager]
        return kind.named(name, client, cluster(), connect(client))

    def _lock(self, name: str) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        return FileLock(self.folder / f"{name}.lock")

    def _once(self, name: str, start: Callable[[], FaultProxy]) -> FaultProxy:
        """What ``start`` has started, in this process or in another one."""
        urls = self.folder / f"{name}.json"
        with self._lock(name):
            if not urls.exists():
                proxy = start()
                urls.write_text(json.dumps([proxy.url, proxy.control_url]))
        return FaultProxy(*json.loads(urls.read_text()))


def start_recovering(
    folder: Path, client: AirflowClient, recovery: Recovery, conn_id: str
) -> tuple[SparkService, str]:
    """A cluster of a test's own, whose masters it may stop, and the connection to it.

    It is reached through the legacy gateway, as ``spark://host:7077`` is.
    """
    spark = SparkService.start(folder, recovery=recovery)
    master = spark.master()
    ports: dict[str, Any] = {"rest-port": master.rest_port, "webui-port": master.ui_port}
    return spark, connect(client, conn_id, spark.master_url(), None, **ports)


def _port(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port
