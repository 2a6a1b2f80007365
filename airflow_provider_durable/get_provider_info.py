"""What Airflow is told about this provider package through the ``apache_airflow_provider`` entry point."""

from __future__ import annotations

from typing import Any

from airflow_provider_durable import __version__


def get_provider_info() -> dict[str, Any]:
    """Return the provider's metadata in the form of Airflow's ``provider_info.schema.json``."""
    return {
        "package-name": "airflow-provider-durable",
        "name": "Durable",
        "description": "Operators that reconnect to the job they started, instead of starting it twice.",
        "versions": [__version__],
        # `airflow durable review`, from Airflow 3.2 on; below, Airflow ignores the key.
        "cli": ["airflow_provider_durable.review.airflow_command.get_airflow_cli_commands"],
    }
