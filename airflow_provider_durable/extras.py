"""Saying which extra to install when an operator's provider package is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

#: The provider package, and the modules whose absence means that it is not installed.
_EXTRAS = {
    "amazon": ("apache-airflow-providers-amazon", ("airflow.providers.amazon", "boto3", "botocore")),
    "databricks": ("apache-airflow-providers-databricks", ("airflow.providers.databricks",)),
    "google": ("apache-airflow-providers-google", ("airflow.providers.google", "google")),
    "spark": ("apache-airflow-providers-apache-spark", ("airflow.providers.apache",)),
}


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """
    Import a provider's modules inside; a missing one becomes an error that names the extra.

    :param extra: the extra of this package: ``amazon``, ``databricks``, ``google`` or ``spark``
    :raises ImportError: the provider is not installed
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package, modules = _EXTRAS[extra]
        missing = error.name or ""
        if not any(missing == module or missing.startswith(f"{module}.") for module in modules):
            raise
        raise ImportError(
            f"This operator needs {package}, which is not installed ({error}). "
            f"Install it with: pip install 'airflow-provider-durable[{extra}]'",
            name=missing,
        ) from error
