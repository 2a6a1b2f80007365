"""
What an Airflow connection says about a Spark cluster, and which cluster manager it names.

A module of its own, because only a running task needs it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from airflow_provider_durable.services.spark import KUBERNETES, STANDALONE, YARN

_MASTER_URL = re.compile(r"[^:/,\s]+:\d{1,5}")


@dataclass(frozen=True)
class SparkConnection:
    """
    What an Airflow connection, and the operator's own parameters, say about the cluster.

    :param conn_id: the connection
    :param master: the master URL, as ``spark-submit`` gets it
    :param deploy_mode: ``client`` or ``cluster``
    :param namespace: the Kubernetes namespace
    :param kerberos: whether there are a keytab and a principal
    :param extra: the connection's extra
    """

    conn_id: str
    master: str
    deploy_mode: str
    namespace: str | None
    kerberos: bool
    extra: Mapping[str, Any]

    @classmethod
    def of(cls, hook: Any, conn_id: str, conf: Mapping[str, Any] | None = None) -> SparkConnection:
        """
        Return what ``hook``, a ``SparkSubmitHook``, made of its connection.

        How Apache's hook puts a master URL together is its own business, so that its answer is read
        here, from the one private attribute that all its versions have.
        """
        resolved = hook._connection
        try:
            extra = hook.get_connection(conn_id).extra_dejson
        except Exception:  # noqa: BLE001 - as Apache's hook: a connection that is not there means YARN
            extra = {}
        deploy_mode = resolved["deploy_mode"] or (conf or {}).get("spark.submit.deployMode") or "client"
        return cls(
            conn_id=conn_id,
            master=resolved["master"],
            deploy_mode=str(deploy_mode).strip().lower(),
            # Apache's hook reads it from conf, too, but not in all its versions.
            namespace=(conf or {}).get("spark.kubernetes.namespace") or resolved.get("namespace"),
            kerberos=bool(resolved.get("keytab") and resolved.get("principal")),
            extra=extra,
        )

    @property
    def manager(self) -> str | None:
        """
        The cluster manager; None for a master that has none: ``local`` and the like.

        :raises ValueError: a master URL that ``spark-submit`` would not understand
        """
        if self.master.startswith("spark://"):
            self.hosts()
            return STANDALONE
        if self.master.startswith("k8s://"):
            self._check_kubernetes()
            return KUBERNETES
        if self.master.startswith("yarn"):
            return YARN
        if self.master.startswith(("local", "mesos://")):
            return None
        raise ValueError(
            f"Connection {self.conn_id!r}: {self.master!r} is no Spark master URL. Use spark://host:7077 "
            "(spark://host1:7077,host2:7077 for several masters), k8s://https://host:443, yarn or local[*]."
        )

    @property
    def outlives_worker(self) -> bool:
        """Whether the driver runs on a cluster, not as a child of the worker."""
        return self.manager is not None and self.deploy_mode == "cluster"

    def hosts(self) -> list[str]:
        """
        Return the hosts of a standalone master URL, which names several where masters stand by.

        :raises ValueError: a URL that is none
        """
        masters = self.master.removeprefix("spark://").split(",")
        for master in masters:
            if not _MASTER_URL.fullmatch(master.strip()):
                raise ValueError(
                    f"Connection {self.conn_id!r}: {master!r} in the master URL {self.master!r} is not "
                    "host:port. Write spark://host:7077, or spark://host1:7077,host2:7077."
                )
        return [master.strip().rpartition(":")[0] for master in masters]

    def _check_kubernetes(self) -> None:
        # "k8s://host:port" is https. https://spark.apache.org/docs/latest/running-on-kubernetes.html
        url = self.master.removeprefix("k8s://")
        parts = urlsplit(url if "://" in url else f"https://{url}")
        try:
            good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            good = False
        if not good:
            raise ValueError(
                f"Connection {self.conn_id!r}: {self.master!r} is no Kubernetes master URL. Write "
                "k8s://https://host:443."
            )
