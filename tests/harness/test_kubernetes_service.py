"""The Kubernetes stand-in behaves like an API server where spark-submit, our operator and its client look."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from harness.kubernetes_service import NAMESPACE, KubernetesService, kubeconfig, spark_master
from harness.processes import wait_until
from harness.spark_install import SparkInstallation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubernetesService]:
    service = KubernetesService.start(tmp_path_factory.mktemp("kubernetes"))
    yield service
    service.stop()


@pytest.fixture
def http(service: KubernetesService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client


@pytest.fixture
def core(service: KubernetesService, tmp_path: Path) -> Any:
    """Kubernetes' own client, through a kubeconfig."""
    config = pytest.importorskip("kubernetes.config")
    client = pytest.importorskip("kubernetes.client")
    config.load_kube_config(str(kubeconfig(tmp_path / "kubeconfig", service.url)))
    return client.CoreV1Api()


def pod(name: str, labels: dict[str, str] | None = None, **annotations: object) -> dict[str, Any]:
    marks = {f"standin/{key.replace('_', '-')}": str(value) for key, value in annotations.items()}
    return {
        "metadata": {
            "name": name,
            "labels": {"spark-app-name": name, **(labels or {})},
            "annotations": marks,
        },
        "spec": {"containers": [{"name": "driver", "image": "spark"}]},
    }


def create(http: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = http.post(PODS, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def test_a_pod_runs_and_ends_by_the_clock(http: httpx.Client) -> None:
    assert create(http, pod("clock", seconds=1))["status"]["phase"] == "Pending"
    wait_until(lambda: http.get(f"{PODS}/clock").json()["status"]["phase"] == "Running", "it runs", 10)
    wait_until(lambda: http.get(f"{PODS}/clock").json()["status"]["phase"] == "Succeeded", "it ends", 10)


def test_a_test_decides_how_a_pod_ends(http: httpx.Client, service: KubernetesService) -> None:
    create(http, pod("decided"))
    service.wait_running("decided")
    service.finish(f"{NAMESPACE}:decided", 137, "OOMKilled")
    status = http.get(f"{PODS}/decided").json()["status"]
    ended = status["containerStatuses"][0]["state"]["terminated"]
    assert (status["phase"], ended["exitCode"], ended["reason"]) == ("Failed", 137, "OOMKilled")


def test_what_is_missing_or_there_already_is_a_status_object(http: httpx.Client) -> None:
    create(http, pod("twice"))
    for answer, code, reason in (
        (http.post(PODS, json=pod("twice")), 409, "AlreadyExists"),
        (http.get(f"{PODS}/nobody"), 404, "NotFound"),
        (http.delete(f"{PODS}/nobody"), 404, "NotFound"),
        (http.post(PODS, json=pod("Not A Name")), 422, "Invalid"),
        (http.get(PODS, params={"labelSelector": "two words"}), 400, "BadRequest"),
    ):
        assert (answer.status_code, answer.json()["kind"], answer.json()["reason"]) == (
            code,
            "Status",
            reason,
        )


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        ("tier=one,kind", ["a"]),
        ("tier==two", ["b"]),
        ("tier in (one, two)", ["a", "b"]),
        ("tier notin (one),tier", ["b"]),
        ("kind", ["a"]),
        ("!kind,tier", ["b"]),
        ("tier!=one,tier", ["b"]),
    ],
)
def test_labels_select(
    http: httpx.Client, service: KubernetesService, selector: str, found: list[str]
) -> None:
    if not service.pods("labels-"):
        create(http, pod("labels-a", {"tier": "one", "kind": "x"}))
        create(http, pod("labels-b", {"tier": "two"}))
    items = http.get(PODS, params={"labelSelector": selector}).json()["items"]
    assert [one["metadata"]["name"] for one in items] == [f"labels-{letter}" for letter in found]


def test_a_list_comes_in_pages_with_a_version(http: httpx.Client) -> None:
    for letter in "abc":
        create(http, pod(f"paged-{letter}", {"paged": "yes"}))
    query = {"labelSelector": "paged", "limit": "2"}
    first = http.get(PODS, params=query).json()
    second = http.get(PODS, params={**query, "continue": first["metadata"]["continue"]}).json()
    assert [len(page["items"]) for page in (first, second)] == [2, 1]
    assert int(first["metadata"]["resourceVersion"]) > 0
    assert "continue" not in second["metadata"]


