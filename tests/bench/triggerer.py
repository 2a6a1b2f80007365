"""What waiting AWS Batch jobs cost a triggerer: Apache's trigger and ours, one after the other."""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import IO, Any

from harness.airflow_server import aws_connection
from harness.batch_service import DEFINITION, QUEUE, REGION, BatchService
from harness.processes import LOOPBACK, ServiceProcess, accepts, free_port
from harness.venvs import python_of, venvs_folder

POLL_SECONDS = 10
SECONDS = 60.0
COUNTS = (100, 300, 1000)
SIDES = ("theirs", "ours")
#: Longest start, in seconds; what has not been asked for by then is waited for no longer.
LONGEST_START = 600.0
#: One job in so many ends while it is waited for, at moments spread evenly over whole poll intervals.
ENDING = 5
FIRST_END, LAST_END = 8.0, 48.0

#: At 1,000 jobs, ours divided by theirs is to be no more; the stall, in seconds, is ours.
TARGETS = {"requests": 1 / 50, "cpu": 1 / 20, "memory": 1 / 20, "stall_s": 0.2, "delay": 1.0}
TARGET_COUNT = 1000

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Measured:
    """
    One side at one number of jobs.

    It starts when the triggers do, and is measured from when each job has been asked for once: before,
    Apache's side creates a client for each. Memory and stall are those of the whole time. ``cpu`` is what
    waiting takes: that of the process, without ``observer_cpu``, which is what a process takes at the same
    time that is looked at in the same way and in which nothing waits.
    """

    start_seconds: float
    start_cpu: float
    requests: int
    cpu: float
    observer_cpu: float
    observer_stall: float
    memory: int
    stall: float
    delay: float
    longest_delay: float
    ended: int
    unreported: int


def compare(ours: Measured, theirs: Measured) -> dict[str, float]:
    """Return ours divided by theirs; the stall of ours in seconds."""
    return {
        "requests": round(ours.requests / theirs.requests, 4),
        "cpu": round(ours.cpu / theirs.cpu, 4),
        "memory": round(ours.memory / theirs.memory, 4),
        "stall_s": round(ours.stall, 3),
        "delay": round(ours.delay / theirs.delay, 3),
    }


def missed(ratios: dict[str, float]) -> list[str]:
    """Return the targets that are not reached, as sentences."""
    return [
        f"triggerer, {TARGET_COUNT} jobs: {name} is {ratios[name]:.4g}, to be at most {most:.4g}"
        for name, most in TARGETS.items()
        if ratios[name] > most
    ]


class SideProcess:
    """A process of ``side.py``, and what it says."""

    def __init__(self, arguments: list[str], env: dict[str, str], log: IO[str]) -> None:
        reading, writing = os.pipe()
        python = venvs_folder() / "bench" / "bin" / "python"
        self._process = subprocess.Popen(
            [str(python), str(Path(__file__).with_name("side.py")), *arguments, "--pipe", str(writing)],
            env=env,
            pass_fds=[writing],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=log,
            text=True,
        )
        os.close(writing)
        self._pipe = os.fdopen(reading)
        self.last: dict[str, Any] = {}

    def begin(self) -> None:
        """Start its triggers, once it is ready."""
        self.last = json.loads(self._pipe.readline() or "{}")
        if "ready" in self.last:
            self._go_on()

    def measure(self) -> None:
        """Start its measurement."""
        self._go_on()

    def _go_on(self) -> None:
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)

    def lines(self) -> Iterator[dict[str, Any]]:
        """Go through what it says, until it has said its outcome, which is ``last`` then."""
        for line in self._pipe:
            self.last = json.loads(line)
            if "cpu" in self.last:
                return
            yield self.last

    def outcome(self) -> dict[str, Any]:
        """Wait for its outcome."""
        for _ in self.lines():
            pass
        return self.last

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._pipe.close()


