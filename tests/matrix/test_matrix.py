"""A sample of the crash matrix; ``make crash-matrix`` runs all of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
COUNTS = ("duplicates", "lost_results", "orphans", "wrong_cancels")


def run(module: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(REPOSITORY / "tests"), str(REPOSITORY)])
    command = [sys.executable, "-m", module, *map(str, arguments)]
    env = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=500, check=False)


def verdicts(side: str, *arguments: str | Path) -> list[dict[str, Any]]:
    done = run("matrix.worker", "databricks-submit", "poke", side, *arguments)
    assert done.returncode == 0, done.stderr[-3000:]
    said = [json.loads(line) for line in done.stdout.splitlines()]
    return [line["verdict"] for line in said if line.get("verdict")]


def test_a_sample_shows_one_job_for_one_intent_and_what_apaches_operator_does(tmp_path: Path) -> None:
    sample = ("--only", "databricks-submit", "--ways", "poke", "--every", "6")
    done = run("matrix", *sample, "--no-real", "--output", tmp_path)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    word, _, said = done.stdout.splitlines()[-1].partition(" ")
    result = json.loads(said)

    assert word == "RESULT"
    assert result["points"] > 30
    assert {name: result[name] for name in COUNTS} == dict.fromkeys(COUNTS, 0)
    assert sum(result["upstream"][name] for name in COUNTS) > 0
    assert "| Databricks SubmitRun | poke |" in (tmp_path / "crash-matrix.md").read_text()
    assert (tmp_path / "crash-matrix.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("broken", "count"),
    [
        # A lost submission is submitted anew instead of being looked for.
        ("run.recover = lambda this: submission.submit(this) or True", "duplicates"),
        # An eviction is taken for a person's click.
        ("stopper.ask_server = lambda ti: stopper.StopReason.PERSON", "wrong_cancels"),
    ],
)
def test_a_broken_mechanism_is_noticed(tmp_path: Path, broken: str, count: str) -> None:
    first = tmp_path / "first.py"
    first.write_text(f"from airflow_provider_durable.resumable import run, stopper, submission\n{broken}\n")
    where = {
        "duplicates": "killed after runs/submit",
        "wrong_cancels": "evicted, a try is left, before runs/get",
    }
    found = verdicts("ours", "--first", first, "--only", where[count])

    assert sum(verdict[count] for verdict in found) > 0


def test_airflows_own_mixin_starts_a_second_job() -> None:
    found = verdicts("upstream", "--only", "killed after runs/submit")

    assert sum(verdict["duplicates"] for verdict in found) > 0
