"""
Spark standalone masters, through their REST submission server and, if its port is known, the web UI.

https://spark.apache.org/docs/latest/spark-standalone.html; what the answers mean is in Spark's
``StandaloneRestServer.scala`` and ``Master.scala``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import requests

from airflow_provider_durable.resumable import RecoveryUnavailableError
from airflow_provider_durable.services.spark import NOT_FOUND
from airflow_provider_durable.services.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from airflow_provider_durable.services.spark_connection import SparkConnection

_TIMEOUT = (5, 30)  # seconds, to connect and to read
#: For so many seconds a master that has just started may not know drivers which run: its workers find it
#: again within this time, and are told to kill what it does not know. (``Worker.scala``: the pauses between
#: their attempts are up to 90 s, PROLONGED_REGISTRATION_RETRY_INTERVAL_SECONDS)
FORGOTTEN_AFTER = 100.0


class MasterUnavailableError(RuntimeError):
    """No master is in a state to answer: all stand by, recover, or cannot be reached."""


class TakeoverError(MasterUnavailableError):
    """A master is there, and not in charge yet."""


class StandaloneCluster(SparkCluster):
    """
    The masters of one URL, of which one at a time is in charge.

    The connection's extras ``rest-scheme`` and ``rest-port`` (default 6066, ``spark.master.rest.port``)
    say where they answer. ``webui-port`` (``spark.master.ui.port``) lets one page answer for many
    drivers.

    :param connection: the Airflow connection
    """

    noun = "Spark driver"
    wait_property = "spark.standalone.submit.waitAppCompletion"

    def __init__(self, connection: SparkConnection) -> None:
        scheme = connection.extra.get("rest-scheme") or "http"
        rest_port = connection.extra.get("rest-port") or 6066
        ui_port = connection.extra.get("webui-port")
        hosts = connection.hosts()
        self._rest_urls = [f"{scheme}://{host}:{rest_port}/v1/submissions" for host in hosts]
        self._pages = [f"{scheme}://{host}:{ui_port}/json/" for host in hosts] if ui_port else []

    def properties(self, conf: Mapping[str, Any], token: str) -> dict[str, str]:
        """Return nothing: a master gives none of a driver's properties back, and does not wait."""
        return {}

    def find(self, token: str) -> str | None:
        """Say that a master cannot tell."""
        pages = self._pages or [url.removesuffix("/v1/submissions") for url in self._rest_urls]
        raise RecoveryUnavailableError(
            "a Spark standalone master does not say which submission a driver came from. The drivers and "
            f"when each was submitted are on the master's page ({', '.join(pages)})."
        )

    def status(self, external_id: str) -> str:
        """Ask for the driver: again while a master takes over, and before it counts as forgotten."""
        give_up = time.monotonic() + FORGOTTEN_AFTER
        while time.monotonic() < give_up:
            with suppress(TakeoverError):
                if (status := self._status(external_id)) != NOT_FOUND:
                    return status
            time.sleep(2)
        return self._status(external_id)

    def _status(self, external_id: str) -> str:
        """Ask for one driver."""
        answer = self._ask("GET", f"status/{external_id}")
        if not answer.get("success"):
            return NOT_FOUND
        status = str(answer["driverState"])
        if status == "UNKNOWN":
            raise TakeoverError(f"the master is recovering and does not know driver {external_id} yet")
        return status

    def _listed(self, external_ids: Sequence[str]) -> dict[str, str]:
        """Read the masters' page, if it is known where that is."""
        for page in self._pages:
            try:
                response = requests.get(page, timeout=_TIMEOUT)
                response.raise_for_status()
                cluster = response.json()
            except (requests.RequestException, ValueError):
                continue  # each driver can still be asked for by itself
            if cluster.get("status") == "ALIVE":
                drivers = [*cluster.get("activedrivers", ()), *cluster.get("completeddrivers", ())]
                return {one["id"]: one["state"] for one in drivers if one["state"] != "UNKNOWN"}
        return {}

    def cancel(self, external_id: str) -> None:
        """Kill the driver; the master's answer for one that has ended is no error."""
        self._ask("POST", f"kill/{external_id}")

    def explain(self, external_id: str) -> str:
        """Return the exception that the master holds for the driver."""
        return str(self._ask("GET", f"status/{external_id}").get("message") or "")

    def _ask(self, method: str, path: str) -> dict[str, Any]:
        """
        Return the answer of the master in charge.

        A master that does not know a driver says ``success: false`` and no more; one that is not in charge
        has a ``message`` that says so. (``Master.scala``: ``RequestDriverStatus``, ``RequestKillDriver``)

        :raises TakeoverError: none of them is yet
        :raises MasterUnavailableError: none of them can be reached
        """
        is_there, causes = False, []
        for url in self._rest_urls:
            try:
                response = requests.request(method, f"{url}/{path}", timeout=_TIMEOUT)
                answer: dict[str, Any] = response.json()
            except (requests.RequestException, ValueError) as error:
                causes.append(f"{url}: {error}")
                continue
            message = str(answer.get("message") or "")
            if answer.get("success") or ("ALIVE state" not in message and response.ok):
                return answer
            is_there = True
            # The rest is the master's stack.
            words = [line for line in message.splitlines() if not line.startswith("\t")]
            causes.append(f"{url}: {' '.join(words) or response.status_code}")
        if is_there:
            raise TakeoverError(f"No Spark master is in charge. {'; '.join(causes)}")
        raise MasterUnavailableError(f"No Spark master answers for its drivers. {'; '.join(causes)}")
