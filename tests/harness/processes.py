"""Start a service as a process on loopback, wait until it is ready, and end exactly what was started.

Each process runs below a small guard (guard.py) that ends it with all its descendants when told to, and
also when the test run (or demo, or benchmark) that wanted it is gone, however that died.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness import guard

LOOPBACK = "127.0.0.1"
OWNER_VARIABLE = "HARNESS_OWNER_PID"
T = TypeVar("T")


class ServiceFailed(RuntimeError):
    """A service process ended, or did not become ready in time; the message holds the end of its log."""


class WaitTimeout(AssertionError):
    """A condition did not come true in time."""


def free_port() -> int:
    """A TCP port on loopback that nobody listened on a moment ago.

    Below those that the system gives away by itself, of which one may be an outgoing connection's by the time
    that somebody wants to listen on it.
    """
    while True:
        port = random.randrange(30_000, 32_768)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((LOOPBACK, port))
            return port


def accepts(port: int) -> bool:
    """Whether something listens on this loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex((LOOPBACK, port)) == 0


def owner_pid() -> int:
    """The process whose end ends all services: the one in ``HARNESS_OWNER_PID``, else this one."""
    return int(os.environ.get(OWNER_VARIABLE) or os.getpid())


def quick_python() -> dict[str, str]:
    """Our environment, with Python's bytecode cache on: without it Airflow compiles for 8 s a process."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def wait_until(
    condition: Callable[[], T | None],
    what: str | Callable[[], str],
    timeout: float = 60.0,
    interval: float = 0.1,
) -> T:
    """Ask ``condition`` every ``interval`` seconds until it is truthy, and return that value.

    :raises WaitTimeout: after ``timeout`` seconds, saying ``what`` did not happen.
    """
    deadline = time.monotonic() + timeout
    while True:
        if value := condition():
            return value
        if time.monotonic() > deadline:
            raise WaitTimeout(f"not within {timeout:.0f} s: {what() if callable(what) else what}")
        time.sleep(interval)


@dataclass(frozen=True)
class ServiceProcess:
    """A running service; plain data, so that another process can take hold of it with ``from_dict``."""

    name: str
    pid: int
    guard_pid: int
    guard_start: str | None
    log_path: str

    @classmethod
    def start(
        cls,
        name: str,
        command: list[str],
        *,
        folder: Path,
        env: Mapping[str, str] | None = None,
        ready: Callable[[], bool] | None = None,
        timeout: float = 60.0,
        grace: float = 5.0,
    ) -> ServiceProcess:
        """Start ``command`` and return once ``ready()`` is true.

        :param folder: the working directory; holds the log ``<name>.log`` and the pid file.
        :param env: the whole environment; None hands on ours (``quick_python``).
        :param timeout: seconds until it must be ready.
        :param grace: seconds between TERM and KILL when it is ended.
        :raises ServiceFailed: with the end of the log.
        """
        folder = folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        pid_file = folder / f"{name}.pid"
        pid_file.unlink(missing_ok=True)
        log_path = folder / f"{name}.log"
        options = ["--watch", str(owner_pid()), "--grace", str(grace), "--pid-file", str(pid_file)]
        with log_path.open("ab") as log:
            parent = subprocess.Popen(
                [sys.executable, "-S", guard.__file__, *options, "--", *command],
                env=quick_python() if env is None else dict(env),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

        def pid_known() -> int | None:
            text = pid_file.read_text() if pid_file.exists() else ""
            if not text and parent.poll() is not None:
                raise ServiceFailed(f"{name} did not start\n{_tail(log_path)}")
            return int(text) if text else None

        pid = wait_until(pid_known, f"{name} has a pid", timeout=20, interval=0.02)
        service = cls(name, pid, parent.pid, guard.start_time(parent.pid), str(log_path))
        _reapers[parent.pid] = parent
        if ready is not None:
            service.wait_ready(ready, timeout)
        return service

    def wait_ready(self, ready: Callable[[], bool], timeout: float = 60.0) -> None:
        """Block until ``ready()`` is true; a service that ends first is an error with its log."""

        def check() -> bool:
            if not self.alive():
                raise ServiceFailed(f"{self.name} ended while starting\n{self.log_tail()}")
            return ready()

        try:
            wait_until(check, f"{self.name} is ready", timeout=timeout)
        except WaitTimeout as late:
            self.stop()
            raise ServiceFailed(f"{late}\n{self.log_tail()}") from None

    def alive(self) -> bool:
        """Whether the guard, and so the service, still runs."""
        if (parent := _reapers.get(self.guard_pid)) is not None:
            parent.poll()
        return self.guard_start is not None and guard.start_time(self.guard_pid) == self.guard_start

    def log_text(self) -> str:
        """All that the service printed."""
        return Path(self.log_path).read_text(errors="replace")

    def log_tail(self, lines: int = 60) -> str:
        """The end of what the service printed."""
        return _tail(Path(self.log_path), lines)

    def signal(self, signum: int) -> None:
        """Send a signal to the service process alone (its guard then ends what it leaves behind)."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def stop(self, timeout: float = 40.0) -> None:
        """End the service and all its descendants, and wait until they are gone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.guard_pid, signal.SIGTERM)
        wait_until(lambda: not self.alive(), f"{self.name} has ended", timeout=timeout, interval=0.05)

    def kill(self) -> None:
        """``kill -9`` the service, wait until it and its descendants are gone."""
        self.signal(signal.SIGKILL)
        wait_until(lambda: not self.alive(), f"{self.name} has ended", timeout=40, interval=0.05)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for a state file."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ServiceProcess:
        """The service that ``to_dict`` described, started by this or another process."""
        return cls(**data)


_reapers: dict[int, subprocess.Popen[bytes]] = {}


def _tail(path: Path, lines: int = 60) -> str:
    text = path.read_text(errors="replace").splitlines() if path.exists() else ["(no log)"]
    return "\n".join([f"--- end of {path.name}", *text[-lines:]])
