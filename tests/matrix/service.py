"""What the matrix has to know of a service: its jobs, and what a request is about.

A job ends when it has been looked at often enough, so one that nobody looks at runs on for ever: what is
still running in the end has nobody waiting for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matrix.kinds import Side, Way
    from matrix.wire import Wire

#: So often a job is seen running before it ends.
LOOKS = 3


@dataclass(frozen=True)
class Job:
    """One job as the service has it."""

    id: Any
    running: bool
    succeeded: bool
    cancelled: bool


class Service(ABC):
    """
    One service, and the operators on it.

    :param folder: where it may keep things
    """

    #: Whether the service can tell which submission a job came from.
    can_recover = True
    #: Whether ``durable=False`` can be run here.
    can_be_not_durable = True
    #: The operator's key in the task state store, ours and upstream's.
    key: str

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.looks: dict[Any, int] = {}
        #: Whether jobs end by being looked at, and how.
        self.ends: Literal["success", "failure", "never"] = "success"

    # -- the service ---------------------------------------------------------------------------

    @abstractmethod
    def start(self) -> None:
        """Start it, and point Airflow's connections at it."""

    def attach(self, wire: Wire) -> None:  # noqa: B027 - most have nothing to add
        """Take hold of other ways out of the process than HTTP."""

    @abstractmethod
    def stop(self) -> None:
        """End it."""

    def reset(self, name: str) -> None:
        """
        Forget all jobs.

        :param name: the cell's name; Airflow's run has it, too
        """
        self.looks, self.ends = {}, "success"

    @abstractmethod
    def jobs(self) -> list[Job]:
        """All jobs ever started for this cell, in order."""

    @abstractmethod
    def end(self, job_id: Any, *, success: bool) -> None:
        """End a job that runs; nothing if it has ended."""

    def look(self, job_id: Any) -> None:
        """Somebody has asked for the job's state, and has got it."""
        self.looks[job_id] = self.looks.get(job_id, 0) + 1
        if self.looks[job_id] >= LOOKS and self.ends != "never":
            self.end(job_id, success=self.ends == "success")

    # -- its requests --------------------------------------------------------------------------

    @abstractmethod
    def serves(self, host: str, port: int | None) -> bool:
        """Whether a request to this address is one to the service."""

    def headers(self) -> Mapping[str, str]:
        """What requests carry beside what their senders give them."""
        return {}

    @abstractmethod
    def operation(self, method: str, url: str, body: Any) -> str:
        """The name of the operation that a request asks for."""

    @abstractmethod
    def looked_at(self, method: str, url: str, body: Any) -> list[Any]:
        """The jobs whose state a request asks for."""

    @abstractmethod
    def error(self, status: int) -> tuple[bytes, dict[str, str]]:
        """Body and headers of an answer that is an error of the service."""

    # -- its operators -------------------------------------------------------------------------

    @abstractmethod
    def operator(self, side: Side, way: Way) -> Callable[..., Any] | None:
        """
        Return what makes the operator from a task's parameters; None where it cannot wait so.

        :param side: this package's operator or Apache's
        :param way: how it waits
        """
