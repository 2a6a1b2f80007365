"""How long it takes to import an operator's module, against the module that it extends."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import median

#: Ours, and Apache's.
MODULES = {
    "batch": "airflow.providers.amazon.aws.operators.batch",
    "databricks": "airflow.providers.databricks.operators.databricks",
    "bigquery": "airflow.providers.google.cloud.operators.bigquery",
    "spark": "airflow.providers.apache.spark.operators.spark_submit",
}
#: Ours may take so much longer.
TARGET = 1.05
ROUNDS = 5

#: The SDK is there in every process that parses a Dag. CPU time: others may be busy on this machine.
CODE = (
    "import sys, time, airflow.sdk; begin = time.process_time(); __import__(sys.argv[1]); "
    "print('SECONDS', time.process_time() - begin)"
)
ROOT = Path(__file__).parents[2]


def seconds(module: str) -> float:
    """Return how long a fresh interpreter takes to import ``module``."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, module], capture_output=True, text=True, check=True, cwd=ROOT
    )
    return float(done.stdout.rpartition("SECONDS")[2])


def measure(progress: Callable[[str, float], None]) -> dict[str, tuple[float, float]]:
    """
    Return the seconds that ours and Apache's take, medians, by name of the module.

    The two take turns, so that neither has the quieter machine.
    """
    operators = ROOT / "airflow_provider_durable" / "operators"
    results = {}
    for name, apache in MODULES.items():
        if not (operators / f"{name}.py").exists():
            continue
        pair = (f"airflow_provider_durable.operators.{name}", apache)
        times: tuple[list[float], list[float]] = ([], [])
        for module in pair:
            seconds(module)  # writes byte code
        for number in range(ROUNDS):
            progress(f"importing {name}", number / ROUNDS)
            for side in (0, 1) if number % 2 else (1, 0):
                times[side].append(seconds(pair[side]))
        results[name] = (median(times[0]), median(times[1]))
    return results


def missed(results: dict[str, tuple[float, float]]) -> list[str]:
    """Return the targets that are not reached, as sentences."""
    return [
        f"import {name}: {ours:.3f} s, Apache's {theirs:.3f} s: {ours / theirs:.3f} times, at most {TARGET}"
        for name, (ours, theirs) in results.items()
        if ours / theirs > TARGET
    ]
