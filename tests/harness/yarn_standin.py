"""A small YARN ResourceManager: its REST API, the books of its applications, and no containers.

Runs as a process; tests talk to it through yarn_service.py, the real spark-submit through the RPC front in
java/ResourceManagerFront.java. It follows, as far as it goes:
https://hadoop.apache.org/docs/stable/hadoop-yarn/hadoop-yarn-site/ResourceManagerRest.html
"""

from __future__ import annotations

import argparse
import getpass
import json
import re
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

STATES = ("NEW", "NEW_SAVING", "SUBMITTED", "ACCEPTED", "RUNNING", "FINISHED", "FAILED", "KILLED")
ENDED = ("FINISHED", "FAILED", "KILLED")
APPS = "/ws/v1/cluster/apps"
#: Of an application's name: how long it goes on if nobody ends it, and how long it takes to be killed.
SECONDS, KILL_SECONDS = re.compile(r"\bseconds=([0-9.]+)"), re.compile(r"kill_seconds=([0-9.]+)")
#: Seconds after its submission at which an application reaches a state.
CLOCK = {"SUBMITTED": 0.0, "ACCEPTED": 0.1, "RUNNING": 0.4}


class RemoteError(Exception):
    """What the ResourceManager answers as a RemoteException."""

    def __init__(self, code: int, name: str, message: str) -> None:
        super().__init__(message)
        java = f"org.apache.hadoop.yarn.webapp.{name}"
        self.code = code
        self.body = {"RemoteException": {"exception": name, "message": message, "javaClassName": java}}


@dataclass
class App:
    """One application; times are seconds since the epoch."""

    id: str
    name: str = ""
    user: str = field(default_factory=getpass.getuser)
    queue: str = "default"
    type: str = "SPARK"
    tags: list[str] = field(default_factory=list)
    command: str = ""
    state: str = "NEW"
    final_status: str = "UNDEFINED"
    diagnostics: str = ""
    submitted_at: float = 0.0
    finished_at: float = 0.0
    kill_asked_at: float = 0.0
    forgotten: bool = False

    def tick(self) -> None:
        """Have time pass."""
        if self.state in ENDED or not self.submitted_at:
            return
        age = time.time() - self.submitted_at
        if self.kill_asked_at:
            if time.time() >= self.kill_asked_at + _number(KILL_SECONDS, self.name, 0):
                self.end("KILLED", "KILLED", f"Application {self.id} was killed by user {self.user}")
            return
        for state, seconds in CLOCK.items():
            self.state = state if age >= seconds else self.state
        if self.state == "RUNNING" and age >= _number(SECONDS, self.name, 1e9):
            self.end("FINISHED", "SUCCEEDED", "")

    def end(self, state: str, final_status: str, diagnostics: str) -> None:
        """Write down how it ended."""
        self.state, self.final_status, self.diagnostics = state, final_status, diagnostics
        self.finished_at = time.time()

    def described(self) -> dict[str, Any]:
        """The `app` object of the REST API."""
        running = self.state == "RUNNING"
        return {
            "id": self.id,
            "user": self.user,
            "name": self.name,
            "queue": self.queue,
            "state": self.state,
            "finalStatus": self.final_status,
            "progress": 100.0 if self.state in ENDED else 10.0 * running,
            "trackingUI": "ApplicationMaster" if running else "UNASSIGNED",
            "trackingUrl": f"http://127.0.0.1:8088/proxy/{self.id}/",
            "diagnostics": self.diagnostics,
            "clusterId": int(self.id.split("_")[1]),
            "applicationType": self.type,
            "applicationTags": ",".join(self.tags),
            "startedTime": int(self.submitted_at * 1000),
            "finishedTime": int(self.finished_at * 1000),
            "elapsedTime": int(((self.finished_at or time.time()) - self.submitted_at) * 1000),
            "amContainerLogs": f"http://127.0.0.1:8042/node/containerlogs/container_{self.id[12:]}_01_000001",
            "allocatedMB": 1024 * running,
            "allocatedVCores": int(running),
            "runningContainers": int(running),
        }


def _number(pattern: re.Pattern[str], text: str, default: float) -> float:
    found = pattern.search(text)
    return float(found[1]) if found else default


