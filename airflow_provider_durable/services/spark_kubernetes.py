"""
Spark on Kubernetes: the driver is a pod, which carries the token as a label.

https://spark.apache.org/docs/latest/running-on-kubernetes.html
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.services.spark import KUBERNETES_MISSING, NOT_FOUND
from airflow_provider_durable.services.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from airflow_provider_durable.services.spark_connection import SparkConnection

#: The label of the driver pod that holds the token.
LABEL = "airflow-durable-submission"
_LABEL_PROPERTY = f"spark.kubernetes.driver.label.{LABEL}"
_REQUEST_SECONDS = 30


class NodeUnreachableError(RuntimeError):
    """The pod's node does not report: whether the driver runs, nobody knows."""


class KubernetesCluster(SparkCluster):
    """
    The driver pods of one namespace.

    Asked as Airflow's Kubernetes executor asks: ``[kubernetes_executor] in_cluster`` and
    ``config_file``.

    :param connection: the Airflow connection
    :raises ImportError: there is no Kubernetes client
    """

    noun = "Spark driver pod"
    wait_property = "spark.kubernetes.submission.waitAppCompletion"

    def __init__(self, connection: SparkConnection) -> None:
        try:
            from airflow.providers.cncf.kubernetes.kube_client import get_kube_client
        except ImportError as error:
            raise ImportError(KUBERNETES_MISSING) from error
        self._namespace = connection.namespace or "default"
        self._conn_id = connection.conn_id
        self._api: Any = get_kube_client()

    def check(self, conf: Mapping[str, Any]) -> None:
        """Check that ``spark-submit`` may return at once, and that nobody else wants our label."""
        super().check(conf)
        if _LABEL_PROPERTY in conf:
            raise ValueError(f"conf: {_LABEL_PROPERTY} is how the driver is found again. Leave it out.")

    def properties(self, conf: Mapping[str, Any], token: str) -> dict[str, str]:
        """Return the label, and the namespace, which a properties file may call otherwise."""
        return {
            self.wait_property: "false",
            _LABEL_PROPERTY: token,
            "spark.kubernetes.namespace": self._namespace,
        }

    def find(self, token: str) -> str | None:
        """
        Ask for the pod with the token's label, and delete one that can never start.

        ``spark-submit`` creates the pod first, and then the config map that the pod mounts. Where it has
        ended in between, the pod would wait for it without end.
        """
        for pod in self._pods(self._namespace, f"{LABEL}={token}"):
            external_id = f"{pod.metadata.namespace}:{pod.metadata.name}"
            if self._can_start(pod):
                return external_id
            self.cancel(external_id)
        return None

    def _can_start(self, pod: Any) -> bool:
        """Return whether the config maps of a pod that has not started are there, if we may look."""
        if (pod.status.phase or "Pending") != "Pending":
            return True
        maps = [volume.config_map for volume in pod.spec.volumes or () if volume.config_map]
        names = [each.name for each in maps if not each.optional]
        return all(self._has_config_map(name, pod.metadata.namespace) for name in names)

    def _has_config_map(self, name: str, namespace: str) -> bool:
        from kubernetes.client import ApiException

        try:
            return _ask_about(self._api.read_namespaced_config_map, name, namespace) is not None
        except ApiException as error:
            if error.status != 403:
                raise
            return True

    def _status(self, external_id: str) -> str:
        """
        Ask for one pod's phase.

        :raises NodeUnreachableError: its node does not report
        """
        pod = self._pod(external_id)
        if pod is None:
            return NOT_FOUND
        phase = str(pod.status.phase or "Pending")
        if phase == "Unknown":
            raise NodeUnreachableError(f"the node of pod {external_id} does not report: {pod.status.reason}")
        return phase

    def _listed(self, external_ids: Sequence[str]) -> dict[str, str]:
        """List the pods of ours, namespace by namespace."""
        return {
            f"{namespace}:{pod.metadata.name}": pod.status.phase
            for namespace in {one.partition(":")[0] for one in external_ids}
            for pod in self._pods(namespace, LABEL)
            if pod.status.phase != "Unknown"
        }

    def cancel(self, external_id: str) -> None:
        """Delete the pod, and with it its executors, which it owns."""
        namespace, _, name = external_id.partition(":")
        _ask_about(self._api.delete_namespaced_pod, name, namespace)

    def explain(self, external_id: str) -> str:
        """Return how the driver's container ended."""
        pod = self._pod(external_id)
        if pod is None:
            return ""
        facts = [pod.status.reason, pod.status.message]
        for container in pod.status.container_statuses or ():
            if ended := container.state and container.state.terminated:
                facts += [f"exit code {ended.exit_code}", ended.reason, ended.message]
        return ", ".join(str(fact).strip() for fact in facts if fact)

    def _pod(self, external_id: str) -> Any:
        namespace, _, name = external_id.partition(":")
        return _ask_about(self._api.read_namespaced_pod, name, namespace)

    def _pods(self, namespace: str, selector: str) -> Iterator[Any]:
        position = None
        while True:
            options = {"label_selector": selector, "limit": 500, "_continue": position}
            page = _ask(self._api.list_namespaced_pod, namespace, **options)
            yield from page.items
            position = page.metadata._continue
            if not position:
                return


def _ask(request: Callable[..., Any], *arguments: str, **options: Any) -> Any:
    """
    Send a request.

    :raises ServiceThrottledError: the API server wants fewer of them
    :raises kubernetes.client.ApiException: it refuses
    """
    from kubernetes.client import ApiException

    try:
        return request(*arguments, _request_timeout=_REQUEST_SECONDS, **options)
    except ApiException as error:
        if error.status == 429:
            raise ServiceThrottledError(str(error)) from error
        raise


def _ask_about(request: Callable[..., Any], *arguments: str) -> Any:
    """Send a request about one object; return None if it is not there (any more)."""
    from kubernetes.client import ApiException

    try:
        return _ask(request, *arguments)
    except ApiException as error:
        if error.status != 404:
            raise
        return None
