"""
Child of the import benchmark: what Apache's module takes to import, and then ours, in one fork after another.

As in Airflow's Dag processor, Airflow is imported once, and each measurement has a fork of its own. Ours
imports the module that it extends: what it takes after that one is what it adds. In measurements of the
two wholes, these few milliseconds would vanish in the noise of the hundreds around them.
"""

from __future__ import annotations

import gc
import importlib
import json
import multiprocessing
import sys
import time

import airflow.sdk  # noqa: F401 - there in every process that parses a Dag


def import_seconds(*modules: str) -> list[float]:
    """Import the modules, one after the other, and return the CPU seconds of each."""
    gc.collect()
    times = []
    for module in modules:
        begin = time.process_time()
        importlib.import_module(module)
        times.append(time.process_time() - begin)
    return times


def main(ours: str, theirs: str, rounds: int, *hidden: str) -> None:
    """Print a line ``[theirs, what ours adds]`` for each round; what is hidden counts as not installed."""
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as forks:
        forks.apply(import_seconds, (ours,))  # writes byte code
        for _ in range(rounds):
            sys.stdout.write(json.dumps(forks.apply(import_seconds, (theirs, ours))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *sys.argv[4:])
