"""One task instance, one driver, on each kind of cluster: submission, recovery, ends, and what is refused."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.operators.spark import SparkSubmitOperator
from airflow_provider_durable.resumable import (
    HAS_TASK_STATE_STORE,
    JobFailedError,
    LostJobError,
    LostSubmissionError,
)
from unit.fakes import Crash, Store, TaskInstance
from unit.spark.cluster import ENDED, FAILED

if TYPE_CHECKING:
    from collections.abc import Callable

    from unit.spark.cluster import Cluster

needs_store = pytest.mark.skipif(not HAS_TASK_STATE_STORE, reason="the task state store came with 3.3")
KEY = "spark_job_id"


def task(**parameters: Any) -> SparkSubmitOperator:
    given = {"application": "app.jar", "status_poll_interval": 0.001, **parameters}
    if not HAS_TASK_STATE_STORE:
        # Nothing is durable there, and spark-submit stays beside the job unless this is asked for.
        given.setdefault("yarn_track_via_rm_api", True)
    return SparkSubmitOperator(task_id="job", **given)


def context(store: Store | None, **ti: Any) -> dict[str, Any]:
    instance = TaskInstance(**ti)
    return {"ti": instance, "task_instance": instance, "task_state_store": store}


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
        pytest.skip("this version of the provider has no post_submit_commands")
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


# -- tags and labels -----------------------------------------------------------------------------


def test_the_authors_yarn_tags_are_kept(yarn: Cluster) -> None:
    task(conf={"spark.yarn.tags": "team-a, nightly"}).execute(context(Store()))
    tags = yarn.properties()["spark.yarn.tags"].split(",")
    assert tags[:3] == ["team-a", "nightly", "airflow-durable"]
    assert len(tags) == 4


@pytest.mark.parametrize(
    ("tags", "words"), [(",".join("abcdefghi"), "leave 8"), ("x" * 101, "100 characters"), ("ü", "ASCII")]
)
def test_tags_that_yarn_does_not_take_are_refused_before_anything_starts(
    yarn: Cluster, tags: str, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        task(conf={"spark.yarn.tags": tags}).execute(context(Store()))
    assert yarn.jobs == []


def test_the_token_is_a_label_of_the_driver_pod(kubernetes: Cluster) -> None:
    task().execute(context(Store()))
    assert len(kubernetes.properties()["spark.kubernetes.driver.label.airflow-durable-submission"]) == 32


# -- what is refused -----------------------------------------------------------------------------

WAITS = {
    "standalone": "spark.standalone.submit.waitAppCompletion",
    "YARN": "spark.yarn.submit.waitAppCompletion",
    "Kubernetes": "spark.kubernetes.submission.waitAppCompletion",
}


def test_a_conf_that_keeps_spark_submit_waiting_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match=f"{WAITS[cluster.manager]}=true .* durable=False"):
        task(conf={WAITS[cluster.manager]: "true"}).execute(context(Store()))
    assert cluster.jobs == []


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"application": ""}, "application is missing"),
        ({"status_poll_interval": 0}, "more than 0 seconds"),
        ({"poll_interval": 5}, "called status_poll_interval here"),
        ({"deferrable": True, "deploy_mode": "client"}, "deploy_mode='cluster'"),
        ({"deferrable": True, "yarn_rm_auth": object()}, "mode='reschedule'"),
    ],
)
def test_what_cannot_be_meant_is_an_error_when_the_dag_is_parsed(
    parameters: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        task(**parameters)


def test_yarn_without_a_resourcemanager_says_what_to_set(
    yarn: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "AIRFLOW_CONN_SPARK_DEFAULT",
        '{"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}',
    )
    with pytest.raises(ValueError, match=r"Set yarn_resourcemanager_webapp_address .* durable=False"):
        task(durable=True).execute(context(Store()))
    assert yarn.jobs == []


def test_a_missing_spark_submit_is_named(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(Exception, match="'spark-submit' on the worker's PATH"):
        task().execute(context(Store()))


# -- where durable has no effect -----------------------------------------------------------------


@pytest.mark.parametrize("host", ["local[2]", "yarn"])
def test_a_driver_beside_the_worker_runs_as_with_apaches_operator(
    yarn: Cluster, monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", f'{{"conn_type": "spark", "host": "{host}"}}')
    store, lines = Store(), []
    operator = task(deferrable=False, yarn_track_via_rm_api=False)
    monkeypatch.setattr(
        "airflow_provider_durable.operators.spark.log_event",
        lambda _log, _level, event, **_: lines.append(event),
    )
    assert operator.execute(context(store)) is None
    assert len(yarn.commands()) == 1
    assert "spark.yarn.tags" not in yarn.properties()
    assert store.values == {}
    assert [line for line in lines if line.startswith("durable has no effect")] == lines[:1]
    assert len(lines) == int(operator.durable)


def test_not_durable_on_yarn_keeps_spark_submit_beside_the_job_as_apaches_operator(yarn: Cluster) -> None:
    task(durable=False, yarn_track_via_rm_api=False).execute(context(Store()))
    assert "spark.yarn.submit.waitAppCompletion" not in yarn.properties()


def test_poll_intervals_are_apaches_lower_limits_unless_given(cluster: Cluster) -> None:
    seconds = {"standalone": 1, "YARN": 10, "Kubernetes": 20}
    operator = SparkSubmitOperator(task_id="job", application="app.jar")
    operator._connect()
    assert operator.status_poll_interval == seconds[cluster.manager]
    assert task(status_poll_interval=3).status_poll_interval == 3


def test_the_trigger_knows_where_to_ask(cluster: Cluster) -> None:
    operator = task(execution_timeout=timedelta(hours=1), conn_id="spark_default")
    operator._connect()
    trigger = operator.make_trigger(cluster.id_of(1), context(None))
    path, parameters = trigger.serialize()
    assert path == "airflow_provider_durable.triggers.spark.SparkJobTrigger"
    assert parameters["conn_id"] == "spark_default"
    assert parameters["external_id"] == cluster.id_of(1)
    again = type(trigger)(**parameters)
    assert again.serialize() == trigger.serialize()
    assert again.service().key == trigger.service().key


def test_the_triggers_service_asks_for_all_in_one_list(cluster: Cluster) -> None:
    operator = task(wait_for_termination=False)
    cluster.default = "RUNNING"
    jobs = [operator.execute(context(Store())) for _ in range(3)]
    service = operator.make_trigger(jobs[0], context(None)).service()
    cluster.states[jobs[1]] = ENDED[cluster.manager]
    statuses = service.ask([*jobs, cluster.id_of(99)])
    assert set(statuses) == set(jobs)
    assert [service.is_active(statuses[job]) for job in jobs] == [True, False, True]
    assert service.is_succeeded(statuses[jobs[1]])
    service.cancel(jobs[0], "because")
    assert cluster.cancelled == [jobs[0]]


def test_a_spark_submit_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    command = ["sh", "-c", f"echo $$ > {note}; exec sleep 600"]
    code = (
        f"from airflow_provider_durable.services.spark_submit import run; run({command}, None, print, bool)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path)
    _until(lambda: note.exists() and note.read_text().strip())
    child = Path(f"/proc/{int(note.read_text())}/status")
    assert "sleep" in child.read_text()
    parent.kill()
    parent.wait()
    _until(lambda: not child.exists() or "State:\tZ" in child.read_text())


def _until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
