"""Airflow 3.3 in one process: its database, its API server, its task runner, and what a scheduler would do.

A try is run by Airflow's own task runner, which talks to Airflow's own API server and finds its task
state store in Airflow's own tables. Only the processes in between are left out, as by ``dag.test()``.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matrix.api_server import api_client
from matrix.wire import Crash, Stuck

if TYPE_CHECKING:
    from matrix.clock import Clock
    from matrix.wire import Wire

RETRY_PAUSE = 60.0
#: Seconds after which the scheduler takes a task whose heartbeats have ended for dead.
HEARTBEAT_TIMEOUT = 300.0
#: More processes than any case needs.
MOST_PROCESSES = 40
BUNDLE = "dags-folder"
OVER = ("success", "failed", "skipped", "removed")


def prepare_environment(home: Path) -> None:
    """Say where Airflow lives; before it is imported."""
    settings = {
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__DAGS_FOLDER": str(home / "dags"),
        "CORE__EXECUTOR": "LocalExecutor",
        "DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home}/airflow.db?timeout=30",
        "LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "LOGGING__LOGGING_LEVEL": os.environ.get("MATRIX_LOG", "CRITICAL"),
        "USAGE_DATA_COLLECTION__ENABLED": "False",
    }
    os.environ.update({f"AIRFLOW__{name}": value for name, value in settings.items()})
    os.environ.update(AIRFLOW_HOME=str(home), NO_PROXY="127.0.0.1,localhost")
    for name in [name for name in os.environ if name.startswith("AIRFLOW_CONN_")]:
        del os.environ[name]


class Airflow:
    """An Airflow of one worker, for tasks one after the other."""

    def __init__(self, wire: Wire, clock: Clock) -> None:
        from airflow.dag_processing.bundles.manager import DagBundlesManager
        from airflow.utils import db
        from airflow.utils.session import create_session

        self.wire, self.clock = wire, clock
        db.initdb()
        with create_session() as session:
            DagBundlesManager().sync_bundles_to_db(session=session)
        self.client = api_client()
        self._dags: dict[str, Any] = {}

    def add(self, dag: Any) -> Any:
        """Store a Dag, as the Dag processor does, and return it as the scheduler has it."""
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.serialization.definitions.dag import SerializedDAG
        from airflow.serialization.serialized_objects import DagSerialization, LazyDeserializedDAG
        from airflow.utils.session import create_session

        if dag.dag_id not in self._dags:
            lazy = LazyDeserializedDAG.from_dag(dag)
            with create_session() as session:
                SerializedDAG.bulk_write_to_db(BUNDLE, None, [lazy], session=session)
                SerializedDagModel.write_dag(lazy, bundle_name=BUNDLE, session=session)
            self._dags[dag.dag_id] = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        return self._dags[dag.dag_id]


class Life:
    """
    One task instance, from its first try to its end.

    :param airflow: where it lives
    :param parse: parses the Dag file: a Dag of one task ``job``, made anew for each process
    :param run_id: names it
    """

    def __init__(self, airflow: Airflow, parse: Callable[[], Any], run_id: str) -> None:
        self.airflow, self.wire, self.clock = airflow, airflow.wire, airflow.clock
        self._parse = parse
        self.run_id = run_id
        self._dag = airflow.add(parse())
        #: What happens when the task has no process, by the number of the process that was the last.
        self.between: dict[int, Callable[[], None]] = {}
        self._create_run()

    def _create_run(self) -> None:
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType

        now = datetime.now(tz=timezone.utc)
        with create_session() as session:
            self._dag.create_dagrun(
                run_id=self.run_id,
                logical_date=now,
                data_interval=(now, now),
                run_after=now,
                start_date=now,
                run_type=DagRunType.MANUAL,
                state=DagRunState.RUNNING,
                triggered_by=DagRunTriggeredByType.TEST,
                triggering_user_name="matrix",
                session=session,
            )

    @contextmanager
    def instance(self) -> Iterator[tuple[Any, Any]]:
        from airflow.models.taskinstance import TaskInstance
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            where = (TaskInstance.dag_id == self._dag.dag_id, TaskInstance.run_id == self.run_id)
            yield session.scalar(select(TaskInstance).where(*where)), session

    @property
    def state(self) -> str | None:
        """The task instance's state; ``removed`` if it is no more."""
        with self.instance() as (ti, _):
            return "removed" if ti is None else ti.state and str(getattr(ti.state, "value", ti.state))

    def returned(self) -> Any:
        """What the task has returned, None if nothing."""
        from airflow.models.xcom import XComModel
        from airflow.utils.session import create_session
        from sqlalchemy import select

        with create_session() as session:
            where = (
                XComModel.dag_id == self._dag.dag_id,
                XComModel.run_id == self.run_id,
                XComModel.key == "return_value",
            )
            found = session.scalars(select(XComModel).where(*where)).first()
            return None if found is None else XComModel.deserialize_value(found)

    # -- what a person does --------------------------------------------------------------------

    def mark(self, state: str) -> None:
        """Mark the task, as the API server does."""
        with self.instance() as (ti, session):
            if ti is not None:
                ti.set_state(state, session=session)

    def clear(self) -> None:
        """Clear the task, as the API server does; one that runs is told to restart."""
        from airflow.models.taskinstance import clear_task_instances

        with self.instance() as (ti, session):
            if ti is not None:
                clear_task_instances([ti], session)

    def remove(self) -> None:
        """Delete its run."""
        with self.instance() as (ti, session):
            if ti is not None:
                session.delete(ti.dag_run)

    # -- its processes -------------------------------------------------------------------------

    def live(self) -> None:
        """Run one process after the other, until the task has ended."""
        for _ in range(MOST_PROCESSES):
            state = self.state
            if state in OVER:
                return
            if state == "deferred":
                self._wait_in_triggerer()
            else:
                self._pass_time(state)
                self._run_try()
            if self.wire.stuck:
                raise Stuck(self.wire.stuck)
            if event := self.between.pop(len(self.wire.processes) - 1, None):
                event()
        raise Stuck(f"{MOST_PROCESSES} processes, and no end")

    def _pass_time(self, state: str | None) -> None:
        if state == "up_for_retry":
            self.clock.advance(RETRY_PAUSE)
        elif state == "up_for_reschedule":
            from airflow.models.taskreschedule import TaskReschedule
            from sqlalchemy import select

            with self.instance() as (ti, session):
                latest = select(TaskReschedule).where(TaskReschedule.ti_id == ti.id)
                date = session.scalars(latest.order_by(TaskReschedule.id.desc())).first().reschedule_date
                self.clock.advance((date - datetime.now(tz=timezone.utc)).total_seconds())

    def _queue(self) -> tuple[Any, bool]:
        """Do the scheduler's part, and return what the worker gets, and whether it takes up a deferral."""
        from airflow.sdk.api.datamodels._generated import TaskInstance as SdkTaskInstance

        with self.instance() as (ti, session):
            resumes = ti.state == "scheduled"
            if not resumes and ti.state != "up_for_reschedule":
                ti.try_number += 1
            ti.state = "queued"
            session.flush()
            names = {"dag_id": ti.dag_id, "task_id": ti.task_id, "run_id": ti.run_id}
            version = ti.dag_version_id
            return SdkTaskInstance(
                id=ti.id, try_number=ti.try_number, map_index=-1, dag_version_id=version, **names
            ), resumes

    def _run_try(self) -> None:
        from airflow.sdk.execution_time.supervisor import InProcessTestSupervisor

        what, resumes = self._queue()
        task = self._parse().get_task("job")
        process = self.wire.start_process("task", resumes=resumes)
        try:
            InProcessTestSupervisor.start(what=what, task=task, client=self.airflow.client)
        except Crash:
            pass
        except Exception:  # noqa: BLE001
            # The server did not take the report of its end, as after a person's action.
            pass
        finally:
            process.dead = True
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            self.wire.end_process()
        self._notice_end(api_was_down=process.api_down)

    def _notice_end(self, *, api_was_down: bool) -> None:
        """Have Airflow notice that the process is gone: by its supervisor, or by missing heartbeats."""
        with self.instance() as (ti, session):
            if ti is None or ti.state not in ("running", "restarting"):
                return
            if api_was_down:
                self.clock.advance(HEARTBEAT_TIMEOUT)
            ti.task = self._dag.get_task("job")
            ti.handle_failure("the process is gone", session=session)

    def _wait_in_triggerer(self) -> None:
        from matrix.triggerer import Triggerer

        triggerer = Triggerer(self)
        process = self.wire.start_process("triggerer")
        try:
            with contextlib.suppress(Crash):
                triggerer.run()
        finally:
            process.dead = True
            self.wire.end_process()
