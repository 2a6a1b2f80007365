"""The server side of the fault proxy (see fault_proxy.py): standard library only, a thread a connection.

Two ports: clients talk to one, tests to the other. Each connection of a client has its own connection to
the service, so keep-alive works as without the proxy.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import itertools
import json
import re
import signal
import socket
import sys
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade", "content-length"}
BODY_KEPT = 4096
REQUESTS_KEPT = 20_000
UPSTREAM_TIMEOUT = 120.0


@dataclass
class Rule:
    """One rule, as a test asked for it, and what became of it."""

    id: int
    want: dict[str, Any]
    seen: int = 0
    hits: int = 0
    held: int = 0
    released: threading.Event = field(default_factory=threading.Event)

    def takes(self, method: str, path: str, body: str) -> bool:
        """Whether this rule acts on the request; counts what it has seen. Call under the lock."""
        want = self.want
        fits = (
            (not want["method"] or want["method"] == method)
            and re.search(want["path"], path) is not None
            and want["body"] in body
        )
        if not fits or (want["action"].startswith("hold") and self.released.is_set()):
            return False
        self.seen += 1
        if self.seen <= want["skip"] or (want["times"] is not None and self.hits >= want["times"]):
            return False
        self.hits += 1
        return True

    def hold(self) -> None:
        """Wait until released."""
        with STATE.lock:
            self.held += 1
        self.released.wait()
        with STATE.lock:
            self.held -= 1


class _State:
    """What both sides share."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.ids = itertools.count(1)
        self.rules: dict[int, Rule] = {}
        self.requests: deque[dict[str, Any]] = deque(maxlen=REQUESTS_KEPT)
        self.totals: Counter[str] = Counter()
        self.upstream = urlsplit("")
        self.server: DataServer | None = None
        self.port = 0


STATE = _State()


