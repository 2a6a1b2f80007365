"""One task instance, one driver, on each kind of cluster: submission, recovery, ends, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from packaging.version import Version

from airflow_provider_durable.operators.spark import SparkSubmitOperator
from airflow_provider_durable.resumable import (
    HAS_TASK_STATE_STORE,
    JobFailedError,
    LostJobError,
    LostSubmissionError,
)
from unit.fakes import Crash, Store
from unit.spark.cluster import FAILED
from unit.spark.tasks import context, needs_store, task

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.spark.cluster import Cluster

KEY = "spark_job_id"


def crash_after(monkeypatch: pytest.MonkeyPatch) -> None:
    """Die when the cluster has accepted the job, and nothing of it is stored yet."""
    from airflow_provider_durable.services import spark_submit

    run = spark_submit.run

    def dies(*args: Any, **kwargs: Any) -> str | None:
        run(*args, **kwargs)
        monkeypatch.setattr(spark_submit, "run", run)
        raise Crash

    monkeypatch.setattr(spark_submit, "run", dies)


# -- one job -----------------------------------------------------------------------------------


def test_a_first_try_submits_once_and_returns_nothing_as_apaches_operator(cluster: Cluster) -> None:
    store = Store()
    assert task(application_args=["a", "b"]).execute(context(store)) is None
    assert len(cluster.jobs) == 1
    assert cluster.commands()[0][-3:] == ["app.jar", "a", "b"]
    if HAS_TASK_STATE_STORE:
        assert store.values[KEY] == cluster.jobs[0]


def test_without_waiting_the_id_is_returned(cluster: Cluster) -> None:
    cluster.default = "RUNNING"
    assert task(wait_for_termination=False).execute(context(Store())) == cluster.jobs[0]


def test_spark_submit_does_not_wait_beside_the_job(telling_cluster: Cluster) -> None:
    task().execute(context(Store()))
    waits = {key: value for key, value in telling_cluster.properties().items() if "waitAppCompletion" in key}
    assert list(waits.values()) == ["false"]


@needs_store
def test_a_retry_reconnects(cluster: Cluster) -> None:
    store = Store()
    cluster.default = "RUNNING"
    monkey = pytest.MonkeyPatch()
    with monkey.context() as patch:
        patch.setattr("airflow_provider_durable.resumable.run.JobRun.pause", _die)
        with pytest.raises(Crash):
            task().execute(context(store, max_tries=1))
    cluster.default = "ended"
    assert task().execute(context(store, try_number=2, max_tries=1)) is None
    assert len(cluster.jobs) == 1


def _die(*_: Any) -> None:
    raise Crash


@needs_store
def test_a_crash_before_the_id_is_stored_makes_no_second_job(
    telling_cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_after(monkeypatch)
    with pytest.raises(Crash):
        task().execute(context(store, max_tries=1))
    assert KEY not in store.values
    task().execute(context(store, try_number=2, max_tries=1))
    assert store.values[KEY] == telling_cluster.id_of(1)
    assert len(telling_cluster.jobs) == 1


@needs_store
def test_a_spark_submit_that_fails_after_it_submitted_makes_no_second_job(
    telling_cluster: Cluster, store: Store
) -> None:
    telling_cluster.plan("import atexit, os; atexit.register(os._exit, 1)")
    task().execute(context(store))
    assert len(telling_cluster.jobs) == 1


@needs_store
@pytest.mark.parametrize(("status", "pods"), [(404, 2), (403, 1)])
def test_a_pod_whose_config_map_never_came_is_replaced_where_we_may_look(
    kubernetes: Cluster, store: Store, status: int, pods: int
) -> None:
    kubernetes.plan("import atexit, os; atexit.register(os._exit, 1)")
    first = kubernetes.id_of(1)
    kubernetes.unmounted, kubernetes.without_config_map = {first}, status
    kubernetes.states[first] = "Pending"
    task(wait_for_termination=False).execute(context(store))
    assert kubernetes.cancelled == [first] * (pods - 1)
    assert store.values[KEY] == kubernetes.id_of(pods)
    assert len(kubernetes.jobs) == pods


@needs_store
def test_a_pod_that_starts_without_its_config_map_is_left_alone(kubernetes: Cluster, store: Store) -> None:
    first = kubernetes.id_of(1)
    kubernetes.unmounted, kubernetes.optional_map = {first}, True
    kubernetes.states[first] = "Pending"
    task(wait_for_termination=False).execute(context(store))
    assert (kubernetes.cancelled, store.values[KEY]) == ([], first)


def test_a_spark_submit_that_fails_is_shown_with_its_last_words(cluster: Cluster) -> None:
    cluster.plan("sys.exit('Error: Failed to load class org.example.Missing')")
    with pytest.raises(Exception, match=r"exit code 1.*\n.*org\.example\.Missing"):
        task().execute(context(Store()))
    assert cluster.jobs == []


def test_the_cause_is_shown_that_stands_above_a_long_stack_trace(cluster: Cluster) -> None:
    cluster.plan("""
    print('Exception in thread "main" java.io.IOException: no such queue')
    print("\\tat org.apache.spark.deploy.SparkSubmit.main(SparkSubmit.scala)\\n" * 100)
    sys.exit(1)
    """)
    with pytest.raises(Exception, match=r"exit code 1[^\t]*no such queue[^\t]*$"):
        task().execute(context(Store()))


@needs_store
def test_a_lost_submission_to_a_standalone_master_is_submitted_again(
    standalone: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_after(monkeypatch)
    with pytest.raises(Crash):
        task().execute(context(store, max_tries=1))
    task().execute(context(store, try_number=2, max_tries=1))
    assert len(standalone.jobs) == 2


@needs_store
def test_a_lost_submission_to_a_standalone_master_fails_where_that_is_wanted(
    standalone: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    crash_after(monkeypatch)
    with pytest.raises(Crash):
        task(on_lost_submission="fail").execute(context(store, max_tries=1))
    with pytest.raises(LostSubmissionError, match=r"master's page.*clear this task"):
        task(on_lost_submission="fail").execute(context(store, try_number=2, max_tries=1))
    assert len(standalone.jobs) == 1


# -- ends --------------------------------------------------------------------------------------


def test_a_job_that_failed_fails_the_task_with_what_the_cluster_says(cluster: Cluster) -> None:
    cluster.default = FAILED[cluster.manager]
    words = {"standalone": "no such jar", "YARN": "threw exception", "Kubernetes": "exit code 1, Error"}
    with pytest.raises(JobFailedError, match=words[cluster.manager]):
        task().execute(context(Store()))


@needs_store
def test_an_end_that_was_seen_is_known_when_the_cluster_has_forgotten_the_job(
    cluster: Cluster, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(SparkSubmitOperator, "get_job_result", _die)
        with pytest.raises(Crash):
            task().execute(context(store, max_tries=1))
    cluster.states[cluster.jobs[0]] = "gone"
    task().execute(context(store, try_number=2, max_tries=1))
    assert len(cluster.jobs) == 1


@needs_store
def test_a_forgotten_job_whose_end_nobody_saw_is_submitted_again_by_the_next_try(
    cluster: Cluster, store: Store
) -> None:
    cluster.plan("")
    task(wait_for_termination=False).execute(context(store, max_tries=1))
    cluster.states[cluster.jobs[0]] = "gone"
    task().execute(context(store, try_number=2, max_tries=1))
    assert len(cluster.jobs) == 2


@needs_store
def test_a_job_of_apaches_operator_whose_pod_it_deleted_is_not_run_again(
    kubernetes: Cluster, store: Store
) -> None:
    store.values = {KEY: "jobs:app-0009-driver", "k8s_driver_status": "Succeeded"}
    task().execute(context(store, try_number=2, max_tries=1))
    assert kubernetes.jobs == []


@needs_store
def test_a_trigger_that_saw_the_end_of_a_pod_is_believed_when_the_pod_has_gone(
    kubernetes: Cluster, store: Store
) -> None:
    task(wait_for_termination=False).execute(context(store))
    kubernetes.states[kubernetes.jobs[0]] = "gone"
    assert task().execute_complete(context(store), {"status": "success"}) is None
    with pytest.raises(JobFailedError):
        task().execute_complete(context(store), {"status": "unknown"})


@needs_store
def test_a_driver_that_its_master_runs_again_under_another_id_is_never_run_twice(
    standalone: Cluster, store: Store
) -> None:
    standalone.default = "RELAUNCHING"
    with pytest.raises(LostJobError, match="clear this task"):
        task().execute(context(store, max_tries=1))
    with pytest.raises(LostJobError):
        task().execute(context(store, try_number=2, max_tries=1))
    assert len(standalone.jobs) == 1
    standalone.states[standalone.jobs[0]], standalone.default = "RELAUNCHING", "ended"
    task().execute(context(store, try_number=3, max_tries=3))  # cleared: max_tries has grown
    assert len(standalone.jobs) == 2


@needs_store
def test_a_master_that_recovers_is_waited_for(standalone: Cluster, store: Store) -> None:
    answers = iter(["UNKNOWN", "RUNNING", "FINISHED"])
    standalone.state = lambda _: next(answers)  # type: ignore[method-assign]
    task().execute(context(store))
    assert len(standalone.jobs) == 1


@needs_store
def test_a_connection_that_names_another_kind_of_cluster_submits_nothing(
    cluster: Cluster, store: Store
) -> None:
    other = "application_1_1" if cluster.manager != "YARN" else "driver-1"
    store.values = {KEY: other}
    with pytest.raises(ValueError, match="Point it back"):
        task().execute(context(store, try_number=2, max_tries=1))
    assert cluster.jobs == []


# -- stops, and what comes after the job ---------------------------------------------------------


def test_cancel_stops_the_job_and_may_be_repeated(cluster: Cluster) -> None:
    operator = task(wait_for_termination=False)
    cluster.default = "RUNNING"
    job = operator.execute(context(Store()))
    operator.cancel_job(job, context(None))
    operator.cancel_job(job, context(None))
    assert set(cluster.cancelled) == {job}


def test_a_spark_submit_is_stopped_with_its_task(telling_cluster: Cluster, tmp_path: Path) -> None:
    telling_cluster.plan("time.sleep(60)")
    operator = task()
    stopped = property(lambda _: True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SparkSubmitOperator, "is_job_to_be_cancelled", stopped)
        with pytest.raises(Exception, match="was stopped"):
            operator.execute(context(Store()))
    assert telling_cluster.jobs == []


@pytest.mark.parametrize("ends", ["ended", "failed"])
def test_post_submit_commands_run_once_and_only_when_the_job_has_ended(
    cluster: Cluster, tmp_path: Path, ends: str
) -> None:
    if "post_submit_commands" not in SparkSubmitOperator.template_fields:
        # Only the floor may lack it: where a newer provider renames it, this is to fail.
        assert Version(version("apache-airflow-providers-apache-spark")) < Version("6")
        pytest.skip("post_submit_commands came with a later version of the provider")
    if ends == "failed":
        cluster.default = FAILED[cluster.manager]
    asked: list[str] = []
    note = tmp_path / "note"
    operator = task(post_submit_commands=[f"sh -c 'echo x >> {note}'"])
    status = operator.get_job_status

    def before_the_end(*args: Any) -> str:
        asked.append(note.read_text() if note.exists() else "")
        return status(*args)

    operator.get_job_status = before_the_end  # type: ignore[method-assign]
    try:
        operator.execute(context(Store()))
    except JobFailedError:
        assert ends == "failed"
    assert set(asked) == {""}
    assert note.read_text() == "x\n"


def test_the_driver_pod_is_deleted_where_apaches_operator_would(kubernetes: Cluster) -> None:
    task().execute(context(Store()))
    assert kubernetes.cancelled == []
    task(track_driver_via_k8s_api=True).execute(context(Store()))
    assert kubernetes.cancelled == [kubernetes.jobs[1]]


def test_a_spark_submit_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {note}; exec sleep 600"]
    code = (
        f"from airflow_provider_durable.services.spark_submit import run; run({command}, None, print, bool)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    _until(lambda: note.exists() and note.read_text().strip())
    child = Path(f"/proc/{int(note.read_text())}/status")
    _until(lambda: "sleep" in child.read_text())
    parent.kill()
    parent.wait()
    _until(lambda: not child.exists() or "State:\tZ" in child.read_text())


def _until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
