"""What importing the package costs, and what Airflow is told about it. Runs on every supported Airflow."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import airflow_provider_durable

CLOUD = ("boto3", "botocore", "google.cloud", "databricks", "pyspark", "pandas", "numpy", "kubernetes")
PROVIDERS = tuple(
    f"airflow.providers.{name}" for name in ("amazon", "apache", "cncf", "databricks", "google")
)


def modules_after(statement: str) -> set[str]:
    """Names of all modules that a fresh interpreter has loaded after ``statement``."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


def among(modules: set[str], packages: tuple[str, ...]) -> list[str]:
    below = tuple(f"{package}." for package in packages)
    return sorted(name for name in modules if name in packages or name.startswith(below))


def test_importing_the_package_loads_nothing_heavy() -> None:
    # A bare interpreter is not empty: installed packages may load parts of themselves at its start.
    modules = modules_after("import airflow_provider_durable.get_provider_info as p; p.get_provider_info()")
    ours = modules - modules_after("")

    assert among(ours, ("airflow", "pydantic", "rich", "structlog", *CLOUD)) == []


def test_the_mixin_imports_no_cloud_library_and_no_provider() -> None:
    # Airflow loads parts of the providers that it finds by itself; compat imports Airflow and nothing else.
    modules = modules_after("from airflow_provider_durable import ResumableJobMixin")
    ours = modules - modules_after("import airflow_provider_durable.resumable.compat")

    assert among(ours, (*CLOUD, *PROVIDERS)) == []


@pytest.mark.parametrize("operators", ["batch", "bigquery", "databricks", "spark"])
def test_parsing_a_dag_imports_nothing_that_only_a_running_task_needs(operators: str) -> None:
    modules = modules_after(f"import airflow_provider_durable.operators.{operators}")
    running = (
        "resumable.run",
        "resumable.settings",
        "resumable.submission",
        "services.spark_cluster",
        "services.spark_connection",
        "services.spark_submit",
        "triggers",
    )

    assert among(modules, tuple(f"airflow_provider_durable.{name}" for name in running)) == []


@pytest.mark.parametrize("name", airflow_provider_durable.__all__)
def test_each_public_name_is_found_and_listed(name: str) -> None:
    assert getattr(airflow_provider_durable, name) is not None
    assert name in dir(airflow_provider_durable)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"airflow_provider_durable.*'Resumable'"):
        airflow_provider_durable.Resumable  # noqa: B018


def test_provider_info_is_what_this_airflow_expects() -> None:
    import airflow
    from jsonschema import validate

    (entry_point,) = [
        each for each in entry_points(group="apache_airflow_provider") if "durable" in each.value
    ]
    info = entry_point.load()()

    validate(info, json.loads((Path(airflow.__file__).parent / "provider_info.schema.json").read_text()))
    assert info["package-name"] == "airflow-provider-durable"


def test_every_command_that_provider_info_names_exists() -> None:
    from airflow_provider_durable.get_provider_info import get_provider_info

    for path in get_provider_info()["cli"]:
        module, _, function = path.rpartition(".")
        assert callable(getattr(importlib.import_module(module), function))
