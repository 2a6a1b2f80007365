"""
Spark clusters: what the three cluster managers have in common.

Standalone masters, YARN and Kubernetes each have a module of their own beside this one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from requests.auth import AuthBase

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


class SparkCluster(ABC):
    """
    One cluster, as a submission, a status request and a cancellation need it.

    Its methods block. An error of the network or of the service is raised as it comes: it says nothing
    about the job.
    """

    #: What the cluster calls a job.
    noun: ClassVar[str]
    #: The property that has ``spark-submit`` wait for the end of the job, beside us.
    wait_property: ClassVar[str]

    def check(self, conf: Mapping[str, Any]) -> None:
        """
        Check a job's Spark properties before it is submitted.

        :raises ValueError: one of them fights what a durable job needs
        """
        if str(conf.get(self.wait_property, "")).strip().lower() == "true":
            raise ValueError(
                f"conf: {self.wait_property}=true keeps spark-submit beside the job, whose id is then stored "
                "too late. Leave it out, or write durable=False."
            )

    @abstractmethod
    def properties(self, conf: Mapping[str, Any], token: str) -> dict[str, str]:
        """Return the properties that have ``spark-submit`` return at once, and that carry the token."""

    @abstractmethod
    def find(self, token: str) -> str | None:
        """
        Return the external id of the job that a submission with ``token`` started, or None.

        :raises RecoveryUnavailableError: this kind of cluster cannot tell
        """

    def status(self, external_id: str) -> str:
        """Return the job's status; ``NOT_FOUND`` if the cluster does not know the job (any more)."""
        return self._status(external_id)

    @abstractmethod
    def cancel(self, external_id: str) -> None:
        """Stop the job; safe to call twice, and for a job that has ended."""

    @abstractmethod
    def explain(self, external_id: str) -> str:
        """Return what the cluster says of a job that failed; empty if it says nothing."""

    def statuses(self, external_ids: Sequence[str]) -> dict[str, str]:
        """
        Return the statuses of many jobs; one that the cluster does not know is left out.

        One list answers for most of them; a job that is not in it is asked for by itself.
        """
        known = self._listed(external_ids) if len(external_ids) > 1 else {}
        found = {one: known.get(one) or self._status(one) for one in external_ids}
        return {one: status for one, status in found.items() if status != NOT_FOUND}

    @abstractmethod
    def _listed(self, external_ids: Sequence[str]) -> Mapping[str, str]:
        """Return what one request says of many jobs, whichever these are."""

    @abstractmethod
    def _status(self, external_id: str) -> str:
        """Return what the cluster says of one job at this moment."""


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