class ResourceManager:
    """All applications, under one lock."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.cluster_id = int(time.time() * 1000)
        self.apps: dict[str, App] = {}

    def new(self) -> dict[str, Any]:
        with self.lock:
            app = App(f"application_{self.cluster_id}_{len(self.apps) + 1:04d}")
            self.apps[app.id] = app
        most = {"memory": 65536, "vCores": 64}
        return {"application-id": app.id, "maximum-resource-capability": most}

    def submit(self, body: dict[str, Any]) -> None:
        app = self.apps.get(str(body.get("application-id")))
        if app is None:
            raise RemoteError(400, "BadRequestException", "application-id must come from new-application")
        if app.submitted_at:
            return  # the ResourceManager takes a repeated submission as done
        app.name, app.queue = body.get("application-name", "N/A"), body.get("queue", "default")
        app.type = body.get("application-type", "YARN")
        # ApplicationSubmissionContext lowers the case of all tags.
        app.tags = sorted({tag.lower() for tag in body.get("application-tags", {}).get("tag", [])})
        app.command = body.get("am-container-spec", {}).get("commands", {}).get("command", "")
        app.submitted_at = time.time()
        app.tick()

    def get(self, app_id: str) -> App:
        app = self.apps.get(app_id)
        if app is None or app.forgotten or not app.submitted_at:
            name = "NotFoundException"
            full = f"org.apache.hadoop.yarn.webapp.{name}: app with id: {app_id} not found"
            raise RemoteError(404, name, full)
        app.tick()
        return app

    def listed(self, query: dict[str, str]) -> dict[str, Any]:
        wanted = {name: _words(query, name) for name in ("states", "applicationTypes", "applicationTags")}
        states = {state.upper() for state in wanted["states"] | _words(query, "state")}
        if unknown := states - set(STATES):
            raise RemoteError(400, "BadRequestException", f"Invalid application-state {min(unknown)}")
        tags = {tag.lower() for tag in wanted["applicationTags"]}
        found = []
        for app in list(self.apps.values()):
            app.tick()
            if (
                app.submitted_at
                and not app.forgotten
                and (not states or app.state in states)
                and (not tags or tags & set(app.tags))
                and (not wanted["applicationTypes"] or app.type in wanted["applicationTypes"])
                and all(query.get(name) in (None, getattr(app, name)) for name in ("user", "queue", "name"))
            ):
                found.append(app.described())
        found = found[-int(query["limit"]) :] if "limit" in query else found
        return {"apps": {"app": found} if found else None}

    def kill(self, app: App) -> tuple[int, dict[str, str]]:
        if app.state not in ENDED:
            app.kill_asked_at = app.kill_asked_at or time.time()
            state = app.state
            app.tick()
            # Asked for, not done yet: 202, and the state that it has.
            return 202, {"state": state}
        return 200, {"state": app.state}


def _words(query: dict[str, str], name: str) -> set[str]:
    return {word.strip() for word in query.get(name, "").split(",") if word.strip()}


MANAGER = ResourceManager()


class Handler(BaseHTTPRequestHandler):
    """HTTP in, HTTP out."""

    protocol_version = "HTTP/1.1"
    standby_of = ""

    def log_message(self, *_: object) -> None:
        """Silent."""

    def _handle(self) -> None:
        address = urlsplit(self.path)
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        try:
            if self.standby_of and address.path.startswith("/ws/"):
                self._redirect()
                return
            with MANAGER.lock:
                code, answer = self._answer(address.path.rstrip("/"), query, body)
        except RemoteError as error:
            code, answer = error.code, error.body
        self._send(code, "application/json", json.dumps(answer).encode())

    do_GET = do_POST = do_PUT = _handle  # noqa: N815 - the names of http.server

    def _answer(self, path: str, query: dict[str, str], body: dict[str, Any]) -> tuple[int, Any]:
        match (self.command, *path.removeprefix(APPS).split("/")[1:]):
            case ("POST", "new-application"):
                return 200, MANAGER.new()
            case ("POST",) if path == APPS:
                MANAGER.submit(body)
                return 202, {}
            case ("GET",) if path == APPS:
                return 200, MANAGER.listed(query)
            case ("GET", app_id) if path.startswith(APPS):
                return 200, {"app": MANAGER.get(app_id).described()}
            case ("GET", app_id, "state"):
                return 200, {"state": MANAGER.get(app_id).state}
            case ("PUT", app_id, "state"):
                if body.get("state") != "KILLED":
                    raise RemoteError(
                        400, "BadRequestException", "Only 'KILLED' is allowed as a target state."
                    )
                return MANAGER.kill(MANAGER.get(app_id))
        if path.startswith("/standin/apps"):
            return 200, control(path, body)
        raise RemoteError(404, "NotFoundException", f"{path} not found")

    def _redirect(self) -> None:
        """Answer as RMWebAppFilter does on a ResourceManager that stands by."""
        target = self.standby_of + self.path
        text = f"This is standby RM. The redirect url is: {target}\n".encode()
        self._send(307, "text/plain;charset=utf-8", text, {"Location": target})

    def _send(self, code: int, kind: str, data: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(data)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


def control(path: str, body: dict[str, Any]) -> Any:
    """The tests' side: ``/standin/apps`` and ``/standin/apps/<id>/<action>``."""
    match path.removeprefix("/standin/apps").split("/")[1:]:
        case [app_id, "finish"]:
            MANAGER.apps[app_id].end(body["state"], body["final_status"], body["diagnostics"])
        case [app_id, "forget"]:
            MANAGER.apps[app_id].forgotten = True
    for app in MANAGER.apps.values():
        app.tick()
    return [vars(app) for app in MANAGER.apps.values() if app.submitted_at]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--standby-of", default="")
    options = parser.parse_args()
    Handler.standby_of = options.standby_of
    ThreadingHTTPServer.daemon_threads = True
    ThreadingHTTPServer.request_queue_size = 128
    ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
