"""What a test does with a running Airflow: add Dags, trigger, wait, clear, mark, kill one task's processes.

Everything goes through the REST API, as a person's clicks do. Every wait has an end, and a wait that fails
shows the task's log.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import httpx

from harness.http_client import HttpClient
from harness.processes import WaitTimeout, wait_until
from harness.task_process import TaskProcess, find_supervisor

FINISHED = ("success", "failed", "skipped", "upstream_failed", "removed")
WAIT_SECONDS = 240.0


class AirflowApiError(RuntimeError):
    """The REST API answered with an error."""


@dataclass
class AirflowClient:
    """The REST API of one Airflow, and its Dags folder."""

    url: str
    home: Path
    http: HttpClient = field(default_factory=lambda: HttpClient(60), repr=False)
    _token: str = field(default="", repr=False)

    def api(self, method: str, path: str, body: Any = None, **params: Any) -> Any:
        """One request to ``/api/v2/<path>``, repeated while the server is busy ("database is locked").

        :raises AirflowApiError: for an answer of 400 or more
        """
        deadline = time.monotonic() + 30
        while True:
            try:
                answer = self._send(method, path, body, params)
            except httpx.TransportError:
                if method != "GET" or time.monotonic() > deadline:
                    raise
            else:
                if answer.status_code < 500 or time.monotonic() > deadline:
                    break
            time.sleep(0.5)
        if answer.status_code >= 400:
            raise AirflowApiError(f"{method} {path}: {answer.status_code} {answer.text[:1000]}")
        return answer.json() if answer.content else None

    def _send(self, method: str, path: str, body: Any, params: dict[str, Any]) -> httpx.Response:
        for _ in range(2):
            if not self._token:
                token = self.http.get(f"{self.url}/auth/token")
                token.raise_for_status()
                self._token = token.json()["access_token"]
            headers = {"Authorization": f"Bearer {self._token}"}
            answer = self.http.request(
                method, f"{self.url}/api/v2/{path}", json=body, params=params, headers=headers
            )
            if answer.status_code != 401:
                break
            self._token = ""
        return answer

    def add_dag(self, dag_id: str, source: str | Path, timeout: float = WAIT_SECONDS) -> str:
        """Put a Dag file (its source, or a path) into the Dags folder and wait until it can be run.

        :raises AirflowApiError: with the traceback, if the file cannot be imported
        """
        self.put_dag(dag_id, source)
        self.wait_parsed(dag_id, timeout)
        return dag_id

    def put_dag(self, dag_id: str, source: str | Path) -> None:
        """Put a Dag file (its source, or a path) into the Dags folder."""
        text = source.read_text() if isinstance(source, Path) else source
        target = self.home / "dags" / f"{dag_id}.py"
        draft = target.with_suffix(".tmp")
        draft.write_text(text)
        draft.rename(target)

    def wait_parsed(self, dag_id: str, timeout: float = WAIT_SECONDS) -> None:
        """Wait until the Dag of this file can be run.

        :raises AirflowApiError: with the traceback, if the file cannot be imported
        """

        def parsed() -> bool:
            for error in self.api("GET", "importErrors", filename_pattern=dag_id)["import_errors"]:
                if error["filename"].endswith(f"/{dag_id}.py") or error["filename"] == f"{dag_id}.py":
                    raise AirflowApiError(error["stack_trace"])
            try:
                return bool(self.api("GET", f"dags/{dag_id}"))
            except AirflowApiError:
                return False

        wait_until(parsed, f"Dag {dag_id} is parsed", timeout=timeout, interval=0.3)

    def trigger(self, dag_id: str, conf: dict[str, Any] | None = None) -> Run:
        """Start a run."""
        run_id = f"run-{secrets.token_hex(4)}"
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}}
        try:
            self.api("POST", f"dags/{dag_id}/dagRuns", body)
        except AirflowApiError as error:
            if ": 409" not in str(error):  # a repeated request: there is the run already
                raise
        return Run(self, dag_id, run_id)

    def pause(self, dag_id: str, paused: bool = True) -> None:
        """Pause a Dag, or go on: a running task runs on, but nothing new starts, retries neither."""
        self.api("PATCH", f"dags/{dag_id}", {"is_paused": paused})

    def set_pool(self, name: str, slots: int) -> None:
        """Make a pool, or change its size."""
        body = {"name": name, "slots": slots, "description": "", "include_deferred": False}
        try:
            self.api("POST", "pools", body)
        except AirflowApiError as error:
            if ": 409" not in str(error):
                raise
            self.api("PATCH", f"pools/{name}", body, update_mask="slots")


@dataclass(frozen=True)
class Run:
    """One Dag run."""

    client: AirflowClient
    dag_id: str
    run_id: str

    @property
    def path(self) -> str:
        """Its place in the REST API."""
        return f"dags/{self.dag_id}/dagRuns/{self.run_id}"

    def state(self) -> str:
        """``queued``, ``running``, ``success`` or ``failed``."""
        return str(self.client.api("GET", self.path)["state"])

    def wait(self, state: str | None = None, timeout: float = WAIT_SECONDS) -> str:
        """Wait for ``state``, or for the end; the wrong end fails at once, with the tasks' logs."""
        return _wait_for(self.state, state, ("success", "failed"), timeout, self.describe)

    def task(self, task_id: str, map_index: int = -1) -> Task:
        """One task instance; ``map_index`` of a mapped task from 0."""
        return Task(self, task_id, map_index)

    def delete(self) -> None:
        """Delete the run, as a person may while it runs."""
        self.client.api("DELETE", self.path)

    def describe(self) -> str:
        """States and logs of all its tasks."""
        found = self.client.api("GET", f"{self.path}/taskInstances")["task_instances"]
        tasks = [Task(self, ti["task_id"], ti["map_index"]) for ti in found]
        return "\n".join([f"run {self.run_id} of {self.dag_id}", *(task.describe() for task in tasks)])


