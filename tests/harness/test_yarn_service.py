"""The ResourceManager stand-in answers as the public document says, and takes the calls of spark-submit."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from harness.processes import wait_until
from harness.spark_install import SparkInstallation
from harness.yarn_service import YarnFront, YarnService

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.e2e
APPS = "/ws/v1/cluster/apps"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[YarnService]:
    service = YarnService.start(tmp_path_factory.mktemp("yarn"))
    yield service
    service.stop()


@pytest.fixture
def http(service: YarnService) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service.url, timeout=30) as client:
        yield client


def submit(http: httpx.Client, name: str, *tags: str) -> str:
    """As the document's Cluster Applications API (Submit) has it."""
    app_id: str = http.post(f"{APPS}/new-application").json()["application-id"]
    body = {
        "application-id": app_id,
        "application-name": name,
        "application-type": "SPARK",
        "application-tags": {"tag": list(tags)},
        "am-container-spec": {"commands": {"command": "true"}},
    }
    answer = http.post(APPS, json=body)
    assert answer.status_code == 202, answer.text
    return app_id


def listed(http: httpx.Client, **query: str) -> Any:
    return http.get(APPS, params=query).json()["apps"]


def ids(http: httpx.Client, **query: str) -> list[str]:
    return [app["id"] for app in (listed(http, **query) or {"app": []})["app"]]


def test_an_application_goes_through_its_states_by_the_clock(http: httpx.Client) -> None:
    app_id = submit(http, "clock seconds=3")
    seen: list[tuple[str, str]] = []

    def ended() -> bool:
        app = http.get(f"{APPS}/{app_id}").json()["app"]
        if (app["state"], app["finalStatus"]) not in seen:
            seen.append((app["state"], app["finalStatus"]))
        return app["state"] == "FINISHED"

    wait_until(ended, "it has ended", 20, 0.02)
    undefined = [(state, "UNDEFINED") for state in ("SUBMITTED", "ACCEPTED", "RUNNING")]
    # The first ones last for tenths of a second, which a busy machine may not see.
    assert seen == [state for state in (*undefined, ("FINISHED", "SUCCEEDED")) if state in seen]
    assert ("RUNNING", "UNDEFINED") in seen


def test_a_test_decides_how_an_application_ends(http: httpx.Client, service: YarnService) -> None:
    app_id = submit(http, "decided")
    service.wait_running("decided")
    service.finish(app_id, "FAILED", "User application exited with status 3")
    app = http.get(f"{APPS}/{app_id}").json()["app"]
    assert (app["state"], app["finalStatus"], app["diagnostics"]) == (
        "FINISHED",
        "FAILED",
        "User application exited with status 3",
    )


def test_tags_are_kept_in_lower_case_and_any_of_them_finds(http: httpx.Client) -> None:
    one, two = submit(http, "tags", "Mine", "t-1"), submit(http, "tags", "Mine", "t-2")
    assert listed(http, applicationTags="T-1")["app"][0]["applicationTags"] == "mine,t-1"
    assert ids(http, applicationTags="mine") == ids(http, applicationTags="t-1,t-2") == [one, two]
    assert listed(http, applicationTags="nobody") is None


def test_states_select_and_unknown_ones_are_refused(http: httpx.Client, service: YarnService) -> None:
    app_id = submit(http, "states", "states")
    service.wait_running("states")
    assert ids(http, applicationTags="states", states="ACCEPTED,RUNNING") == [app_id]
    assert ids(http, applicationTags="states", states="FINISHED") == []
    refused = http.get(APPS, params={"states": "ASLEEP"})
    assert (refused.status_code, refused.json()["RemoteException"]["exception"]) == (
        400,
        "BadRequestException",
    )


def test_a_kill_is_accepted_and_takes_its_time(http: httpx.Client, service: YarnService) -> None:
    app_id = submit(http, "killed kill_seconds=1")
    service.wait_running("killed")
    answer = http.put(f"{APPS}/{app_id}/state", json={"state": "KILLED"})
    assert (answer.status_code, answer.json()) == (202, {"state": "RUNNING"})
    wait_until(lambda: http.get(f"{APPS}/{app_id}/state").json() == {"state": "KILLED"}, "it is killed", 10)
    again = http.put(f"{APPS}/{app_id}/state", json={"state": "KILLED"})
    assert (again.status_code, again.json()) == (200, {"state": "KILLED"})
    assert service.app(app_id).cancelled


def test_what_is_unknown_or_forgotten_is_a_remote_exception(http: httpx.Client, service: YarnService) -> None:
    app_id = submit(http, "forgotten")
    service.forget(app_id)
    for unknown in (app_id, "application_1_0001"):
        answer = http.get(f"{APPS}/{unknown}")
        assert (answer.status_code, answer.json()["RemoteException"]["exception"]) == (
            404,
            "NotFoundException",
        )
    assert [app.forgotten for app in service.apps("forgotten")] == [True]


def test_one_that_stands_by_redirects(http: httpx.Client, service: YarnService, tmp_path: Path) -> None:
    app_id = submit(http, "behind")
    standby = YarnService.start(tmp_path, standby_of=service.url)
    answer = httpx.get(f"{standby.url}{APPS}/{app_id}")
    assert (answer.status_code, answer.headers["Location"]) == (307, f"{service.url}{APPS}/{app_id}")
    assert answer.text.startswith("This is standby RM.")
    standby.stop()


def test_the_real_spark_submit_submits_with_its_tags(service: YarnService, tmp_path: Path) -> None:
    installation = SparkInstallation.make(tmp_path)
    front = YarnFront.start(tmp_path, service.url, installation)
    properties = {"spark.yarn.tags": "Mine,t-submit", "spark.yarn.submit.waitAppCompletion": "false"}
    conf = [part for name, value in properties.items() for part in ("--conf", f"{name}={value}")]
    options = ["--master", "yarn", "--deploy-mode", "cluster", *conf, "--name", "real", "--class", "X"]
    done = subprocess.run(
        ["spark-submit", *options, "local:/opt/x.jar", "an argument"],
        env={**installation.env(), **installation.path_env(), **front.env()},
        capture_output=True,
        text=True,
        check=False,
    )
    front.stop()
    assert done.returncode == 0, done.stderr
    (app,) = service.apps("real")
    assert f"Submitted application {app.id}" in done.stderr
    assert (app.tags, app.type) == (["mine", "t-submit"], "SPARK")
    assert "'an argument'" in app.command
