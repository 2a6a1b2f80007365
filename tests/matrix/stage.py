"""The unit tests' fakes of REST APIs behind a real HTTP server, for clients of every library."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import requests

Answer = tuple[int, dict[str, str], str]


class Stage:
    """
    A server on loopback.

    It takes the place of ``responses.RequestsMock``, as far as the fakes use it.

    :param host: the address that the fakes believe they have, ``https://...``
    """

    def __init__(self, host: str) -> None:
        self._host = host
        self._callbacks: list[tuple[str, re.Pattern[str], Callable[[Any], Answer]]] = []
        self._lock = threading.Lock()
        stage = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:  # a client that is gone
                    self.close_connection = True

            def answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                status, headers, text = stage.answer(self.command, self.path, self.rfile.read(length))
                data = text.encode()
                self.send_response(status)
                for name, value in {"Content-Type": "application/json", **headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, name="stage", daemon=True).start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The same as a URL."""
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()

    def clear(self) -> None:
        """Forget the fake."""
        self._callbacks.clear()

    def add_callback(self, method: str, url: re.Pattern[str], callback: Callable[[Any], Answer]) -> None:
        """Have ``callback`` answer these requests: what ``responses.RequestsMock`` offers to a fake."""
        self._callbacks.append((method, url, callback))

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Answer a request."""
        request: Any = requests.Request(method, f"{self._host}{path}", data=body or None).prepare()
        request.params = dict(parse_qsl(urlsplit(path).query))
        with self._lock:
            for wanted, pattern, callback in self._callbacks:
                if wanted == method and pattern.match(request.url):
                    return callback(request)
        return 404, {}, "{}"
