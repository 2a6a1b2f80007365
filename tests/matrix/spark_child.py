"""``spark-submit``, and what else Spark's operators run as a child: in this process, without a JVM.

It is one call of the process under test. What it submits goes to the cluster's stand-in over HTTP, as the
real one's does; its output is what the operators look for.
"""

from __future__ import annotations

import io
import subprocess
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matrix.wire import Transport

if TYPE_CHECKING:
    from typing_extensions import Self

    from matrix.wire import Wire

PROGRAMS = ("spark-submit", "curl")


class ChildFailed(Exception):
    """The child ends with an error, and this as its output."""


class Child(Transport):
    """How a child tells that it got no answer: by its exit code and its output."""

    def lost(self) -> BaseException:
        return ChildFailed("java.net.SocketException: Connection reset")

    def refused(self) -> BaseException:
        return ChildFailed("java.net.ConnectException: Connection refused")

    def timed_out(self) -> BaseException:
        return ChildFailed("java.net.SocketTimeoutException: Read timed out")

    def error(self, status: int) -> Any:
        raise ChildFailed(f"The server answered {status}")


class FinishedChild:
    """A child that has ended, as ``subprocess.Popen`` shows it."""

    pid = -1

    def __init__(self, output: str, returncode: int) -> None:
        self.stdout = io.StringIO(output)
        self.returncode = returncode

    def poll(self) -> int:
        """Return the exit code."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code."""
        return self.returncode

    def kill(self) -> None:
        """Do nothing: it has ended."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class Properties(dict[str, str]):
    """The Spark properties and the name in a command line of ``spark-submit``."""

    def __init__(self, command: Sequence[str]) -> None:
        words = list(pairwise(command))
        super().__init__(value.split("=", 1) for word, value in words if word == "--conf")
        self.name = next((value for word, value in words if word == "--name"), "")


def install(wire: Wire, operation: Callable[[list[str]], str], act: Callable[[list[str]], str]) -> None:
    """
    Have children named ``PROGRAMS`` be run here.

    :param wire: counts them
    :param operation: names what a command line is for
    :param act: carries it out and returns its output
    """
    real = subprocess.Popen

    class Popen(real):  # type: ignore[valid-type,misc]
        def __new__(cls, args: Any, *others: Any, **options: Any) -> Any:
            words = [args] if isinstance(args, str) else [str(word) for word in args]
            start = next((n for n, word in enumerate(words) if Path(word).name in PROGRAMS), None)
            if start is None or wire.process is None:
                return super().__new__(cls)
            return _run(wire, words[start:], operation, act)

    subprocess.Popen = Popen  # type: ignore[misc]


def _run(
    wire: Wire, command: list[str], operation: Callable[[list[str]], str], act: Callable[[list[str]], str]
) -> FinishedChild:
    child = Child()

    def perform() -> str:
        if wire.process is not None and wire.process.service_down:
            raise child.refused()
        return act(command)

    try:
        return FinishedChild(wire.call(operation(command), perform, child), 0)
    except ChildFailed as error:
        return FinishedChild(f"{error}\n", 1)
