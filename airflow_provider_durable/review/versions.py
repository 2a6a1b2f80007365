"""The Airflow version that advice is given for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import metadata

from packaging.version import InvalidVersion, Version

STORES_SINCE = Version("3.3.0")


@dataclass(frozen=True)
class Target:
    """An Airflow version, and what it has."""

    version: Version
    assumed: bool = False

    @property
    def has_stores(self) -> bool:
        """Whether it has task_state_store, asset_state_store and a ResumableJobMixin that reconnects."""
        # A pre-release of 3.3 has them as well.
        return self.version.release >= STORES_SINCE.release[:2]

    @property
    def has_sdk(self) -> bool:
        """Whether Dag authors import from ``airflow.sdk``."""
        return self.version.major >= 3

    def __str__(self) -> str:
        return f"Airflow {self.version}"


def target(text: str | None) -> Target:
    """The version asked for, else the installed one, else the first one with the stores.

    :raises ValueError: when the text is no version.
    """
    if text:
        try:
            return Target(Version(text))
        except InvalidVersion as error:
            raise ValueError(f"not an Airflow version: {text!r}") from error
    installed = _installed("apache-airflow-core") or _installed("apache-airflow")
    return Target(installed) if installed else Target(STORES_SINCE, assumed=True)


def _installed(distribution: str) -> Version | None:
    try:
        return Version(metadata.version(distribution))
    except (metadata.PackageNotFoundError, InvalidVersion):
        return None
