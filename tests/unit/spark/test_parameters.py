"""What a Spark task sends along, what is refused before anything starts, and where durable has no effect."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.operators.spark import SparkSubmitOperator
from airflow_provider_durable.services.spark_connection import SparkConnection
from airflow_provider_durable.services.spark_kubernetes import KubernetesCluster
from airflow_provider_durable.services.spark_standalone import FORGOTTEN_AFTER
from airflow_provider_durable.triggers.spark import SparkJobs
from unit.fakes import Store
from unit.spark.cluster import ENDED
from unit.spark.tasks import context, task

if TYPE_CHECKING:
    from unit.spark.cluster import Cluster

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


@pytest.mark.parametrize(
    ("conf", "namespace"), [({}, "default"), ({"spark.kubernetes.namespace": "jobs"}, "jobs")]
)
def test_the_driver_is_where_it_is_looked_for_whatever_a_properties_file_says(
    kubernetes: Cluster, conf: dict[str, str], namespace: str
) -> None:
    hook = SimpleNamespace(
        _connection={"master": "k8s://https://host", "deploy_mode": "cluster", "namespace": None},
        get_connection=lambda conn_id: SimpleNamespace(extra_dejson={}),
    )
    cluster = KubernetesCluster(SparkConnection.of(hook, "spark_default", conf))
    assert cluster.properties(conf, "token")["spark.kubernetes.namespace"] == namespace


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


def test_the_triggers_service_waits_as_long_for_a_master_as_the_operator() -> None:
    assert SparkJobs.visible_after == FORGOTTEN_AFTER
