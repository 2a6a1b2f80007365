"""Settings: ``[tool.airflow-durable.review]`` in pyproject.toml, overridden by the command line."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.review.engine import Selection
from airflow_provider_durable.review.rules import ALL_RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

TABLE = "tool.airflow-durable.review"
_LISTS = ("select", "ignore", "exclude")
_KNOWN = (*_LISTS, "per-file-ignores", "airflow-version")


class ConfigError(ValueError):
    """A setting that cannot be used; the message says where it is and what would do."""


@dataclass(frozen=True)
class Settings:
    """What a run is set to."""

    selection: Selection = field(default_factory=Selection)
    exclude: tuple[str, ...] = ()
    airflow_version: str | None = None


def nearest(paths: Sequence[Path]) -> Path | None:
    """The pyproject.toml that holds for these paths: the first one upwards from the first of them."""
    start = (paths[0] if paths else Path()).resolve()
    for folder in (start, *start.parents):
        candidate = folder / "pyproject.toml"
        if candidate.is_file():
            return candidate
    return None


def load(file: Path | None) -> Settings:
    """The settings in a file.

    :raises ConfigError: when it cannot be read, or holds a setting that does not exist.
    """
    if file is None:
        return Settings()
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{file}: {error}") from error
    table: Any = content
    for part in TABLE.split("."):
        table = table.get(part, {}) if isinstance(table, Mapping) else {}
    if not isinstance(table, Mapping):
        raise ConfigError(f"{file}: [{TABLE}] is not a table")
    return _settings(table, file)


def override(
    settings: Settings, *, select: Iterable[str], ignore: Iterable[str], exclude: Iterable[str]
) -> Settings:
    """The settings with those of the command line: a selection replaces, the rest is added.

    :raises ConfigError: for a code that no rule has.
    """
    chosen, ignored = codes(select, "--select"), codes(ignore, "--ignore")
    selection = Selection(
        chosen or settings.selection.select,
        settings.selection.ignore + ignored,
        settings.selection.per_file_ignores,
    )
    return Settings(selection, settings.exclude + tuple(exclude), settings.airflow_version)


def codes(given: Iterable[str], where: str) -> tuple[str, ...]:
    """Codes and prefixes, from comma-separated texts.

    :raises ConfigError: for one that no rule's code begins with.
    """
    found = tuple(code.strip().upper() for text in given for code in text.split(",") if code.strip())
    for code in found:
        if code != "ALL" and not any(known.startswith(code) for known in ALL_RULES):
            raise ConfigError(f"{where}: no rule has the code or prefix {code!r}")
    return found


def _settings(table: Mapping[str, Any], file: Path) -> Settings:
    where = f"{file} [{TABLE}]"
    for key in table:
        if key not in _KNOWN:
            raise ConfigError(f"{where}: unknown setting {key!r}; there are {', '.join(_KNOWN)}")
    lists = {key: _strings(table.get(key, []), f"{where} {key}") for key in _LISTS}
    version = table.get("airflow-version")
    if version is not None and not isinstance(version, str):
        raise ConfigError(f"{where} airflow-version: expected a string like '3.3.0'")
    per_file = table.get("per-file-ignores", {})
    if not isinstance(per_file, Mapping):
        raise ConfigError(f"{where} per-file-ignores: expected a table of pattern = [codes]")
    selection = Selection(
        codes(lists["select"], f"{where} select") or Selection().select,
        codes(lists["ignore"], f"{where} ignore"),
        tuple(
            (pattern, codes(_strings(value, f"{where} per-file-ignores"), f"{where} per-file-ignores"))
            for pattern, value in per_file.items()
        ),
    )
    return Settings(selection, tuple(lists["exclude"]), version)


def _strings(value: Any, where: str) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f"{where}: expected a list of strings")
    return value
