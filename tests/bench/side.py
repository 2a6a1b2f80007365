"""One side of the triggerer's benchmark, in a process of its own: jobs wait in one event loop.

As in Airflow's triggerer, each trigger is a task that goes through ``run()``. Progress and the outcome are
JSON lines on a pipe. A first line on standard input starts the triggers, a second one the measurement.
Without jobs, what is measured is the price of looking.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil

TRIGGERS = {
    "theirs": "airflow.providers.amazon.aws.triggers.batch",
    "ours": "airflow_provider_durable.triggers.batch",
}
#: What each side needs to talk to AWS. Loaded before memory is measured: waiting is, not importing.
LIBRARIES = {
    "theirs": ["airflow.providers.amazon.aws.hooks.batch_client", "boto3", "aiobotocore.session"],
    "ours": ["airflow.providers.amazon.aws.hooks.batch_client", "boto3"],
}
#: How often the loop is looked at, in seconds: a stall is seen to be shorter than it is by as much at most.
BEAT_SECONDS = 0.02


class Side:
    """One side's measurement."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.trigger_class = importlib.import_module(TRIGGERS[options.side]).BatchJobTrigger
        for library in LIBRARIES[options.side]:
            importlib.import_module(library)
        self.process = psutil.Process()
        self.events: dict[str, float] = {}
        self.problems: list[str] = []
        self.stall = 0.0
        self.peak = 0

    def say(self, **line: Any) -> None:
        os.write(self.options.pipe, json.dumps(line).encode() + b"\n")

    def make(self, job_id: str) -> Any:
        where = {"job_id": job_id, "region_name": self.options.region}
        if self.options.side == "theirs":
            return self.trigger_class(**where, waiter_delay=self.options.poll, waiter_max_attempts=10_000)
        return self.trigger_class(**where, poll_interval=self.options.poll)

    async def wait_for(self, job_id: str) -> None:
        """Do what the triggerer does with a trigger."""
        try:
            async for event in self.make(job_id).run():
                if event.payload["status"] == "success":
                    self.events[job_id] = time.time()
                else:
                    self.problems.append(str(event.payload))
        except Exception as error:  # noqa: BLE001 - the other side measures on
            self.problems.append(repr(error))

    async def watch(self) -> None:
        """Notice how late the loop is, and how large the process becomes."""
        loop = asyncio.get_running_loop()
        told = loop.time()
        while True:
            due = loop.time() + BEAT_SECONDS
            await asyncio.sleep(BEAT_SECONDS)
            now = loop.time()
            self.stall = max(self.stall, now - due)
            if now - told > 1.0:
                told = now
                self.peak = max(self.peak, self.process.memory_info().rss)
                self.say(events=len(self.events), stall=self.stall)

    async def main(self, job_ids: list[str]) -> None:
        gc.collect()
        baseline = self.process.memory_info().rss
        self.say(ready=True)
        await asyncio.to_thread(sys.stdin.readline)
        starting = time.process_time()
        watch = asyncio.create_task(self.watch())
        tasks = []
        for job_id in job_ids:
            tasks.append(asyncio.create_task(self.wait_for(job_id)))
            await asyncio.sleep(0)
        await asyncio.to_thread(sys.stdin.readline)
        cpu = time.process_time()
        await asyncio.sleep(self.options.seconds)
        self.say(
            cpu=time.process_time() - cpu,
            start_cpu=cpu - starting,
            memory=max(self.peak, self.process.memory_info().rss) - baseline,
            stall=self.stall,
            reported=self.events,
            problems=self.problems,
        )
        assert not watch.done()
        # What is left waits on; nothing of it is measured.
        os._exit(0)


def main() -> None:
    """Measure one side."""
    parser = argparse.ArgumentParser()
    parser.add_argument("side", choices=sorted(TRIGGERS))
    parser.add_argument("--jobs", required=True, help="file with a JSON list of job ids")
    parser.add_argument("--region", required=True)
    parser.add_argument("--poll", type=int, required=True, help="seconds")
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--pipe", type=int, required=True)
    options = parser.parse_args()
    job_ids = json.loads(Path(options.jobs).read_text())
    asyncio.run(Side(options).main(job_ids))


if __name__ == "__main__":
    main()
