"""
Running ``spark-submit``: a child that does not outlive the try which started it.

Apache's hook builds the command. It is run here because the hook, in some of its versions, waits for
the end of the job in the same call; and because a ``spark-submit`` that is left behind by a killed
worker could still start a job, after the next try has found that there is none.
"""

from __future__ import annotations

import math
import os
import queue
import re
import shutil
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_durable.resumable import SubmissionRejectedError
from airflow_provider_durable.resumable.compat import AirflowException, mask_secret

#: What Spark itself hides, unless ``spark.redaction.regex`` says otherwise.
#: https://spark.apache.org/docs/latest/configuration.html
_REDACTED = r"(?i)secret|password|token|access[.]?key"
_REDACTION_PROPERTY = "spark.redaction.regex"
#: ``RestSubmissionClient`` and ``ClientEndpoint`` log the driver's id when the master has accepted it.
_DRIVER_ID = re.compile(r"\bdriver-\d{14}-\d+\b")
#: What a master says that stands by. spark-submit asks all of them, and where none is in charge it waits
#: without end.
_REFUSAL = "Can only accept driver submissions in ALIVE state"
#: Seconds after a refusal for another master to accept.
_ACCEPT_SECONDS = 60.0
#: Lines of output that an error message ends with, without the frames of Java's stack traces: the exceptions
#: and their causes stand between hundreds of those.
_TAIL = 30
_FRAME = "\tat "
#: Seconds after which a reader looks whether the task was told to stop.
_LOOK_SECONDS = 0.5
#: Seconds for reading what a process has written that was killed; others may hold its output open.
_LAST_WORDS_SECONDS = 2.0

#: PR_SET_PDEATHSIG, 1: the kernel ends the child with the thread that started it. Asked for in the child
#: itself, before it becomes spark-submit; the parent may have died by then.
_TIED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the task's process has ended")
os.execvp(sys.argv[2], sys.argv[2:])
"""


class SparkSubmitFailedError(AirflowException):
    """``spark-submit`` ended with an error, or was stopped; it may have started a job before."""


def hide_secrets(conf: Mapping[str, Any], arguments: Sequence[Any], environment: Mapping[str, Any]) -> None:
    """
    Have Airflow mask what is secret in a submission, wherever it is logged from now on.

    Secret is the value of a property, variable or ``--flag`` whose name matches Spark's own
    ``spark.redaction.regex``.

    :param conf: the Spark properties
    :param arguments: the application's arguments
    :param environment: environment variables
    """
    secret = re.compile(str(conf.get(_REDACTION_PROPERTY) or _REDACTED))
    for name, value in [*conf.items(), *environment.items()]:
        if secret.search(str(name)):
            mask_secret(str(value))
    flag = ""
    for argument in map(str, arguments):
        name, equals, value = argument.partition("=")
        if equals and secret.search(name):
            mask_secret(value)
        elif flag and not argument.startswith("-") and secret.search(flag):
            mask_secret(argument)
        flag = argument if argument.startswith("-") and not equals else ""


def run(
    command: Sequence[str],
    environment: Mapping[str, str] | None,
    log: Callable[[str], None],
    stopped: Callable[[], bool],
) -> str | None:
    """
    Run ``spark-submit`` to its end.

    :param command: program and arguments
    :param environment: more environment variables
    :param log: takes each line of output
    :param stopped: whether there is no more need for the job; asked twice a second
    :return: the id of the driver that a standalone master accepted; None if the output names none
    :raises SubmissionRejectedError: there is no such program
    :raises SparkSubmitFailedError: it failed, or was stopped, and its output names no driver
    """
    tail: deque[str] = deque(maxlen=_TAIL)
    driver_id: str | None = None
    give_up = math.inf

    def refused() -> bool:
        return driver_id is None and time.monotonic() > give_up

    process = _start(command, {**os.environ, **(environment or {})})
    try:
        for line in _lines(process, lambda: stopped() or refused()):
            if _REFUSAL in line:
                give_up = min(give_up, time.monotonic() + _ACCEPT_SECONDS)
            log(line)
            if not line.startswith(_FRAME):
                tail.append(line)
            if driver_id is None and (found := _DRIVER_ID.search(line)):
                driver_id = found.group()
        stop, refusal = stopped(), refused()
        process.wait()
    finally:
        process.kill()  # does nothing to one that has ended
        process.wait()
    if driver_id is None and process.returncode:
        why = f"failed with exit code {process.returncode}"
        if stop or refusal:
            why = "was stopped" if stop else f"found no master in charge for {_ACCEPT_SECONDS:.0f} s"
        raise SparkSubmitFailedError("\n".join([f"{command[0]} {why}. Its last output:", *tail]))
    return driver_id


def _start(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[str]:
    program = shutil.which(command[0], path=environment.get("PATH"))
    if program is None:
        raise SubmissionRejectedError(
            f"There is no {command[0]!r} on the worker's PATH. Install Spark there (pip install pyspark "
            "brings it), or name another program in spark_binary."
        )
    arguments = [program, *command[1:]]
    if sys.platform == "linux":
        arguments = [sys.executable, "-I", "-S", "-c", _TIED, str(os.getpid()), *arguments]
    return subprocess.Popen(  # noqa: S603 - the command is the author's
        arguments,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def _lines(process: subprocess.Popen[str], stopped: Callable[[], bool]) -> Iterator[str]:
    """Yield the output, line by line; end the process once there is no more need for it."""
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(process.stdout, lines), name="spark-submit", daemon=True).start()
    end = math.inf
    while time.monotonic() < end:
        if end == math.inf and stopped():
            process.kill()
            # It may have had its answer, and said so.
            end = time.monotonic() + _LAST_WORDS_SECONDS
        try:
            line = lines.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            continue
        if line is None:
            return
        yield line


def _read(output: Any, lines: queue.SimpleQueue[str | None]) -> None:
    try:
        for line in output:
            lines.put(line.rstrip())
    finally:
        lines.put(None)
