"""
What the three kinds of Spark cluster have in common.

A module of its own, because only a running task needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from airflow_provider_durable.services.spark import NOT_FOUND


class SparkCluster(ABC):
    """
    One cluster, as a submission, a status request and a cancellation need it.

    Its methods block. An error of the network or of the service is raised as it comes: it says nothing
    about the job.
    """

    #: What the cluster calls a job.
    noun: ClassVar[str]
    #: The property that has ``spark-submit`` wait for the end of the job, beside us.
    wait_property: ClassVar[str]

    def check(self, conf: Mapping[str, Any]) -> None:
        """
        Check a job's Spark properties before it is submitted.

        :raises ValueError: one of them fights what a durable job needs
        """
        if str(conf.get(self.wait_property, "")).strip().lower() == "true":
            raise ValueError(
                f"conf: {self.wait_property}=true keeps spark-submit beside the job, whose id is then stored "
                "too late. Leave it out, or write durable=False."
            )

    @abstractmethod
    def properties(self, conf: Mapping[str, Any], token: str) -> dict[str, str]:
        """Return the properties that have ``spark-submit`` return at once, and that carry the token."""

    @abstractmethod
    def find(self, token: str) -> str | None:
        """
        Return the external id of the job that a submission with ``token`` started, or None.

        :raises RecoveryUnavailableError: this kind of cluster cannot tell
        """

    def status(self, external_id: str) -> str:
        """Return the job's status; ``NOT_FOUND`` if the cluster does not know the job (any more)."""
        return self._status(external_id)

    @abstractmethod
    def cancel(self, external_id: str) -> None:
        """Stop the job; safe to call twice, and for a job that has ended."""

    @abstractmethod
    def explain(self, external_id: str) -> str:
        """Return what the cluster says of a job that failed; empty if it says nothing."""

    def statuses(self, external_ids: Sequence[str]) -> dict[str, str]:
        """
        Return the statuses of many jobs; one that the cluster does not know is left out.

        One list answers for most of them; a job that is not in it is asked for by itself.
        """
        known = self._listed(external_ids) if len(external_ids) > 1 else {}
        found = {one: known.get(one) or self._status(one) for one in external_ids}
        return {one: status for one, status in found.items() if status != NOT_FOUND}

    @abstractmethod
    def _listed(self, external_ids: Sequence[str]) -> Mapping[str, str]:
        """Return what one request says of many jobs, whichever these are."""

    @abstractmethod
    def _status(self, external_id: str) -> str:
        """Return what the cluster says of one job at this moment."""
