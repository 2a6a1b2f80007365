"""The built wheel in a clean environment with Airflow alone: what somebody gets who installs no extra."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from dataclasses import dataclass
from email.message import Message
from email.parser import Parser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import airflow_provider_durable

REPOSITORY = Path(__file__).parents[2]
CONSTRAINTS = REPOSITORY / "constraints" / "airflow-3.3.txt"
EXTRA_OF_OPERATOR = {
    "batch": "amazon",
    "bigquery": "google",
    "databricks": "databricks",
    "spark": "spark",
}

# One environment and one build for the whole file.
pytestmark = pytest.mark.xdist_group("wheel")


def uv(*arguments: object) -> None:
    command = [sys.executable, "-m", "uv", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, and the wheel built from it rather than from the work tree."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", folder, REPOSITORY)
    return folder


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    (wheel,) = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(name).decode())


@dataclass(frozen=True)
class CleanEnvironment:
    """An environment in which nothing but Airflow and the wheel was asked for."""

    bin: Path
    home: Path

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "AIRFLOW_HOME": str(self.home)}
        env.pop("PYTHONPATH", None)
        return subprocess.run(
            [self.bin / command[0], *command[1:]],
            cwd=self.home,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            # Some 10 s on an idle machine.
            timeout=300,
        )


@pytest.fixture(scope="module")
def clean(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> CleanEnvironment:
    venv, home = tmp_path_factory.mktemp("clean") / "venv", tmp_path_factory.mktemp("home")
    uv("venv", "--quiet", "--python", sys.executable, venv)
    uv("pip", "install", "--quiet", "--python", venv / "bin" / "python", "--constraint", CONSTRAINTS, wheel)
    return CleanEnvironment(venv / "bin", home)


def test_the_package_is_imported(clean: CleanEnvironment) -> None:
    done = clean.run(
        "python", "-c", "import airflow_provider_durable as d; print(d.ResumableJobMixin.__module__)"
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("airflow_provider_durable.resumable")


def test_airflow_lists_it_as_a_provider(clean: CleanEnvironment) -> None:
    done = clean.run("airflow", "providers", "list", "--output", "json")

    listed = {each["package_name"]: each["version"] for each in json.loads(done.stdout)}
    assert listed["airflow-provider-durable"] == airflow_provider_durable.__version__


def test_a_missing_extra_is_named(clean: CleanEnvironment, wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        operators = [
            Path(name).stem
            for name in archive.namelist()
            if name.startswith("airflow_provider_durable/operators/") and "/_" not in name
        ]
    assert operators

    code = f"""
import importlib
for operator in {operators}:
    try:
        importlib.import_module("airflow_provider_durable.operators." + operator)
    except ImportError as error:
        print("RESULT", operator, error)
"""
    done = clean.run("python", "-c", code)

    said = dict(line.split(" ", 2)[1:] for line in done.stdout.splitlines() if line.startswith("RESULT"))
    assert sorted(said) == sorted(operators), done.stderr
    for operator, error in said.items():
        assert f"airflow-provider-durable[{EXTRA_OF_OPERATOR[operator]}]" in error


@pytest.mark.parametrize("command", [("airflow-durable",), ("airflow", "durable")], ids="-".join)
def test_the_review_command_is_there(clean: CleanEnvironment, command: tuple[str, ...]) -> None:
    done = clean.run(*command, "review", "--help")

    assert done.returncode == 0, done.stderr
    assert "--airflow-version" in done.stdout


def test_the_wheel_holds_the_package_its_types_and_its_licence_only(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())

    info = f"airflow_provider_durable-{airflow_provider_durable.__version__}.dist-info"
    assert "airflow_provider_durable/py.typed" in names
    assert f"{info}/licenses/LICENSE" in names
    assert {name.split("/")[0] for name in names} == {"airflow_provider_durable", info}
    assert not [name for name in names if name.endswith(".pyc")]


def test_the_source_archive_holds_what_its_tests_need(dist: Path) -> None:
    (archive,) = dist.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}

    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "tests/conftest.py"} <= names
    assert {f"constraints/{file.name}" for file in CONSTRAINTS.parent.glob("*.txt")} <= names
    assert {str(file.relative_to(REPOSITORY)) for file in REPOSITORY.glob("docs/**/*.md")} <= names
    assert ".pre-commit-hooks.yaml" in names
    assert not [name for name in names if name.startswith((".venv", ".demo", "dist"))]


def test_without_an_extra_no_cloud_library_is_asked_for(metadata: Message) -> None:
    requirements = [Requirement(each) for each in metadata.get_all("Requires-Dist", [])]
    bare = {each.name for each in requirements if each.marker is None or "extra" not in str(each.marker)}

    assert bare == {"apache-airflow", "packaging", "rich", "tomli"}
    extras = {"all", "amazon", "databricks", "google", "spark", "spark-kubernetes"}
    assert set(metadata.get_all("Provides-Extra", [])) == extras


def test_two_builds_are_the_same(dist: Path, tmp_path: Path) -> None:
    """The wheel of a copy of the source archive is the wheel: nothing of the machine is in it."""
    (archive,) = dist.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "source", filter="data")
    (source,) = (tmp_path / "source").iterdir()
    uv("build", "--quiet", "--wheel", "--out-dir", tmp_path / "dist", source)

    (ours,), (theirs,) = dist.glob("*.whl"), (tmp_path / "dist").glob("*.whl")
    assert ours.read_bytes() == theirs.read_bytes()
