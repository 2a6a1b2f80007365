"""
Spark on YARN, through the ResourceManager's REST API.

https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import requests

from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.services.spark import NOT_FOUND
from airflow_provider_durable.services.spark_cluster import SparkCluster

if TYPE_CHECKING:
    from requests.auth import AuthBase

    from airflow_provider_durable.services.spark_connection import SparkConnection

#: The connection extra of Apache's hook.
ADDRESS_EXTRA = "yarn_resourcemanager_webapp_address"
TAGS_PROPERTY = "spark.yarn.tags"
#: On every application of ours: one request lists those that have not ended.
COMMON_TAG = "airflow-durable"
#: ``YarnConfiguration``: APPLICATION_MAX_TAGS, APPLICATION_MAX_TAG_LENGTH. The ResourceManager keeps tags in
#: lower case.
_MAX_TAGS = 10
_MAX_TAG_LENGTH = 100
_ACTIVE_STATES = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"
_TIMEOUT = (5, 30)  # seconds, to connect and to read


class YarnCluster(SparkCluster):
    """
    The applications of one ResourceManager, or of several of which one is active.

    :param connection: the Airflow connection; its extra names the ResourceManager
    :param auth: how to sign requests; by default Kerberos where the connection has a keytab
    :raises ValueError: the connection does not say where the ResourceManager is
    """

    noun = "YARN application"
    wait_property = "spark.yarn.submit.waitAppCompletion"

    def __init__(self, connection: SparkConnection, auth: AuthBase | None = None) -> None:
        addresses = str(connection.extra.get(ADDRESS_EXTRA) or "").split(",")
        addresses = [address.strip().rstrip("/") for address in addresses if address.strip()]
        if not addresses:
            raise ValueError(
                f"Connection {connection.conn_id!r}: on YARN, applications are found again through the "
                f"ResourceManager, whose address is missing. Set {ADDRESS_EXTRA} in the connection's "
                f'extra, as in {{"{ADDRESS_EXTRA}": "http://rm.example.com:8088"}}; or write durable=False, '
                "which keeps spark-submit beside the application."
            )
        self._urls = [
            f"{address if '://' in address else f'http://{address}'}/ws/v1/cluster/apps"
            for address in addresses
        ]
        self._auth = auth or (_kerberos() if connection.kerberos else None)

    def check(self, conf: Mapping[str, Any]) -> None:
        """Check that ``spark-submit`` may return at once, and that there is room for the tags."""
        super().check(conf)
        tags = _tags(conf)
        if len(tags) > _MAX_TAGS - 2:
            raise ValueError(
                f"conf: {TAGS_PROPERTY} has {len(tags)} tags. YARN allows {_MAX_TAGS}, two of which find the "
                f"application again; leave {_MAX_TAGS - 2}."
            )
        for tag in tags:
            if len(tag) > _MAX_TAG_LENGTH or not tag.isascii():
                raise ValueError(
                    f"conf: {TAGS_PROPERTY} has the tag {tag!r}. YARN allows {_MAX_TAG_LENGTH} characters, "
                    "all of them ASCII."
                )

    def properties(self, conf: Mapping[str, Any], token: str) -> dict[str, str]:
        """Return the author's tags and ours."""
        tags = [*_tags(conf), COMMON_TAG, _tag(token)]
        return {self.wait_property: "false", TAGS_PROPERTY: ",".join(tags)}

    def find(self, token: str) -> str | None:
        """Ask for the application with the token's tag; the latest, should there be several."""
        apps = self._apps({"applicationTags": _tag(token)})
        return max(apps, key=lambda app: app.get("startedTime", 0))["id"] if apps else None

    def _status(self, external_id: str) -> str:
        """Ask for one application."""
        app = self._app(external_id)
        return NOT_FOUND if app is None else _status_of(app)

    def _listed(self, external_ids: Sequence[str]) -> dict[str, str]:
        """Ask for all applications of ours that have not ended."""
        only = {"applicationTags": COMMON_TAG, "states": _ACTIVE_STATES, "deSelects": "resourceRequests"}
        return {app["id"]: _status_of(app) for app in self._apps(only)}

    def cancel(self, external_id: str) -> None:
        """Set the application's state to KILLED; one that has ended keeps its own."""
        response = self._ask("PUT", f"/{external_id}/state", json={"state": "KILLED"})
        if response.status_code != 404:
            _raise_for(response)

    def explain(self, external_id: str) -> str:
        """Return the application's diagnostics."""
        return str((self._app(external_id) or {}).get("diagnostics") or "").strip()

    def _app(self, external_id: str) -> dict[str, Any] | None:
        response = self._ask("GET", f"/{external_id}")
        if response.status_code == 404 and "RemoteException" in response.text:
            return None
        app: dict[str, Any] = _raise_for(response)["app"]
        return app

    def _apps(self, parameters: Mapping[str, str]) -> list[dict[str, Any]]:
        answer = _raise_for(self._ask("GET", "", params=parameters))
        # "apps" is null when there are none.
        found: list[dict[str, Any]] = (answer.get("apps") or {}).get("app") or []
        return found

    def _ask(self, method: str, path: str, **options: Any) -> requests.Response:
        """Ask the active ResourceManager; one that stands by redirects, or says so in words."""
        for url in self._urls[:-1]:
            try:
                response = requests.request(method, url + path, auth=self._auth, timeout=_TIMEOUT, **options)
            except requests.ConnectionError:
                continue
            if "application/json" in response.headers.get("Content-Type", ""):
                return response
        return requests.request(method, self._urls[-1] + path, auth=self._auth, timeout=_TIMEOUT, **options)


def _tags(conf: Mapping[str, Any]) -> list[str]:
    return [tag.strip() for tag in str(conf.get(TAGS_PROPERTY) or "").split(",") if tag.strip()]


def _tag(token: str) -> str:
    return f"{COMMON_TAG}-{token}"


def _status_of(app: Mapping[str, Any]) -> str:
    """Return the state; of an application that has ended, what became of it."""
    state, final = str(app["state"]), str(app.get("finalStatus", ""))
    return final if state == "FINISHED" else state


def _raise_for(response: requests.Response) -> dict[str, Any]:
    """
    Return the JSON answer.

    :raises ServiceThrottledError: the ResourceManager wants fewer requests
    :raises requests.HTTPError: it refuses, with its own words
    :raises ValueError: what answered is no ResourceManager in charge
    """
    if response.status_code == 429:
        raise ServiceThrottledError(f"HTTP 429 from {response.url}")
    if not response.ok:
        raise requests.HTTPError(
            f"HTTP {response.status_code} from {response.url}: {response.text[:300]}", response=response
        )
    try:
        answer: dict[str, Any] = response.json()
    except ValueError as error:
        raise ValueError(
            f"{response.url} is no active ResourceManager: {response.text.strip()[:200]!r}"
        ) from error
    return answer


def _kerberos() -> AuthBase:
    try:
        from requests_kerberos import HTTPKerberosAuth
    except ImportError as error:
        raise ImportError(
            "The connection has a keytab and a principal, so the ResourceManager is asked with "
            "Kerberos, which needs another package. Install it with: pip install requests-kerberos; or pass "
            "yarn_rm_auth."
        ) from error
    auth: AuthBase = HTTPKerberosAuth()
    return auth
