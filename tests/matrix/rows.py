"""
The rows of the matrix: each operator, each way of waiting, this package's side and Apache's.

A new service is a module beside ``batch`` that has ``SERVICES``, and a line here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from matrix.kinds import WAYS, Side, Way

if TYPE_CHECKING:
    from matrix.service import Service

REPOSITORY = Path(__file__).parents[2]
#: Where aiobotocore is, which Apache's deferrable BatchOperator needs.
WITH_AIOBOTOCORE = REPOSITORY / ".venvs" / "bench" / "bin" / "python"


@dataclass(frozen=True)
class Kind:
    """
    One operator on its service.

    :param module: the module beside this one
    :param title: what people call it
    :param standin: what stands in for the service
    :param upstream: how Apache's operator can wait
    """

    module: str
    title: str
    standin: str
    upstream: tuple[Way, ...] = ("poke", "defer")


_MOTO = "moto, as a server of its own (`tests/harness/batch_standin.py`)"
_JOBS_API = (
    "`tests/unit/databricks/jobs_api.py` behind HTTP: minilake answers nothing else while it runs a query"
)
_BIGQUERY = "`tests/unit/bigquery/jobs_api.py` behind HTTP: crucible needs a second or more for each job"

_SUBMIT = "`spark-submit` without a JVM, which sends what the real one sends to"

KINDS: dict[str, Kind] = {
    "batch": Kind("batch", "AWS Batch", _MOTO),
    "databricks-submit": Kind("databricks", "Databricks SubmitRun", _JOBS_API),
    "databricks-run-now": Kind("databricks", "Databricks RunNow", _JOBS_API),
    "bigquery": Kind("bigquery", "BigQuery", _BIGQUERY),
    "spark-standalone": Kind("spark", "Spark standalone", f"{_SUBMIT} a master's books in memory", ("poke",)),
    "spark-yarn": Kind("spark", "Spark YARN", f"{_SUBMIT} `tests/harness/yarn_standin.py`", ("poke",)),
    "spark-kubernetes": Kind(
        "spark", "Spark Kubernetes", f"{_SUBMIT} `tests/harness/kubernetes_standin.py`", ("poke",)
    ),
}

Key = tuple[str, Way, Side]
ROWS: tuple[Key, ...] = tuple(
    (name, way, side)
    for name, kind in KINDS.items()
    for way in WAYS
    for side in ("ours", "upstream")
    if side == "ours" or way in kind.upstream
)


def service_of(name: str) -> Callable[[Path], Service]:
    """Return the class of the service of this name."""
    found: Callable[[Path], Service] = import_module(f"matrix.{KINDS[name].module}").SERVICES[name]
    return found


def python_for(row: Key) -> str:
    """Return the Python that a row needs."""
    return str(WITH_AIOBOTOCORE) if row == ("batch", "defer", "upstream") else sys.executable
