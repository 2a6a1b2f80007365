"""A cluster of each kind, and a task on it."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

import pytest
import responses

from unit.fakes import Store
from unit.spark.cluster import Cluster, install

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Needs apache-airflow-providers-cncf-kubernetes, which is an extra of its own.
HAS_KUBERNETES = importlib.util.find_spec("kubernetes") is not None
KINDS = ["standalone", "YARN", "Kubernetes"]


def _cluster(kind: str, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    cluster = Cluster(folder, kind)
    patch.setenv("PATH", f"{install(folder)}:{os.environ['PATH']}")
    patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", cluster.connection)
    patch.setattr("airflow_provider_durable.services.spark_standalone.FORGOTTEN_AFTER", 0.0)
    if kind == "Kubernetes":
        patch.setattr("airflow.providers.cncf.kubernetes.kube_client.get_kube_client", lambda: cluster)
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        cluster.answer(mock)
        yield cluster


@pytest.fixture(params=KINDS)
def cluster(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster where every job has ended well when it is first asked for."""
    yield from _cluster(request.param, tmp_path, monkeypatch)


@pytest.fixture(params=["YARN", "Kubernetes"])
def telling_cluster(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster that can tell which submission a job came from."""
    yield from _cluster(request.param, tmp_path, monkeypatch)


@pytest.fixture
def standalone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A standalone master."""
    yield from _cluster("standalone", tmp_path, monkeypatch)


@pytest.fixture
def yarn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A ResourceManager."""
    yield from _cluster("YARN", tmp_path, monkeypatch)


@pytest.fixture
def kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A Kubernetes API server."""
    yield from _cluster("Kubernetes", tmp_path, monkeypatch)


@pytest.fixture
def store() -> Store:
    """What outlives a try."""
    return Store()
