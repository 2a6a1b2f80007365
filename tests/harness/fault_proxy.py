"""A fault proxy as a process, between a client and an HTTP service: lost answers, delays, 5xx, outages.

Tests add rules through ``FaultProxy``; a rule is limited to requests whose body (a job name, say) or path
match, so that tests share one proxy. The server is fault_proxy_server.py; it also counts and remembers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from harness.http_client import HttpClient
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port, wait_until

Action = Literal[
    "drop_response",  # the service acts; its answer is lost and the connection closes
    "drop_request",  # the connection closes before the service hears of the request
    "hold_response",  # the service acts; the answer waits until the rule is released
    "hold_request",  # the request waits until the rule is released, then goes on
    "delay",  # the answer comes `seconds` later
    "answer",  # `status` and `body` instead of the service's answer
    "answer_after",  # the service acts; `status` and `body` instead of its answer
]


@dataclass(frozen=True)
class Request:
    """One request that went through; ``status`` is None when the client got no answer."""

    method: str
    path: str
    body: str
    time: float
    status: int | None
    rule: int | None


@dataclass
class Rule:
    """A rule in force, by ``FaultProxy.rule``; also a context manager that removes it at the end."""

    proxy: FaultProxy
    id: int

    def _state(self) -> dict[str, Any]:
        state: dict[str, Any] = self.proxy.call("GET", f"rules/{self.id}")
        return state

    @property
    def hits(self) -> int:
        """How many requests it has acted on."""
        return int(self._state()["hits"])

    @property
    def held(self) -> int:
        """How many requests it holds now."""
        return int(self._state()["held"])

    def wait_hits(self, count: int = 1, timeout: float = 240.0) -> None:
        """Wait until it has acted on ``count`` requests."""
        wait_until(lambda: self.hits >= count, f"{count} hits of rule {self.id}", timeout, 0.05)

    def wait_held(self, count: int = 1, timeout: float = 240.0) -> None:
        """Wait until it holds ``count`` requests: after this the service has acted (hold_response)."""
        wait_until(lambda: self.held >= count, f"{count} held by rule {self.id}", timeout, 0.05)

    def release(self) -> None:
        """Let go what it holds, and hold nothing more."""
        self.proxy.call("POST", f"rules/{self.id}/release")

    def remove(self) -> None:
        """Release and forget the rule."""
        self.proxy.call("DELETE", f"rules/{self.id}")

    def __enter__(self) -> Rule:  # noqa: PYI034 - Self is not in Python 3.10
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


@dataclass
class FaultProxy:
    """A client of the proxy's control side, and the process itself where ``start`` made it."""

    url: str
    control_url: str
    process: ServiceProcess | None = None
    http: HttpClient = field(default_factory=HttpClient, repr=False)

    @classmethod
    def start(cls, folder: Path, upstream: str, name: str = "proxy") -> FaultProxy:
        """Start a proxy in front of ``upstream`` (an URL); clients use ``.url``."""
        port, control = free_port(), free_port()
        script = str(Path(__file__).with_name("fault_proxy_server.py"))
        command = [sys.executable, "-S", script, "--port", str(port), "--control-port", str(control)]
        process = ServiceProcess.start(
            name,
            [*command, "--upstream", upstream],
            folder=folder,
            ready=lambda: accepts(port) and accepts(control),
            grace=1,
        )
        return cls(f"http://{LOOPBACK}:{port}", f"http://{LOOPBACK}:{control}", process)

    def stop(self) -> None:
        """End the process, if this object started it."""
        if self.process is not None:
            self.process.stop()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request to the control side."""
        answer = self.http.request(method, f"{self.control_url}/{path}", json=body)
        answer.raise_for_status()
        return answer.json()

    def rule(
        self,
        action: Action,
        *,
        path: str = "",
        method: str = "",
        body: str = "",
        skip: int = 0,
        times: int | None = None,
        seconds: float = 0.0,
        status: int = 503,
        answer: Any = None,
    ) -> Rule:
        """Add a rule; of several that match, the one added first acts.

        :param action: what happens, see ``Action``
        :param path: regular expression that the request's path contains, ``/v1/submitjob`` for example
        :param method: ``POST`` for example; empty for all
        :param body: what the request's body contains; a job name or id keeps tests apart
        :param skip: so many matching requests pass first
        :param times: acts so many times at most; None without end
        :param seconds: of ``delay``
        :param status: of the two answers
        :param answer: JSON of the two answers; ``aws_error`` makes AWS's
        """
        match = {"path": path, "method": method, "body": body, "skip": skip, "times": times}
        effect = {"action": action, "seconds": seconds, "status": status, "answer": answer}
        return Rule(self, self.call("POST", "rules", {**match, **effect})["id"])

    def requests(self, path: str = "", body: str = "") -> list[Request]:
        """The latest 20,000 requests whose path matches and whose body contains ``body``."""
        found = self.call("POST", "requests", {"path": path, "body": body})
        return [Request(**request) for request in found]

    def count(self, path: str = "", body: str = "") -> int:
        """How many requests there were, see ``requests``."""
        return len(self.requests(path, body))

    def totals(self) -> dict[str, int]:
        """How many requests of each ``METHOD path`` there were since the start (or ``reset``)."""
        totals: dict[str, int] = self.call("GET", "totals")
        return totals

    def reset(self) -> None:
        """Forget requests and totals."""
        self.call("POST", "reset")

    @contextmanager
    def outage(self) -> Iterator[None]:
        """Nobody listens: connections are refused, open ones closed. Everybody who uses it is hit."""
        self.call("POST", "close")
        try:
            yield
        finally:
            self.call("POST", "open")


def aws_error(code: str, message: str = "made by the fault proxy") -> dict[str, str]:
    """The body of an AWS JSON error, for ``answer``; the code is ``AccessDeniedException``, say."""
    return {"__type": code, "message": message}
