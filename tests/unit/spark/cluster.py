"""
A ``spark-submit`` of a few lines, and the three kinds of cluster it submits to, for unit tests.

The script notes its command line in a folder; the cluster's answers, made in this process, are read
from there. What is shown end to end, on a real cluster, is in ``tests/e2e/test_spark*.py``.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import responses

from airflow_provider_durable.services.spark_kubernetes import LABEL

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

MASTERS = {
    "standalone": "spark://master:7077",
    "YARN": "yarn",
    "Kubernetes": "k8s://https://api:443",
}
ENDED = {"standalone": "FINISHED", "YARN": "SUCCEEDED", "Kubernetes": "Succeeded"}
FAILED = {"standalone": "FAILED", "YARN": "FAILED", "Kubernetes": "Failed"}
RM = "http://rm:8088/ws/v1/cluster/apps"
REST = "http://master:6066/v1/submissions"

SCRIPT = """\
#!{python}
import json, pathlib, sys, time
folder = pathlib.Path({folder!r})
number = len(list(folder.glob("*.json"))) + 1
plan = folder / "plan.py"
if plan.exists():
    exec(plan.read_text())
(folder / f"{{number:04}}.json").write_text(json.dumps(sys.argv[1:]))
print(f"INFO Submission successfully created as driver-20261130120000-{{number:04}}. Polling")
print(f"INFO Submitted application application_1700000000000_{{number:04}}")
"""


@dataclass
class Cluster:
    """What was submitted, and what the cluster says of it."""

    folder: Path
    manager: str
    states: dict[str, str] = field(default_factory=dict)
    cancelled: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    #: Driver pods whose config map never came; and the HTTP status for those who ask for it.
    unmounted: set[str] = field(default_factory=set)
    without_config_map: int = 404
    #: Whether Kubernetes starts the pod without it.
    optional_map: bool | None = None
    #: What each job is, until ``states`` says otherwise.
    default: str = "ended"

    @classmethod
    @contextmanager
    def start(cls, kind: str, folder: Path, patch: pytest.MonkeyPatch) -> Iterator[Cluster]:
        """A cluster where every job has ended well when it is first asked for, and the way to it."""
        cluster = cls(folder, kind)
        patch.setenv("PATH", f"{install(folder)}:{os.environ['PATH']}")
        patch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", cluster.connection)
        patch.setattr("airflow_provider_durable.services.spark_standalone.FORGOTTEN_AFTER", 0.0)
        if kind == "Kubernetes":
            patch.setattr("airflow.providers.cncf.kubernetes.kube_client.get_kube_client", lambda: cluster)
        with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
            cluster.answer(mock)
            yield cluster

    def plan(self, code: str) -> None:
        """Have spark-submit run this before it submits."""
        (self.folder / "plan.py").write_text(textwrap.dedent(code))

    def commands(self) -> list[list[str]]:
        """Return the command lines of all submissions, first to last."""
        return [json.loads(path.read_text()) for path in sorted(self.folder.glob("*.json"))]

    def properties(self, number: int = 1) -> dict[str, str]:
        """Return the Spark properties of a submission."""
        command = self.commands()[number - 1]
        pairs = [command[index + 1] for index, word in enumerate(command) if word == "--conf"]
        return dict(pair.split("=", 1) for pair in pairs)

    def id_of(self, number: int) -> str:
        """Return the external id of a submission."""
        names = {
            "standalone": f"driver-20261130120000-{number:04}",
            "YARN": f"application_1700000000000_{number:04}",
            "Kubernetes": f"jobs:app-{number:04}-driver",
        }
        return names[self.manager]

    @property
    def jobs(self) -> list[str]:
        """The ids of all jobs that were ever started."""
        return [self.id_of(number) for number in range(1, len(self.commands()) + 1)]

    def state(self, external_id: str) -> str | None:
        """Return what the cluster says of a job; None if it does not know it."""
        self.asked.append(external_id)
        if external_id not in self.jobs or self.states.get(external_id) == "gone":
            return None
        return self.states.get(external_id, ENDED[self.manager] if self.default == "ended" else self.default)

    # -- YARN ----------------------------------------------------------------------------------

    def apps(self, request: Any) -> tuple[int, dict[str, str], str]:
        wanted = set(parse_qs(urlsplit(request.url).query)["applicationTags"][0].split(","))
        found = [
            self._app(self.id_of(number))
            for number in range(1, len(self.commands()) + 1)
            if wanted & set(self.properties(number).get("spark.yarn.tags", "").split(","))
        ]
        if "states" in request.url:
            found = [app for app in found if app["state"] != "FINISHED"]
        return 200, {}, json.dumps({"apps": {"app": found} if found else None})

    def _app(self, app_id: str) -> dict[str, Any]:
        state = self.state(app_id)
        ended = state in ("SUCCEEDED", "FAILED", "KILLED")
        return {
            "id": app_id,
            "state": "FINISHED" if ended else state,
            "finalStatus": state if ended else "UNDEFINED",
            "diagnostics": "User class threw exception" if state == "FAILED" else "",
            "startedTime": 1,
        }

    def app(self, request: Any) -> tuple[int, dict[str, str], str]:
        app_id = request.url.removesuffix("/state").rpartition("/")[2]
        if request.method == "PUT":
            self.cancelled.append(app_id)
            self.states[app_id] = "KILLED"
            return 202, {}, json.dumps({"state": "KILLED"})
        if self.state(app_id) is None:
            error = {"RemoteException": {"exception": "NotFoundException", "message": f"{app_id} not found"}}
            return 404, {}, json.dumps(error)
        return 200, {}, json.dumps({"app": self._app(app_id)})

    # -- standalone ----------------------------------------------------------------------------

    def driver(self, request: Any) -> tuple[int, dict[str, str], str]:
        driver_id = request.url.rpartition("/")[2]
        if request.method == "POST":
            self.cancelled.append(driver_id)
            self.states[driver_id] = "KILLED"
            return 200, {}, json.dumps({"success": True})
        state = self.state(driver_id)
        if state is None:
            return 200, {}, json.dumps({"success": False, "submissionId": driver_id})
        message = {"message": "Exception from the cluster: no such jar"} if state == "FAILED" else {}
        return 200, {}, json.dumps({"success": True, "driverState": state, **message})

    # -- Kubernetes ----------------------------------------------------------------------------

    def _pod(self, number: int) -> Any:
        phase = self.state(self.id_of(number))
        ended = SimpleNamespace(exit_code=1, reason="Error", message=None)
        return SimpleNamespace(
            metadata=SimpleNamespace(namespace="jobs", name=self.id_of(number).partition(":")[2]),
            spec=SimpleNamespace(
                volumes=[
                    SimpleNamespace(config_map=None),
                    SimpleNamespace(
                        config_map=SimpleNamespace(
                            name=f"map of {self.id_of(number)}", optional=self.optional_map
                        )
                    ),
                ]
            ),
            status=SimpleNamespace(
                phase=phase,
                reason=None,
                message=None,
                container_statuses=[SimpleNamespace(state=SimpleNamespace(terminated=ended))],
            ),
        )

    def list_namespaced_pod(self, namespace: str, *, label_selector: str, **_: Any) -> Any:
        key, _, value = label_selector.partition("=")
        assert (namespace, key) == ("jobs", LABEL)
        label = f"spark.kubernetes.driver.label.{LABEL}"
        pods = [
            self._pod(number)
            for number in range(1, len(self.commands()) + 1)
            if self.states.get(self.id_of(number)) != "gone"
            and (not value or self.properties(number).get(label) == value)
        ]
        return SimpleNamespace(items=pods, metadata=SimpleNamespace(_continue=None))

    def read_namespaced_pod(self, name: str, namespace: str, **_: Any) -> Any:
        from kubernetes.client import ApiException

        if self.state(f"{namespace}:{name}") is None:
            raise ApiException(status=404)
        return self._pod(int(re.findall(r"-(\d+)-driver", name)[0]))

    def read_namespaced_config_map(self, name: str, namespace: str, **_: Any) -> Any:
        from kubernetes.client import ApiException

        if name.removeprefix("map of ") in self.unmounted:
            raise ApiException(status=self.without_config_map)
        return SimpleNamespace()

    def delete_namespaced_pod(self, name: str, namespace: str, **_: Any) -> None:
        self.cancelled.append(f"{namespace}:{name}")
        self.states[f"{namespace}:{name}"] = "gone"

    # -- how it is reached ---------------------------------------------------------------------

    def answer(self, mock: responses.RequestsMock) -> None:
        """Answer what is asked over HTTP."""
        mock.add_callback("GET", RM, self.apps, content_type="application/json")
        for method, path in (("GET", r"/application_\w+"), ("PUT", r"/application_\w+/state")):
            mock.add_callback(method, re.compile(RM + path), self.app, content_type="application/json")
        for method, path in (("GET", "/status/.+"), ("POST", "/kill/.+")):
            mock.add_callback(method, re.compile(REST + path), self.driver, content_type="application/json")

    @property
    def connection(self) -> str:
        """The Airflow connection."""
        extra = {
            "deploy-mode": "cluster",
            "namespace": "jobs",
            "yarn_resourcemanager_webapp_address": "http://rm:8088",
        }
        return json.dumps({"conn_type": "spark", "host": MASTERS[self.manager], "extra": extra})


def install(folder: Path) -> Path:
    """Put a ``spark-submit`` into a new folder, and return it: for the PATH."""
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    script = bin_folder / "spark-submit"
    script.write_text(SCRIPT.format(python=sys.executable, folder=str(folder)))
    script.chmod(0o755)
    return bin_folder