def test_a_deleted_pod_takes_its_time_to_stop_and_is_still_counted(
    http: httpx.Client, service: KubernetesService
) -> None:
    create(http, pod("stopped", stop_seconds=1))
    service.wait_running("stopped")
    assert "deletionTimestamp" in http.delete(f"{PODS}/stopped").json()["metadata"]
    assert http.get(f"{PODS}/stopped").status_code == 200
    wait_until(lambda: http.get(f"{PODS}/stopped").status_code == 404, "it is gone", 10)
    assert [(one.gone, one.cancelled) for one in service.pods("stopped")] == [(True, True)]


def test_a_collected_pod_was_not_cancelled(http: httpx.Client, service: KubernetesService) -> None:
    create(http, pod("collected", seconds=0))
    pod_id = f"{NAMESPACE}:collected"
    wait_until(lambda: service.pod(pod_id).phase == "Succeeded", "it has ended", 10)
    service.garbage_collect(pod_id)
    assert http.get(f"{PODS}/collected").status_code == 404
    assert [(one.gone, one.cancelled) for one in service.pods("collected")] == [(True, False)]


def test_what_a_pod_owns_goes_with_it(http: httpx.Client) -> None:
    owner = create(http, pod("owner"))
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "owner", "uid": owner["metadata"]["uid"]}
    maps = PODS.replace("pods", "configmaps")
    http.post(maps, json={"metadata": {"name": "owned", "ownerReferences": [reference]}, "data": {}})
    assert http.get(f"{maps}/owned").status_code == 200
    http.delete(f"{PODS}/owner")
    assert http.get(f"{maps}/owned").status_code == 404


def test_a_watch_tells_of_changes_and_of_versions_too_old(http: httpx.Client) -> None:
    create(http, pod("watched", {"watched": "yes"}, seconds=0))
    query = {"watch": "true", "labelSelector": "watched", "timeoutSeconds": "2"}
    events = [line for line in http.get(PODS, params=query).text.splitlines() if line]
    assert [line.split('"type": "')[1].split('"')[0] for line in events][:2] == ["ADDED", "MODIFIED"]
    old = http.get(PODS, params={**query, "resourceVersion": "1"}).text
    assert '"ERROR"' in old
    assert '"code": 410' in old


def test_kubernetes_own_client_reads_lists_and_deletes(core: Any, http: httpx.Client) -> None:
    create(http, pod("typed", {"token": "t1"}))
    assert core.read_namespaced_pod("typed", NAMESPACE).status.phase in ("Pending", "Running")
    found = core.list_namespaced_pod(NAMESPACE, label_selector="token in (t1,t2)").items
    assert [one.metadata.name for one in found] == ["typed"]
    core.delete_namespaced_pod("typed", NAMESPACE)
    assert core.list_namespaced_pod(NAMESPACE, label_selector="token=t1").items == []


def test_the_real_spark_submit_creates_its_driver_pod(service: KubernetesService, tmp_path: Path) -> None:
    installation = SparkInstallation.make(tmp_path)
    config = kubeconfig(tmp_path / "kubeconfig", service.url)
    properties = {
        "spark.kubernetes.namespace": NAMESPACE,
        "spark.kubernetes.container.image": "spark",
        "spark.kubernetes.driver.label.token": "t-submit",
        "spark.kubernetes.submission.waitAppCompletion": "false",
    }
    conf = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    command = ["spark-submit", "--master", spark_master(service.url), "--deploy-mode", "cluster", *conf]
    done = subprocess.run(
        [*command, "--name", "Real One", "--class", "X", "local:///opt/x.jar", "an argument"],
        env={**installation.env(), **installation.path_env(), "KUBECONFIG": str(config)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (driver,) = [one for one in service.pods() if one.labels.get("token") == "t-submit"]
    assert f"submission ID {NAMESPACE}:{driver.name}" in done.stderr
    assert (driver.labels["spark-app-name"], driver.labels["spark-role"]) == ("real-one", "driver")
    assert "an argument" in driver.body["spec"]["containers"][0]["args"]
