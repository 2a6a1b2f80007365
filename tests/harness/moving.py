"""A Dag file that imports Apache's operators instead of ours, and is moved to the other while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from harness.airflow_client import AirflowClient
from harness.processes import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from harness.case import ServiceCase

Package = Literal["apache", "ours"]
#: The import line is all that changes: from this package, and from Apache's provider package.
MODULES = {
    "airflow_provider_durable.operators.batch": "airflow.providers.amazon.aws.operators.batch",
    "airflow_provider_durable.operators.bigquery": "airflow.providers.google.cloud.operators.bigquery",
    "airflow_provider_durable.operators.databricks": "airflow.providers.databricks.operators.databricks",
    "airflow_provider_durable.operators.spark": "airflow.providers.apache.spark.operators.spark_submit",
}


class ApacheClient(AirflowClient):
    """Adds Dags that import Apache's operators."""

    @classmethod
    def of(cls, client: AirflowClient) -> ApacheClient:
        """The same Airflow, for cases that are to begin with Apache's operators."""
        return cls(client.url, client.home)

    def add_dag(self, dag_id: str, source: str | Path, **options: float) -> str:
        """See AirflowClient."""
        assert isinstance(source, str)
        return super().add_dag(dag_id, imported_from("apache", source), **options)


def imported_from(package: Package, source: str) -> str:
    """Return a Dag file with its import line changed to this package's."""
    for ours, apaches in MODULES.items():
        old, new = (ours, apaches) if package == "apache" else (apaches, ours)
        source = source.replace(f"from {old} import", f"from {new} import")
    return source


def move(case: ServiceCase[object], to: Package) -> None:
    """Change the import line of a case's Dag file, and wait until Airflow knows of the change."""
    file = case.client.home / "dags" / f"{case.name}.py"
    before = _versions(case)
    source = file.read_text()
    moved = imported_from(to, source)
    assert moved != source
    AirflowClient.add_dag(case.client, case.name, moved)
    wait_until(lambda: _versions(case) > before, "the Dag has a new version", 240, 0.3)


def _versions(case: ServiceCase[object]) -> int:
    return int(case.client.api("GET", f"dags/{case.name}/dagVersions")["total_entries"])