class DataServer(ThreadingHTTPServer):
    """Serves clients, and can close all their connections."""

    request_queue_size = 512
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self, port: int) -> None:
        self.open_sockets: set[socket.socket] = set()
        super().__init__(("127.0.0.1", port), DataHandler)

    def close_all(self) -> None:
        """Stop listening and cut what is open."""
        self.shutdown()
        self.server_close()
        for open_socket in list(self.open_sockets):
            with contextlib.suppress(OSError):
                open_socket.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of our business."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class DataHandler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: DataServer

    def setup(self) -> None:
        super().setup()
        self.server.open_sockets.add(self.connection)
        self.upstream: http.client.HTTPConnection | None = None

    def finish(self) -> None:
        self.server.open_sockets.discard(self.connection)
        if self.upstream is not None:
            self.upstream.close()
        super().finish()

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def relay(self) -> None:
        """Take a request, do to it what a rule says, and answer."""
        body = self._body()
        text = body[: 64 * BODY_KEPT].decode(errors="replace")
        path = self.path.split("?")[0]
        with STATE.lock:
            rule = next((r for r in STATE.rules.values() if r.takes(self.command, self.path, text)), None)
            STATE.totals[f"{self.command} {path}"] += 1
            record: dict[str, Any] = {
                "method": self.command,
                "path": self.path,
                "body": text[:BODY_KEPT],
                "time": time.time(),
                "status": None,
                "rule": rule.id if rule else None,
            }
            STATE.requests.append(record)
        answer = self._act(rule, body)
        if answer is None:
            self.close_connection = True
            return
        record["status"] = answer[0]
        self._send(*answer)

    def _act(self, rule: Rule | None, body: bytes) -> tuple[int, list[tuple[str, str]], bytes] | None:
        """The answer for the client, or None to close the connection without one."""
        action = rule.want["action"] if rule else ""
        if rule is None or not action:
            return self._forward(body)
        if action == "drop_request":
            return None
        if action == "hold_request":
            rule.hold()
        made = json.dumps(rule.want["answer"] if rule.want["answer"] is not None else {}).encode()
        headers = [("Content-Type", "application/json")]
        if isinstance(rule.want["answer"], dict) and "__type" in rule.want["answer"]:
            headers.append(("x-amzn-ErrorType", rule.want["answer"]["__type"]))
        if action == "answer":
            return rule.want["status"], headers, made
        answer = self._forward(body)
        if action == "answer_after":
            return rule.want["status"], headers, made
        if action == "delay":
            time.sleep(rule.want["seconds"])
        if action == "hold_response":
            rule.hold()
        return None if action == "drop_response" else answer

    def _forward(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes] | None:
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP_BY_HOP}
        if body or self.command in ("POST", "PUT", "PATCH"):
            headers["Content-Length"] = str(len(body))
        for fresh in (False, True):
            reused = self.upstream is not None and not fresh
            if not reused:
                self.upstream = http.client.HTTPConnection(
                    STATE.upstream.hostname or "", STATE.upstream.port, timeout=UPSTREAM_TIMEOUT
                )
            assert self.upstream is not None
            try:
                self.upstream.request(self.command, self.path, body, headers)
                answer = self.upstream.getresponse()
                data = answer.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                # The service closed an idle connection before it saw this request.
                self.upstream.close()
                if not reused:
                    return None
            except OSError:
                self.upstream.close()
                return None
            else:
                if answer.will_close:
                    self.upstream.close()
                    self.upstream = None
                kept = [(k, v) for k, v in answer.getheaders() if k.lower() not in HOP_BY_HOP]
                return answer.status, kept, data
        return None

    def _send(self, status: int, headers: list[tuple[str, str]], data: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_HEAD = do_OPTIONS = relay  # noqa: N815


class ControlHandler(BaseHTTPRequestHandler):
    """What tests ask for."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: Any) -> None:
        """Log nothing."""

    def control(self) -> None:
        """Answer one control request with JSON."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"null")
        try:
            answer, status = self._answer(self.path.strip("/").split("/"), body), 200
        except (KeyError, re.error) as wrong:
            answer, status = {"error": repr(wrong)}, 400
        data = json.dumps(answer).encode()
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _answer(self, path: list[str], body: Any) -> Any:
        if path[0] in ("open", "close"):
            return listen() if path[0] == "open" else stop_listening()
        with STATE.lock:
            if path[0] == "rules":
                return self._rules(path[1:], body)
            if path[0] == "requests":
                wanted = re.compile(body["path"])
                return [r for r in STATE.requests if wanted.search(r["path"]) and body["body"] in r["body"]]
            if path[0] == "totals":
                return dict(STATE.totals)
            if path[0] == "reset":
                STATE.requests.clear()
                STATE.totals.clear()
                return {}
        raise KeyError(path[0])

    def _rules(self, path: list[str], body: Any) -> Any:
        if not path:
            re.compile(body["path"])
            rule = Rule(next(STATE.ids), body)
            STATE.rules[rule.id] = rule
        else:
            rule = STATE.rules[int(path[0])]
        if path[1:] == ["release"] or self.command == "DELETE":
            rule.released.set()
        if self.command == "DELETE":
            del STATE.rules[rule.id]
        return {"id": rule.id, "hits": rule.hits, "held": rule.held}

    do_GET = do_POST = do_DELETE = control  # noqa: N815


def listen() -> dict[str, str]:
    """Open the clients' port."""
    if STATE.server is None:
        STATE.server = DataServer(STATE.port)
        threading.Thread(target=STATE.server.serve_forever, args=(0.05,), daemon=True).start()
    return {}


def stop_listening() -> dict[str, str]:
    """Close the clients' port and their connections."""
    if STATE.server is not None:
        STATE.server.close_all()
        STATE.server = None
    return {}


def main() -> None:
    """Serve until ended by a signal."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--control-port", type=int, required=True)
    parser.add_argument("--upstream", required=True)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    STATE.upstream, STATE.port = urlsplit(options.upstream), options.port
    listen()
    control = ThreadingHTTPServer(("127.0.0.1", options.control_port), ControlHandler)
    control.daemon_threads = True
    control.serve_forever()


if __name__ == "__main__":
    main()
