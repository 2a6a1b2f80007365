"""Running ``spark-submit``: what its output says, and when it ends."""

from __future__ import annotations

import sys
import textwrap
import time
from typing import TYPE_CHECKING

from airflow_provider_durable.services import spark_submit

if TYPE_CHECKING:
    from pathlib import Path

DRIVER = "driver-20261130120000-0001"


def test_a_driver_that_was_named_before_the_stop_is_known(tmp_path: Path) -> None:
    named = tmp_path / "named"
    child = f"""
        import pathlib, time
        print("INFO Submission successfully created as {DRIVER}. Polling", flush=True)
        pathlib.Path({str(named)!r}).touch()
        time.sleep(600)
    """

    def stopped() -> bool:
        # The stop comes after the child has spoken, and before anybody has listened.
        while not named.exists():
            time.sleep(0.01)
        return True

    began = time.monotonic()
    found = spark_submit.run(
        [sys.executable, "-c", textwrap.dedent(child)],
        environment=None,
        log=lambda line: None,
        stopped=stopped,
    )
    assert found == DRIVER
    assert time.monotonic() - began < 60
