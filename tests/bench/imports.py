"""How long it takes to import an operator's module, against the module that it extends."""

from __future__ import annotations

import json
import os
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
#: Left out of Apache's module if it is there: an optional part that takes ten times as long as all the rest,
#: beside which nothing of ours would be seen.
HIDDEN = {"spark": ["kubernetes", "airflow.providers.cncf.kubernetes.kube_client"]}
#: Ours may take so much longer.
TARGET = 1.05
ROUNDS = 15

ROOT = Path(__file__).parents[2]


def measure(folder: Path, progress: Callable[[str, float], None]) -> dict[str, tuple[float, float]]:
    """
    Return the CPU seconds that ours and Apache's take, medians, by name of the module.

    Byte code comes from a folder of this measurement's own: what happens to be compiled elsewhere, and
    whether this environment may write it, are not to decide.

    :param folder: for byte code
    :param progress: is told what happens, and which part of it is done
    """
    operators = ROOT / "airflow_provider_durable" / "operators"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(folder)
    results = {}
    for name, apache in MODULES.items():
        if not (operators / f"{name}.py").exists():
            continue
        ours = f"airflow_provider_durable.operators.{name}"
        command = [
            sys.executable,
            "-m",
            "bench.import_times",
            ours,
            apache,
            str(ROUNDS),
            *HIDDEN.get(name, []),
        ]
        rounds: list[list[float]] = []
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                rounds.append(json.loads(line))
                progress(f"importing {name}", len(rounds) / ROUNDS)
        if len(rounds) != ROUNDS:
            raise RuntimeError(f"{' '.join(command)} ended with exit status {child.returncode}")
        theirs, added = (median(column) for column in zip(*rounds, strict=True))
        results[name] = (theirs + added, theirs)
    return results


def missed(results: dict[str, tuple[float, float]]) -> list[str]:
    """Return the targets that are not reached, as sentences."""
    return [
        f"import {name}: {ours:.3f} s, Apache's {theirs:.3f} s: {ours / theirs:.3f} times, at most {TARGET}"
        for name, (ours, theirs) in results.items()
        if ours / theirs > TARGET
    ]
