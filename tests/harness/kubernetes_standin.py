"""A small Kubernetes API server: what `spark-submit` and a Kubernetes client ask of one, over plain HTTP.

Runs as a process; tests talk to it through kubernetes_service.py. It keeps pods, config maps, services,
secrets, volume claims and network policies (kubernetes_objects.py), gives pods a life, and runs nothing. It
follows, as far as it goes: https://kubernetes.io/docs/reference/kubernetes-api/
"""

from __future__ import annotations

import argparse
import json
import re
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from kubernetes_objects import API_VERSIONS, KINDS, Cluster, StatusError, selected

if TYPE_CHECKING:
    from kubernetes_objects import Stored

PATH = re.compile(
    r"^/apis?/(?P<version>[^/]+|[^/]+/[^/]+)(?:/namespaces/(?P<namespace>[^/]+))?"
    r"/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?$"
)

CLUSTER = Cluster()
#: https://kubernetes.io/docs/reference/using-api/server-side-apply/; JSON is YAML, too.
APPLY = "application/apply-patch+yaml"


class Handler(BaseHTTPRequestHandler):
    """HTTP in, HTTP out."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Silent."""

    def _handle(self) -> None:
        address = urlsplit(self.path)
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            if address.path.startswith("/standin/"):
                code, answer = 200, control(self.command, address.path, json.loads(body or b"{}"))
            elif address.path == "/version":
                code, answer = 200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0"}
            elif query.get("watch") in ("true", "1"):
                self._watch(address.path, query)
                return
            else:
                code, answer = self._resource(address.path, query, json.loads(body or b"{}"))
        except StatusError as error:
            code, answer = error.code, error.body
        self._send(code, answer)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _handle  # noqa: N815 - the names of http.server

    def _send(self, code: int, answer: Any) -> None:
        data = json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _resource(self, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        plural, namespace, name = _parse(path)
        if self.command == "POST":
            return 201, CLUSTER.create(plural, namespace or "default", body)
        if name is None:
            return self._list(plural, namespace, query)
        if self.headers.get("Content-Type") == APPLY:
            return CLUSTER.apply(plural, namespace or "default", name, body)
        stored = CLUSTER.get(plural, namespace or "default", name)
        if self.command in ("PUT", "PATCH"):
            return 200, CLUSTER.update(stored, body, replace=self.command == "PUT")
        if self.command == "DELETE":
            grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
            return 200, CLUSTER.delete(stored, None if grace is None else float(grace))
        return 200, stored.body

    def _list(self, plural: str, namespace: str | None, query: dict[str, str]) -> tuple[int, Any]:
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        found, version = CLUSTER.listed(plural, namespace, labels, fields)
        if self.command == "DELETE":
            for body in found:
                metadata = body["metadata"]
                CLUSTER.delete(CLUSTER.get(plural, metadata["namespace"], metadata["name"]), None)
        # The token is the last name of the page before, so that a page stays right when objects come and go.
        found = [one for one in found if one["metadata"]["name"] > query.get("continue", "")]
        limit = int(query.get("limit") or len(found) or 1)
        metadata = {"resourceVersion": str(version)}
        if len(found) > limit:
            metadata |= {"continue": found[limit - 1]["metadata"]["name"]}
        return 200, {
            "kind": f"{KINDS[plural]}List",
            "apiVersion": API_VERSIONS.get(plural, "v1"),
            "metadata": metadata,
            "items": found[:limit],
        }

    def _watch(self, path: str, query: dict[str, str]) -> None:
        plural, namespace, _ = _parse(path)
        labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
        deadline = time.monotonic() + float(query.get("timeoutSeconds") or 300)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        found, version = CLUSTER.listed(plural, namespace, labels, fields)
        asked = int(query.get("resourceVersion") or 0)
        try:
            if asked:
                version = asked
            else:
                for body in found:
                    self._chunk({"type": "ADDED", "object": body})
            while time.monotonic() < deadline:
                CLUSTER.tick()
                for number, kind, of, body in CLUSTER.events_after(version):
                    version = number
                    inside = of == plural and namespace in (None, body["metadata"]["namespace"])
                    if inside and selected(body, labels, fields):
                        self._chunk({"type": kind, "object": body})
                with CLUSTER.changed:
                    CLUSTER.changed.wait(0.2)
        except StatusError as error:
            self._chunk({"type": "ERROR", "object": error.body})
        except OSError:
            self.close_connection = True
            return
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, event: dict[str, Any]) -> None:
        data = json.dumps(event).encode() + b"\n"
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()


def _parse(path: str) -> tuple[str, str | None, str | None]:
    found = PATH.match(path)
    plural = found["plural"] if found else ""
    if not found or plural not in KINDS or found["version"] != API_VERSIONS.get(plural, "v1"):
        raise StatusError(404, "NotFound", "the server could not find the requested resource")
    return plural, found["namespace"], found["name"]


def control(method: str, path: str, body: dict[str, Any]) -> Any:
    """The tests' side: ``/standin/pods`` and ``/standin/pods/<namespace>/<name>/<action>``."""
    with CLUSTER.changed:
        CLUSTER.tick()
        if method == "POST":
            namespace, name, action = path.removeprefix("/standin/pods/").split("/")
            stored = CLUSTER.get("pods", namespace, name)
            if action == "finish":
                CLUSTER.finish(stored, body["exit_code"], body["reason"])
            elif action == "collect":
                CLUSTER.collect(stored)
            elif action == "phase":
                CLUSTER.set_phase(stored, body["phase"])
        return [_told(one) for one in CLUSTER.ever if one.plural == path.split("/")[2]]


def _told(stored: Stored) -> dict[str, Any]:
    metadata = stored.body["metadata"]
    return {
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "labels": metadata.get("labels") or {},
        "phase": stored.phase,
        "gone": stored.gone_at is not None,
        "deleted": stored.deleted_by_request,
        "cancelled": stored.deleted_while_active,
        "body": stored.body,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()
