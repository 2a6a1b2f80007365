"""Write docs/images/task-state-store.png: Airflow's UI with what a durable task has stored.

    python -m demo.screenshot FOLDER

The demo's Airflow and job, looked at by headless Chromium (Debian's packages chromium and chromium-driver).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from demo.__main__ import DAG_ID, ID_KEY, JOB_DEFINITION, TASK_ID, start_services
from demo.screen import Screen
from harness.airflow_server import REPOSITORY
from harness.batch_service import QUEUE
from harness.processes import wait_until
from harness.venvs import python_of

PICTURE = REPOSITORY / "docs" / "images" / "task-state-store.png"


def main(folder: Path) -> int:
    """Start a job, and take the picture while it runs."""
    if not all(map(shutil.which, ("chromium", "chromedriver"))):
        print("Missing: chromium, chromium-driver (Debian's names). Install them first.", file=sys.stderr)
        return 1
    screen = Screen()
    with ExitStack() as stack:
        airflow, batch = start_services(screen, folder, stack)
        with screen.step(f"Run example_dags/{DAG_ID}.py") as step:
            airflow.client.add_dag(DAG_ID, REPOSITORY / "example_dags" / f"{DAG_ID}.py")
            run = airflow.client.trigger(DAG_ID, {"queue": QUEUE, "definition": JOB_DEFINITION})
            step.result = run.run_id
        with screen.step("Wait for its job") as step:
            batch.wait_running(JOB_DEFINITION)
            job_id = wait_until(lambda: run.task(TASK_ID).store().get(ID_KEY), "the job's id is stored")
            step.result = job_id
        with screen.step("Take the picture") as step:
            url = f"{airflow.url}/dags/{DAG_ID}/runs/{run.run_id}/tasks/{TASK_ID}/task-state-store"
            script = str(Path(__file__).with_name("browser.py"))
            subprocess.run([python_of("browser"), script, url, job_id, str(PICTURE)], check=True)
            step.result = f"{PICTURE.relative_to(REPOSITORY)}, {PICTURE.stat().st_size // 1000} kB"
    shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
