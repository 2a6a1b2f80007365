"""A small parent for one service process: `python guard.py --watch PID -- command ...`.

It ends the command and everything the command ever started (daemons and process groups of their own
included) when it gets SIGTERM, when the watched process is gone, or when the command itself ends.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
POLL_SECONDS = 0.25


def _prctl(option: int, value: int) -> None:
    """Call prctl(2); a platform without it (macOS) falls back to process groups."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(option, value, 0, 0, 0)


def _stat_fields(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the state on, or None if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (OSError, ValueError):
        return None


def start_time(pid: int) -> str | None:
    """What tells a process from a later one with the same pid; None when it is gone or a zombie."""
    if sys.platform != "linux":
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return None
        return "alive"
    fields = _stat_fields(pid)
    return None if fields is None or fields[0] in "ZX" else fields[19]


def descendants(root: int) -> list[int]:
    """All living processes below ``root``, found by their parents in /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir() if sys.platform == "linux" else ():
        if entry.name.isdigit() and (fields := _stat_fields(int(entry.name))) and fields[0] != "Z":
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    queue = [root]
    while queue:
        for child in children.get(queue.pop(), []):
            found.append(child)
            queue.append(child)
    return found


def _signal_all(pids: list[int], signum: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)


class _Guard:
    """One command and all that descends from it."""

    def __init__(self, command: list[str], grace: float) -> None:
        self.grace = grace
        self.exit_code: int | None = None
        self.pid = subprocess.Popen(command, preexec_fn=_child_setup).pid  # noqa: PLW1509 - one thread

    def reap(self) -> None:
        """Collect ended children: the command's exit code, and orphans that the kernel handed to us."""
        try:
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                if pid == self.pid:
                    self.exit_code = os.waitstatus_to_exitcode(status)
        except ChildProcessError:
            return

    def end_everything(self) -> None:
        """TERM, first to the command and then to what it leaves; after the grace KILL to all below us."""
        if self.exit_code is None:
            _signal_all([self.pid], signal.SIGTERM)
        deadline = time.monotonic() + self.grace
        told: set[int] = set()
        while (left := self._left()) and time.monotonic() < deadline:
            if self.exit_code is not None:
                _signal_all([pid for pid in left if pid not in told], signal.SIGTERM)
                told.update(left)
            time.sleep(0.05)
        while left := self._left():
            _signal_all(left, signal.SIGKILL)
            time.sleep(0.05)

    def _left(self) -> list[int]:
        self.reap()
        found = descendants(os.getpid())
        return found if self.exit_code is not None else [self.pid, *found]


def _child_setup() -> None:
    os.setpgid(0, 0)
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main(argv: list[str] | None = None) -> int:
    """Run the command until one of the three ends in the module's docstring; returns its exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--watch", type=int, required=True, help="pid whose end ends the command")
    parser.add_argument("--grace", type=float, default=5.0, help="seconds between TERM and KILL")
    parser.add_argument("--pid-file", type=Path, required=True, help="gets the command's pid")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    options = parser.parse_args(argv)
    command = options.command[1:] if options.command[:1] == ["--"] else options.command

    stop_requested: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: stop_requested.append(1))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    watched = start_time(options.watch)
    guard = _Guard(command, options.grace)
    options.pid_file.write_text(str(guard.pid))
    while guard.exit_code is None and not stop_requested:
        if watched is None or start_time(options.watch) != watched:
            break
        time.sleep(POLL_SECONDS)
        guard.reap()
    guard.end_everything()
    return guard.exit_code or 0


if __name__ == "__main__":
    sys.exit(main())
