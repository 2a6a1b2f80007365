"""Airflow's API server for tasks, called in the caller's own thread: thousands of tries ask it ten times.

``dag.test()`` calls the same application, through two more threads for each request.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import anyio.to_thread
import httpx


class InThread(httpx.BaseTransport):
    """
    A transport that runs an ASGI application to its answer.

    :param app: the application
    """

    def __init__(self, app: Any) -> None:
        self._app = app
        self._loops = threading.local()
        self._lifespan = AsyncExitStack()
        self._loop.run_until_complete(self._lifespan.enter_async_context(app.router.lifespan_context(app)))

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        if not hasattr(self._loops, "loop"):
            self._loops.loop = asyncio.new_event_loop()
        loop: asyncio.AbstractEventLoop = self._loops.loop
        return loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Have the application answer."""
        url, body = request.url, request.read()
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": request.method,
            "scheme": "http",
            "path": url.path,
            "raw_path": url.raw_path.partition(b"?")[0],
            "query_string": url.query,
            "root_path": "",
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "server": ("in-process.invalid", 80),
            "client": ("127.0.0.1", 0),
            "state": {},
        }
        incoming = iter([{"type": "http.request", "body": body, "more_body": False}])
        start: dict[str, Any] = {}
        content: list[bytes] = []

        async def receive() -> dict[str, Any]:
            return next(incoming, {"type": "http.disconnect"})

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                content.append(message.get("body", b""))

        self._loop.run_until_complete(self._app(scope, receive, send))
        return httpx.Response(start["status"], headers=start["headers"], content=b"".join(content))


def api_client() -> Any:
    """Return the client that a supervisor has of Airflow's API server."""
    from airflow.api_fastapi.execution_api.app import InProcessExecutionAPI
    from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor

    _save_work()
    transport = InThread(InProcessExecutionAPI().app)
    client = InProcessTestSupervisor._Client(base_url=None, token="", dry_run=True, transport=transport)
    client.base_url = "http://in-process.invalid./"
    return client


def _save_work() -> None:
    """Leave out what FastAPI does anew for each request: a thread, and reading functions' signatures."""
    from fastapi.dependencies import utils

    async def run_here(function: Callable[..., Any], *arguments: Any, **_: Any) -> Any:
        return function(*arguments)

    anyio.to_thread.run_sync = run_here  # type: ignore[assignment]
    read, known = utils.get_dependant, {}  # type: ignore[var-annotated]

    def get_dependant(**about: Any) -> Any:
        key = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in sorted(about.items()))
        if key not in known:
            known[key] = read(**about)
        return known[key]

    utils.get_dependant = get_dependant  # type: ignore[assignment]
