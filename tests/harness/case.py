"""What all cases share: a Dag of one task on a running Airflow, its run, and waiting for what becomes of it.

Each service's case (batch_case.py and its neighbours) says what the Dag looks like and what was started.
"""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Generic, TypeVar

from harness.airflow_client import WAIT_SECONDS
from harness.processes import WaitTimeout, wait_until

if TYPE_CHECKING:
    from harness.airflow_client import AirflowClient, Run, Task

T = TypeVar("T")
Job = TypeVar("Job")
#: Of every case's Dag: the task whose fate the test decides.
TASK_ID = "job"


class ServiceCase(Generic[Job]):
    """A Dag of one task, ``job``, on a running Airflow."""

    client: AirflowClient
    name: str
    run: Run | None

    @abstractmethod
    def started(self) -> list[Job]:
        """All that the service ever accepted for this case."""

    def submitted(self, count: int = 1) -> list[Job]:
        """Wait until the service has accepted ``count``; at once an error when the Dag run ends before."""
        return self.wait(
            lambda: found if len(found := self.started()) >= count else None, f"{count} submitted"
        )

    def wait(self, condition: Callable[[], T | None], what: str, timeout: float = WAIT_SECONDS) -> T:
        """Wait for a condition; at once an error, with the task's log, when the Dag run ends before."""
        run = self.run
        assert run is not None

        def check() -> T | None:
            ended = run.state() in ("success", "failed")
            value = condition()
            if not value and ended:
                raise WaitTimeout(f"the run ended before: {describe()}")
            return value

        def describe() -> str:
            return f"{what}\nstarted {self.started()}\n{run.describe()}"

        return wait_until(check, describe, timeout, 0.3)

    def _start_dag(self, source: str) -> Task:
        """Add the Dag file, trigger a run, and return its task."""
        self.client.add_dag(self.name, source)
        self.run = self.client.trigger(self.name)
        return self.run.task(TASK_ID)


class Code(str):
    """An argument that is Python code in the Dag file rather than a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def unique(name: str, length: int = 60) -> str:
    """A name of its own: so much of ``name``, and some letters."""
    return f"{name[:length]}-{secrets.token_hex(3)}"


def written(arguments: Mapping[str, object]) -> str:
    """Keyword arguments as Python code."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
