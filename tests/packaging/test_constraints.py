"""The pinned sets hold what pyproject.toml declares, and nothing of the machine they were made on."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

REPOSITORY = Path(__file__).parents[2]
PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
FILES = sorted((REPOSITORY / "constraints").glob("*.txt"))
LOWEST = sorted((REPOSITORY / "constraints").glob("airflow-*-lowest.txt"))


def pins(file: Path) -> dict[str, str]:
    requirements = [Requirement(line) for line in file.read_text().splitlines() if not line.startswith("#")]
    return {each.name: str(each.specifier) for each in requirements}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_pinned_set_holds_names_and_versions_only(file: Path) -> None:
    pin = re.compile(r"[a-z0-9-]+==[^\s;@]+( ; [^@#]+)?")
    odd = [
        line for line in file.read_text().splitlines() if not line.startswith("#") and not pin.fullmatch(line)
    ]

    assert odd == []


@pytest.mark.parametrize("file", LOWEST, ids=lambda file: file.name)
@pytest.mark.parametrize("extra", ["amazon", "databricks", "google", "spark"])
def test_the_floor_that_is_declared_is_the_version_that_is_tested(extra: str, file: Path) -> None:
    (floor,) = (Requirement(each) for each in PROJECT["optional-dependencies"][extra])

    assert str(floor.specifier).replace(">=", "==") == pins(file)[floor.name]


def test_the_oldest_airflow_that_is_declared_is_tested() -> None:
    (airflow,) = (each for each in map(Requirement, PROJECT["dependencies"]) if each.name == "apache-airflow")
    tested = {pins(file)["apache-airflow"].removeprefix("==") for file in FILES if "airflow-" in file.name}

    assert min(each.version for each in airflow.specifier if each.operator == ">=") in tested
    assert all(version in airflow.specifier for version in tested)
    assert not airflow.specifier.contains("3.0.6")


def test_the_extra_all_is_all_extras() -> None:
    (everything,) = (Requirement(each) for each in PROJECT["optional-dependencies"]["all"])

    assert everything.extras == set(PROJECT["optional-dependencies"]) - {"all"}
