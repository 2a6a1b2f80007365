"""
Spark in the triggerer: one list answers for the drivers of a cluster, on plain clients in a thread.

YARN lists the applications with our tag that have not ended, Kubernetes the pods with our label, a
standalone master has a page; a job that is not in the list is asked for by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.triggers.base import JobTrigger
from airflow_provider_durable.triggers.service import JobService

with requires_extra("spark"):
    import airflow.providers.apache.spark  # noqa: F401 - so that what is missing is named at once

    from airflow_provider_durable.services import spark, spark_connection

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Unpack

    from airflow_provider_durable.services.spark_cluster import SparkCluster
    from airflow_provider_durable.triggers.base import WaitOptions


class SparkJobs(JobService):
    """
    The jobs of one cluster.

    :param conn_id: the Airflow connection
    :param manager: the cluster's manager, as ``services.spark`` calls it
    :param kerberos: whether requests are signed with Kerberos
    """

    ids_per_request = 100
    #: As ``services.spark_standalone.FORGOTTEN_AFTER``, which is not imported for clusters of other kinds.
    visible_after = 100.0

    def __init__(self, conn_id: str, manager: str, *, kerberos: bool) -> None:
        self._conn_id = conn_id
        self._manager = manager
        self._kerberos = kerberos
        self._opened: SparkCluster | None = None
        self._lock = threading.Lock()

    @property
    def key(self) -> Hashable:
        """Connection, and what is behind it."""
        return type(self), self._conn_id, self._manager, self._kerberos

    def cluster(self) -> SparkCluster:
        """
        Return the cluster, opened from the connection when it is first needed.

        :raises ValueError: the connection names another kind of cluster by now
        """
        with self._lock:
            if self._opened is None:
                # Here and not above, so that the triggerer's loop does not wait for it.
                from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

                hook = SparkSubmitHook(conn_id=self._conn_id)
                connection = spark_connection.SparkConnection.of(hook, self._conn_id)
                if connection.manager != self._manager:
                    raise ValueError(f"{connection.master} ({self._conn_id}) is not {self._manager}")
                self._opened = spark.open_cluster(replace(connection, kerberos=self._kerberos))
            return self._opened

    def ask(self, external_ids: Sequence[JsonValue]) -> dict[JsonValue, str]:
        """Read the cluster's list, and ask for what is not in it."""
        cluster = self.cluster()
        try:
            return cast("dict[JsonValue, str]", cluster.statuses([*map(str, external_ids)]))
        except Exception:
            with self._lock:  # the connection may have been mended since it was read
                self._opened = None
            raise

    def is_active(self, status: str) -> bool:
        """Return whether a job of this status has not ended."""
        return spark.is_active(status)

    def is_succeeded(self, status: str) -> bool:
        """Return whether a job of this status has succeeded."""
        return spark.is_succeeded(status)

    def cancel(self, external_id: JsonValue, reason: str) -> None:
        """Kill the driver or application, or delete the driver pod. No cluster keeps a reason."""
        self.cluster().cancel(str(external_id))


class SparkJobTrigger(JobTrigger):
    """
    Waits for the end of a driver or application.

    :param external_id: driver id, application id, or ``<namespace>:<driver pod>``
    :param conn_id: the Airflow connection
    :param kerberos: whether a ResourceManager is asked with Kerberos
    :param options: how to wait: see :class:`~airflow_provider_durable.triggers.base.JobTrigger`
    """

    def __init__(
        self,
        *,
        external_id: str,
        conn_id: str = "spark_default",
        kerberos: bool = False,
        **options: Unpack[WaitOptions],
    ) -> None:
        super().__init__(external_id=external_id, **options)
        self.conn_id = conn_id
        self.kerberos = kerberos

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON."""
        return {**super().parameters(), "conn_id": self.conn_id, "kerberos": self.kerberos}

    def service(self) -> JobService:
        """Return the cluster, as this trigger's connection reaches it."""
        manager = spark.manager_of_job(str(self.external_id))
        return SparkJobs(self.conn_id, manager, kerberos=self.kerberos)