class Bench:
    """The stand-in, and the runs against it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        port = free_port()
        command = [python_of("moto"), str(Path(__file__).with_name("standin.py")), "--port", str(port)]
        process = ServiceProcess.start("batch", command, folder=folder, ready=lambda: accepts(port), grace=1)
        self.service = BatchService(f"http://{LOOPBACK}:{port}", process)
        self.service._set_up()

    def close(self) -> None:
        self.service.stop()

    def _asked(self, *, anew: bool = False) -> dict[str, int]:
        """Return how many requests there were, about how many jobs; ``anew`` counts from zero then."""
        method = "DELETE" if anew else "GET"
        answer: dict[str, int] = self.service.http.request(method, f"{self.service.url}/standin/asked").json()
        return answer

    def _running_jobs(self, count: int, progress: Progress) -> list[str]:
        """Return ``count`` jobs that run for a day, submitting what is missing."""
        jobs = [job.id for job in self.service.jobs() if job.active][:count]
        client = self.service.client()
        for number in range(len(jobs), count):
            answer = client.submit_job(
                jobName="bench",
                jobQueue=QUEUE,
                jobDefinition=DEFINITION,
                parameters={"standin_seconds": "86400"},
            )
            jobs.append(answer["jobId"])
            progress("submitting jobs", number / count)
        return jobs

    def _end_some(self, jobs: list[str]) -> list[str]:
        """Have some of the jobs end in the next minute, the same number at the same moments each time."""
        ending = random.Random(0).sample(jobs, len(jobs) // ENDING)
        begin = time.time()
        for number, job in enumerate(ending):
            end = FIRST_END + (LAST_END - FIRST_END) * number / len(ending)
            self.service.finish(job, delay=end - (time.time() - begin))
        return ending

    def run(self, side: str, count: int, seconds: float, progress: Progress) -> Measured:
        """
        Let ``count`` jobs wait on one side.

        :param side: ``theirs`` or ``ours``
        :param count: how many jobs
        :param seconds: for how long
        :param progress: is told what happens, and which part of it is done
        """
        jobs = self._running_jobs(count, progress)
        progress("starting", 0.0)
        with self._process("ours", [], seconds) as observer, self._process(side, jobs, seconds) as waiting:
            observer.begin()
            start_seconds, ending = self._follow(waiting, observer, jobs, seconds, progress)
            last, observed = waiting.last, observer.outcome()
        requests, now = self._asked()["requests"], time.time()
        ends = {job.id: job.stopped_at or now for job in self.service.jobs() if job.id in set(ending)}
        # An end that was not reported by the end of the measurement is late by at least this.
        delays = [last["reported"].get(job, now) - end for job, end in ends.items()]
        return Measured(
            start_seconds=start_seconds,
            start_cpu=last["start_cpu"],
            requests=requests,
            cpu=max(last["cpu"] - observed["cpu"], 0.0),
            observer_cpu=observed["cpu"],
            observer_stall=observed["stall"],
            memory=last["memory"],
            stall=last["stall"],
            delay=mean(delays),
            longest_delay=max(delays),
            ended=len(ending),
            unreported=len(ending) - len(last["reported"]),
        )

    @contextmanager
    def _process(self, side: str, jobs: list[str], seconds: float) -> Iterator[SideProcess]:
        name = f"{side}-{len(jobs)}"
        file = self.folder / f"{name}.json"
        file.write_text(json.dumps(jobs))
        arguments = [*(side, "--jobs", str(file), "--region", REGION), *("--poll", str(POLL_SECONDS))]
        with (self.folder / f"{name}.log").open("w") as log:
            process = SideProcess([*arguments, "--seconds", str(seconds)], self._environment(), log)
            try:
                yield process
            finally:
                process.end()

    def _follow(
        self,
        waiting: SideProcess,
        observer: SideProcess,
        jobs: list[str],
        seconds: float,
        progress: Progress,
    ) -> tuple[float, list[str]]:
        """Return the seconds of the start, and the jobs that ended."""
        self._asked(anew=True)
        waiting.begin()
        ending: list[str] = []
        begin, measuring = time.monotonic(), None
        for last in waiting.lines():
            now = time.monotonic()
            if measuring is not None:
                text = f"{last['events']} of {len(ending)} ends reported, stall {last['stall']:.2f} s"
                progress(text, (now - measuring) / seconds)
                continue
            asked = self._asked()["jobs"]
            progress(f"{asked} asked for", 0.0)
            if asked == len(jobs) or now - begin > LONGEST_START:
                ending, measuring = self._end_some(jobs), time.monotonic()
                self._asked(anew=True)
                waiting.measure()
                observer.measure()
        if "cpu" not in waiting.last or waiting.last["problems"] or measuring is None:
            problems = waiting.last.get("problems")
            raise RuntimeError(f"the measurement failed: {problems}; logs are in {self.folder}")
        return measuring - begin, ending

    def _environment(self) -> dict[str, str]:
        """Return an environment in which the only AWS is the stand-in."""
        keep = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "AWS_"))}
        return {
            **keep,
            "AIRFLOW_HOME": str(self.folder / "airflow"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            **aws_connection(self.service.url, REGION),
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": os.devnull,
            "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
            "NO_PROXY": LOOPBACK,
            "no_proxy": LOOPBACK,
        }
