"""A cluster of each kind, and a task on it."""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

import pytest

from unit.fakes import Store
from unit.spark.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Needs apache-airflow-providers-cncf-kubernetes, which is an extra of its own.
HAS_KUBERNETES = importlib.util.find_spec("kubernetes") is not None
KINDS = ["standalone", "YARN", "Kubernetes"]


@pytest.fixture(params=KINDS)
def cluster(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster where every job has ended well when it is first asked for."""
    with Cluster.start(request.param, tmp_path, monkeypatch) as cluster:
        yield cluster


@pytest.fixture(params=["YARN", "Kubernetes"])
def telling_cluster(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A cluster that can tell which submission a job came from."""
    with Cluster.start(request.param, tmp_path, monkeypatch) as cluster:
        yield cluster


@pytest.fixture
def standalone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A standalone master."""
    with Cluster.start("standalone", tmp_path, monkeypatch) as cluster:
        yield cluster


@pytest.fixture
def yarn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A ResourceManager."""
    with Cluster.start("YARN", tmp_path, monkeypatch) as cluster:
        yield cluster


@pytest.fixture
def kubernetes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """A Kubernetes API server."""
    with Cluster.start("Kubernetes", tmp_path, monkeypatch) as cluster:
        yield cluster


@pytest.fixture
def store() -> Store:
    """What outlives a try."""
    return Store()
