"""One row of the matrix in a process of its own: an Airflow, a service, one case after the other.

Prints one JSON object a line: the number of cases, then each verdict.
"""

from __future__ import annotations

import argparse
import gc
import json
import logging
import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    """Run a row."""
    parser = argparse.ArgumentParser()
    parser.add_argument("service")
    parser.add_argument("way")
    parser.add_argument("side")
    parser.add_argument("--every", type=int, default=1, help="run every n-th case only")
    parser.add_argument("--only", default="", help="run the cases whose names contain this")
    parser.add_argument(
        "--points", action="store_true", help="print the calls of an undisturbed run, and end"
    )
    parser.add_argument(
        "--first", type=Path, help="a Python file to run first, to see whether a break is noticed"
    )
    options = parser.parse_args()
    memory = Path("/dev/shm")
    home = Path(tempfile.mkdtemp(prefix="durable-matrix-", dir=memory if memory.is_dir() else None))
    out = os.fdopen(os.dup(1), "w")
    if "MATRIX_LOG" not in os.environ:
        # Nobody reads the logs of thousands of tasks that die.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    try:
        run_row(home, options, out)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def run_row(home: Path, options: argparse.Namespace, out: Any) -> None:
    """Start what the row needs, and run its cases."""
    from matrix.airflow import Airflow, prepare_environment
    from matrix.clock import Clock
    from matrix.wire import Wire

    prepare_environment(home)
    wire = Wire()
    clock = Clock(wire.sleeping)
    logging.disable(logging.CRITICAL)
    from matrix.rows import service_of

    service = service_of(options.service)(home)
    service.start()
    try:
        airflow = Airflow(wire, clock)
        wire.install()
        service.attach(wire)
        from matrix.cases import all_cases, observe
        from matrix.cell import Row

        row = Row(
            f"{options.service}-{options.way}-{options.side}",
            service,
            options.way,
            options.side,
            airflow,
            wire,
        )

        def say(**fields: Any) -> None:
            print(json.dumps(fields, default=repr), file=out, flush=True)

        if options.first:
            runpy.run_path(str(options.first))
        points = observe(row)
        if options.points:
            for point in points:
                say(point=vars(point))
            return
        gc.freeze()
        # Requests to Airflow's API server go from thread to thread, all of them in this process.
        sys.setswitchinterval(0.0002)
        cases = [case for case in all_cases(row, points) if options.only in case.name][:: options.every]
        say(cases=len(cases))
        over: set[str] = set()
        for case in cases:
            verdict = None if case.chain in over else row.run(case)
            if verdict is None and case.chain:
                over.add(case.chain)
            say(verdict=verdict.to_json() if verdict else None)
    finally:
        service.stop()


if __name__ == "__main__":
    sys.exit(main())
