"""The operating system's side of one task: find exactly its processes, and end one of them.

Airflow's LocalExecutor names each worker process after the task instance it supervises; the task's own
process is that worker's child, and the REST API shows its pid.
"""

from __future__ import annotations

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path

from harness import guard
from harness.processes import wait_until


@dataclass(frozen=True)
class TaskProcess:
    """One process; its start time tells it from a later one with the same pid."""

    pid: int
    start: str

    @classmethod
    def of(cls, pid: int) -> TaskProcess | None:
        """The living process with this pid."""
        start = guard.start_time(pid)
        return cls(pid, start) if start else None

    def alive(self) -> bool:
        """Whether it still runs."""
        return guard.start_time(self.pid) == self.start

    def signal(self, signum: int) -> None:
        """Send a signal to this process alone."""
        if self.alive():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signum)

    def kill(self) -> None:
        """``kill -9``, and wait until it is gone."""
        self.signal(signal.SIGKILL)
        self.wait_gone(30)

    def terminate(self) -> None:
        """SIGTERM: to a supervisor, what an eviction of its worker sends."""
        self.signal(signal.SIGTERM)

    def wait_gone(self, timeout: float = 60.0) -> None:
        """Wait until it has ended."""
        wait_until(lambda: not self.alive(), f"process {self.pid} has ended", timeout, 0.02)


def find_supervisor(task: TaskProcess, ti_id: str) -> TaskProcess | None:
    """The task's parent, if that is the worker that supervises this very try (``ti_id`` is new each try)."""
    try:
        stat = Path(f"/proc/{task.pid}/stat").read_text()
        parent = int(stat.rpartition(")")[2].split()[1])
        title = Path(f"/proc/{parent}/cmdline").read_bytes().decode(errors="replace")
    except OSError:
        return None
    return TaskProcess.of(parent) if ti_id in title else None
