"""The cluster that the tests run on is Spark's own; shown here is what our operator and the tests lean on."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from harness.processes import ServiceFailed, wait_until
from harness.spark_install import jdk_tool
from harness.spark_service import SparkService

if TYPE_CHECKING:
    from pathlib import Path

    from harness.spark_service import Application


@pytest.fixture(scope="session")
def spark(stage: Any) -> SparkService:
    spark: SparkService = stage.spark.standalone()[0]
    return spark


@pytest.fixture
def application(spark: SparkService, request: pytest.FixtureRequest) -> Application:
    return spark.application(f"{request.node.nodeid} {os.getpid()}")


def submit(spark: SparkService, application: Application, *, seconds: float = 600) -> str:
    """Submit with the real spark-submit; returns what it printed."""
    gateway = ["--master", spark.rest_master_url(), "--conf", "spark.master.rest.enabled=true"]
    options = ["--deploy-mode", "cluster", "--driver-memory", "256m", "--class", application.main_class]
    done = subprocess.run(
        ["spark-submit", *gateway, *options, application.jar, f"seconds={seconds}"],
        env={**spark.installation.env(), **spark.installation.path_env()},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def test_drivers_are_counted_in_the_masters_book_and_in_their_own(
    spark: SparkService, application: Application
) -> None:
    short = spark.application(f"{application.main_class} short")
    submit(spark, short, seconds=0)
    said = submit(spark, application)
    (driver,) = spark.wait_running(application)
    assert driver.id in said
    assert [(one.id, one.alive) for one in application.processes()] == [(driver.id, True)]
    assert spark.status(driver.id)["driverState"] == "RUNNING"
    application.finish(driver.id, 3)
    wait_until(lambda: not spark.drivers(application)[0].active, "it has failed")
    assert [one.alive for one in application.processes()] == [False]
    assert [one.state for one in spark.drivers(application)] == ["FAILED"]
    assert [one.state for one in spark.drivers(short)] == ["FINISHED"]


def test_a_kill_ends_the_process_and_a_second_kill_says_no(
    spark: SparkService, application: Application
) -> None:
    submit(spark, application)
    (driver,) = spark.wait_running(application)
    kill = f"{spark.rest_url()}/v1/submissions/kill/{driver.id}"
    assert spark.http.post(kill).json()["success"]
    wait_until(lambda: spark.status(driver.id)["driverState"] == "KILLED", "it is killed")
    assert [one.alive for one in application.processes()] == [False]
    again = spark.http.post(kill).json()
    assert (again["success"], again["message"]) == (
        False,
        f"Driver {driver.id} has already finished or does not exist",
    )


def test_an_unknown_driver_is_answered_without_state_and_message(spark: SparkService) -> None:
    answer = spark.status("driver-20260101000000-0000")
    assert (answer["success"], answer.get("driverState"), answer.get("message")) == (False, None, None)


def test_another_process_can_take_hold_of_it(spark: SparkService, application: Application) -> None:
    other = SparkService.attach(spark.folder)
    assert other.application(application.main_class).main_class != application.main_class
    assert (other.state(), other.workers_alive(), other.masters) == ("ALIVE", 1, spark.masters)


def test_a_missing_jdk_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(ServiceFailed, match=r"no javac in JAVA_HOME .* apt-get install default-jdk-headless"):
        jdk_tool("javac")