@dataclass(frozen=True)
class Task:
    """One task instance of a run."""

    run: Run
    task_id: str
    map_index: int = -1

    @property
    def path(self) -> str:
        """Its place in the REST API."""
        path = f"{self.run.path}/taskInstances/{self.task_id}"
        return path if self.map_index < 0 else f"{path}/{self.map_index}"

    def _get(self, path: str = "", **params: Any) -> Any:
        return self.run.client.api("GET", path or self.path, **params)

    def info(self) -> dict[str, Any]:
        """All that the REST API tells about it."""
        info: dict[str, Any] = self._get()
        return info

    def state(self) -> str | None:
        """Its state now."""
        state: str | None = self.info()["state"]
        return state

    def try_number(self) -> int:
        """The number of the latest try."""
        return int(self.info()["try_number"])

    def tries(self) -> list[dict[str, Any]]:
        """All tries, the current one too."""
        tries: list[dict[str, Any]] = self._get(f"{self.path}/tries")["task_instances"]
        return sorted(tries, key=lambda one: one["try_number"])

    def wait(self, state: str | None = None, timeout: float = WAIT_SECONDS) -> str:
        """Wait for ``state``, or for the end; the wrong end fails at once, with the log."""
        return _wait_for(self.state, state, FINISHED, timeout, self.describe)

    def wait_try(
        self, try_number: int, state: str | Collection[str] = "running", timeout: float = WAIT_SECONDS
    ) -> None:
        """Wait until this try is in ``state`` (or one of several)."""
        states = (state,) if isinstance(state, str) else state

        def there() -> bool:
            info = self.info()
            return bool(info["try_number"] == try_number and info["state"] in states)

        self._until(there, f"try {try_number} is {state}", timeout)

    def wait_log(self, text: str, timeout: float = WAIT_SECONDS) -> None:
        """Wait until its log contains ``text``."""
        self._until(lambda: text in self.log(), f"{text!r} in the log", timeout)

    def _until(self, condition: Callable[[], bool], what: str, timeout: float) -> None:
        wait_until(condition, lambda: f"{what}\n{self.describe()}", timeout, 0.2)

    def return_value(self) -> Any:
        """What it returned; None if it pushed no XCom."""
        try:
            answer = self._get(
                f"{self.run.path}/taskInstances/{self.task_id}/xcomEntries/return_value",
                map_index=self.map_index,
            )
        except AirflowApiError as error:
            if ": 404" in str(error):
                return None
            raise
        try:
            return json.loads(answer["value"])
        except (TypeError, ValueError):
            return answer["value"]

    def store(self) -> dict[str, Any]:
        """What its task state store holds."""
        path = f"{self.run.path}/taskInstances/{self.task_id}/state-store"
        found = self._get(path, map_index=self.map_index, limit=100)["task_state_store"]
        return {entry["key"]: entry["value"] for entry in found}

    def log(self, try_number: int | None = None) -> str:
        """Its log as text, of one try or of all; read from the files, so also while the API is gone."""
        return "\n".join(_log_line(line) for line in self.log_lines(try_number))

    def log_lines(self, try_number: int | None = None) -> list[dict[str, Any]]:
        """Its structured log lines, each with the number of its try as ``try``."""
        parts = [f"dag_id={self.run.dag_id}", f"run_id={self.run.run_id}", f"task_id={self.task_id}"]
        folder = self.run.client.home.joinpath("logs", *parts)
        folder = folder if self.map_index < 0 else folder / f"map_index={self.map_index}"
        lines = []
        for file in sorted(folder.glob("attempt=*.log"), key=_attempt_of):
            if try_number in (None, _attempt_of(file)):
                entries = file.read_text(errors="replace").splitlines()
                lines += [{"try": _attempt_of(file), **_parse_line(entry)} for entry in entries]
        return lines

    def clear(self) -> None:
        """Clear it, as a person does: it runs again; if it is running, it is stopped first."""
        if self.state() in FINISHED:
            # A clear between the end of a run's last task and that of the run is lost on Airflow 3.3.
            self.run.wait()
        which = self.task_id if self.map_index < 0 else [self.task_id, self.map_index]
        body = {"dry_run": False, "only_failed": False, "dag_run_id": self.run.run_id, "task_ids": [which]}
        self.run.client.api("POST", f"dags/{self.run.dag_id}/clearTaskInstances", body)

    def mark(self, state: Literal["failed", "success", "skipped"]) -> None:
        """Mark it, as a person does."""
        self.run.client.api("PATCH", self.path, {"new_state": state})

    def supervisor_process(self, try_number: int | None = None, timeout: float = WAIT_SECONDS) -> TaskProcess:
        """The process that supervises it on the worker; waits until this try runs."""
        return self._processes(try_number, timeout)[0]

    def task_process(self, try_number: int | None = None, timeout: float = WAIT_SECONDS) -> TaskProcess:
        """The process that runs the operator; waits until this try runs."""
        return self._processes(try_number, timeout)[1]

    def _processes(self, try_number: int | None, timeout: float) -> tuple[TaskProcess, TaskProcess]:
        def found() -> tuple[TaskProcess, TaskProcess] | None:
            info = self.info()
            wrong_try = try_number not in (None, info["try_number"])
            if info["state"] != "running" or wrong_try or not info["pid"]:
                return None
            task = TaskProcess.of(int(info["pid"]))
            supervisor = find_supervisor(task, str(info["id"])) if task else None
            return (supervisor, task) if supervisor and task else None

        return wait_until(found, lambda: f"{self.task_id} runs\n{self.describe()}", timeout, 0.1)

    def describe(self) -> str:
        """Its states, what it stored, and its log."""
        tries = [(one["try_number"], one["state"]) for one in self.tries()]
        head = f"task {self.task_id} map_index={self.map_index}: tries {tries}, store {self.store()}"
        return "\n".join([head, self.log()[-12_000:]])


def _wait_for(
    read: Callable[[], str | None],
    state: str | None,
    ends: Collection[str],
    timeout: float,
    describe: Callable[[], str],
) -> str:
    def reached() -> str | None:
        now = read()
        if now == state or (state is None and now in ends):
            return now
        if now in ends:
            raise WaitTimeout(f"{now}, not {state}\n{describe()}")
        return None

    return wait_until(reached, lambda: f"state {state or 'at the end'}\n{describe()}", timeout, 0.3)


def _attempt_of(file: Path) -> int:
    return int(file.stem.partition("=")[2].split(".")[0])


def _parse_line(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {"event": line}
    return parsed if isinstance(parsed, dict) else {"event": line}


def _log_line(line: dict[str, Any]) -> str:
    skipped = ("try", "timestamp", "level", "event", "logger", "filename", "lineno")
    rest = " ".join(f"{key}={value}" for key, value in line.items() if key not in skipped)
    moment = str(line.get("timestamp", ""))[11:23]
    return f"[{line['try']}] {moment} {line.get('level', '')} {line.get('event', '')} {rest}".rstrip()
