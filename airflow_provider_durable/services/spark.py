"""
Spark's cluster managers, their words, and how to open one.

Standalone masters, YARN and Kubernetes each have a module of their own beside this one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from requests.auth import AuthBase

    from airflow_provider_durable.services.spark_cluster import SparkCluster
    from airflow_provider_durable.services.spark_connection import SparkConnection

#: What a job is when its cluster does not know it (any more).
NOT_FOUND = "NOT_FOUND"
#: What becomes of a supervised driver whose worker has died: the master runs it anew under another id, which
#: it does not tell, and this one stays as it is. (SPARK-19900; ``Master.scala``: ``relaunchDriver``)
RELAUNCHING = "RELAUNCHING"
#: https://github.com/apache/spark/blob/master/core/src/main/scala/org/apache/spark/deploy/master/DriverState.scala
#: https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html
#: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-phase
_ACTIVE = frozenset({"SUBMITTED", "RUNNING", "NEW", "NEW_SAVING", "ACCEPTED", "PENDING"})
_SUCCEEDED = frozenset({"FINISHED", "SUCCEEDED"})

KUBERNETES_MISSING = (
    "Spark on Kubernetes needs apache-airflow-providers-cncf-kubernetes. Install it with: pip install "
    "'airflow-provider-durable[spark-kubernetes]'"
)

STANDALONE, YARN, KUBERNETES = "standalone", "YARN", "Kubernetes"


def is_active(status: str) -> bool:
    """Return whether a job of this status has not ended."""
    return status.upper() in _ACTIVE


def is_succeeded(status: str) -> bool:
    """Return whether a job of this status has succeeded."""
    return status.upper() in _SUCCEEDED


def manager_of_job(external_id: str) -> str:
    """Return the cluster manager whose ids look like this one."""
    if external_id.startswith("application_"):
        return YARN
    return KUBERNETES if ":" in external_id else STANDALONE


def open_cluster(connection: SparkConnection, auth: AuthBase | None = None) -> SparkCluster:
    """
    Return the cluster that a connection names.

    :param connection: the connection, whose master is a cluster's
    :param auth: how to sign requests to a ResourceManager
    :raises ValueError: the connection lacks what it takes to reach the cluster
    """
    if connection.manager == YARN:
        from airflow_provider_durable.services.spark_yarn import YarnCluster

        return YarnCluster(connection, auth)
    if connection.manager == KUBERNETES:
        from airflow_provider_durable.services.spark_kubernetes import KubernetesCluster

        return KubernetesCluster(connection)
    from airflow_provider_durable.services.spark_standalone import StandaloneCluster

    return StandaloneCluster(connection)
