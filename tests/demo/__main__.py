"""Kill a worker in mid-job on real Airflow, and count the jobs.

    python -m demo FOLDER [--keep]

Airflow, its SQLite database and AWS Batch's stand-in live in FOLDER, as processes on loopback. They end with
this process however it ends; FOLDER is removed unless something went wrong, when its logs tell what.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import threading
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from filelock import FileLock, Timeout

from demo.screen import Screen
from harness.airflow_server import REPOSITORY, AirflowServer, aws_connection
from harness.batch_service import QUEUE, BatchService
from harness.venvs import python_of

if TYPE_CHECKING:
    from harness.airflow_client import Task

DAG_ID = "batch_poke"
TASK_ID = "report"
JOB_DEFINITION = "report"
ID_KEY = "batch_job_id"
#: Long enough that the job outlives its first worker on a slow machine; the demo ends it.
JOB_SECONDS = 1800


@dataclass(frozen=True)
class Outcome:
    """What there is to see in the end."""

    jobs: int
    tries: int
    before: str
    after: str
    result: object

    @property
    def promised(self) -> bool:
        """One job, two tries, and the second one returned what the first would have."""
        return (self.jobs, self.tries) == (1, 2) and self.before == self.after == self.result

    def line(self) -> str:
        """The last line, for scripts."""
        return "RESULT " + json.dumps({"jobs": self.jobs, "tries": self.tries, "result": self.result})


def start_services(screen: Screen, folder: Path, stack: ExitStack) -> tuple[AirflowServer, BatchService]:
    """Start AWS Batch's stand-in and an Airflow whose ``aws_default`` points at it."""
    with screen.step("Prepare the AWS Batch stand-in (moto)"):
        python_of("moto")
    with screen.step("Start it") as step:
        batch = BatchService.start(folder / "batch")
        stack.callback(batch.stop)
        environment = [{"name": "STANDIN_SECONDS", "value": str(JOB_SECONDS)}]
        batch.define_job(JOB_DEFINITION, environment=environment)
        step.result = batch.url
    with screen.step("Start Airflow on SQLite") as step:
        airflow = AirflowServer.start(
            folder / "airflow",
            components=("api-server", "scheduler", "dag-processor"),
            # How long Airflow waits for a silent worker before it gives the task to another.
            settings={"SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": 10},
            env=aws_connection(batch.url),
        )
        stack.callback(airflow.stop)
        step.result = airflow.url
    return airflow, batch


def kill_worker(task: Task) -> str:
    """``kill -9`` both processes of the worker that runs the task, as a lost machine does."""
    supervisor, process = task.supervisor_process(1), task.task_process(1)
    supervisor.kill()
    process.kill()
    return f"processes {supervisor.pid} and {process.pid}"


def play(screen: Screen, airflow: AirflowServer, batch: BatchService) -> Outcome:
    """Run the Dag, kill its worker in mid-job, and let the job end."""
    with screen.step(f"Run example_dags/{DAG_ID}.py") as step:
        airflow.client.add_dag(DAG_ID, REPOSITORY / "example_dags" / f"{DAG_ID}.py")
        run = airflow.client.trigger(DAG_ID, {"queue": QUEUE, "definition": JOB_DEFINITION})
        task = run.task(TASK_ID)
        step.result = run.run_id
    with screen.step("Try 1 submits a job and waits for it") as step:
        batch.wait_running(JOB_DEFINITION)
        task.wait_try(1)
        while ID_KEY not in task.store():
            time.sleep(0.2)
        before = task.store()[ID_KEY]
        step.result = f"job {before}"
    with screen.step("kill -9 the worker, in mid-job") as step:
        step.result = kill_worker(task)
    with screen.step("Airflow notices, and starts try 2"):
        task.wait_try(2)
    with screen.step("Try 2 reconnects") as step:
        task.wait_log("Reconnecting to existing job")
        after = task.store()[ID_KEY]
        step.result = f"job {after}"
    with screen.step("The job ends, and so does the task") as step:
        batch.finish(after)
        step.result = task.wait("success")
    return Outcome(
        jobs=len(batch.jobs()),
        tries=task.try_number(),
        before=before,
        after=after,
        result=task.return_value(),
    )


def demo(screen: Screen, folder: Path, keep: bool) -> int:
    """Play it from start to end; the exit code says whether the promise held."""
    with ExitStack() as stack:
        airflow, batch = start_services(screen, folder, stack)
        outcome = play(screen, airflow, batch)
        screen.table(
            "One task, one job",
            {
                "tries": outcome.tries,
                "jobs submitted": outcome.jobs,
                "job id before the kill": outcome.before,
                "job id after it": outcome.after,
                "return value of the task": outcome.result,
            },
        )
        if keep:
            screen.say(f"\nAirflow's UI: {airflow.url}/dags/{DAG_ID}   (Ctrl-C ends it)\n")
        print(outcome.line(), flush=True)
        if keep:
            with suppress(KeyboardInterrupt):
                threading.Event().wait()
    return 0 if outcome.promised else 1


def main() -> int:
    """Hold the folder for this demo alone, and leave nothing behind."""
    parser = argparse.ArgumentParser(prog="demo", description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="made, used and removed")
    parser.add_argument("--keep", action="store_true", help="leave Airflow's UI up until Ctrl-C")
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    screen = Screen()
    for signum in (signal.SIGINT, signal.SIGTERM):
        # SIGINT too: a shell that starts us in the background has it ignored.
        signal.signal(signum, _interrupt)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "lock", timeout=0):
            for left in ("airflow", "batch"):
                shutil.rmtree(folder / left, ignore_errors=True)
            code = demo(screen, folder, options.keep)
            shutil.rmtree(folder, ignore_errors=True)
    except Timeout:
        screen.say(f"Another demo is running in {folder}; end it first.")
        return 1
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        screen.say("Ended; nothing is left running.")
        return 130
    except Exception as error:  # noqa: BLE001  # whatever it was, a person gets a message and a place to look
        screen.say(f"\n{error}\n\nLogs are in {folder}.")
        return 1
    return code


def _interrupt(signum: int, frame: FrameType | None) -> None:
    """End the demo with everything that it started."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
