"""A trigger of ours: its event, its deadline, and who may cancel its job."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.triggers import base, kill
from airflow_provider_durable.triggers.poller import shared_poller
from unit.triggers.virtual import FakeService, FakeTrigger, event_of, run

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
TASK_INSTANCE = SimpleNamespace(dag_id="dag", task_id="task", run_id="run", map_index=-1)


@pytest.fixture
def service() -> Iterator[FakeService]:
    FakeTrigger.services["service"] = service = FakeService()
    yield service
    FakeTrigger.services.clear()


@pytest.fixture(autouse=True)
def _virtual_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    def now() -> datetime:
        return BEGIN + timedelta(seconds=asyncio.get_running_loop().time())

    monkeypatch.setattr(base, "utcnow", now)


def trigger(**parameters: Any) -> FakeTrigger:
    made = FakeTrigger(external_id="job", **parameters)
    made.task_instance = TASK_INSTANCE
    return made


def until_event(made: FakeTrigger) -> tuple[dict[str, Any], float]:
    """Return the event, and when it came."""

    async def main() -> tuple[dict[str, Any], float]:
        return await event_of(made), asyncio.get_running_loop().time()

    return run(main)


@pytest.mark.parametrize("external_id", [{"cluster": "j-1", "step": "s-1"}, ["j-1", "s-1"]])
def test_an_id_that_no_answer_can_name_is_refused(external_id: Any) -> None:
    with pytest.raises(TypeError, match=r"FakeTrigger: external_id=.*Make it text, or a number"):
        FakeTrigger(external_id=external_id)


# -- the event -----------------------------------------------------------------------------------


def test_a_job_that_succeeds_is_a_success(service: FakeService) -> None:
    service.ends["job"] = 12.0
    event, at = until_event(trigger(poll_interval=10))
    assert (event["status"], event["external_id"]) == ("success", "job")
    assert 12.0 <= at <= 22.0


def test_a_job_that_fails_is_no_success(service: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    service.ends["job"] = 12.0
    monkeypatch.setattr(FakeService, "is_succeeded", lambda self, status: False)
    event, _ = until_event(trigger())
    assert event["status"] == "failed"


def test_a_job_that_the_service_does_not_know_ends_the_wait(service: FakeService) -> None:
    event, at = until_event(trigger(poll_interval=5))
    assert event["status"] == "unknown"
    assert at >= service.visible_after


def test_a_job_that_cannot_be_watched_is_an_error(service: FakeService) -> None:
    def plan(_: int, ids: Sequence[Any]) -> None:
        raise ConnectionError("no route")

    service.plan = plan
    event, at = until_event(trigger(poll_error_window=timedelta(minutes=1), poll_interval=10))
    assert event["status"] == "error"
    assert "no route" in event["message"]
    assert 60 <= at <= 75


def test_throttling_is_no_error(service: FakeService) -> None:
    service.ends["job"] = 0.0

    def plan(number: int, ids: Sequence[Any]) -> None:
        if number < 20:
            raise ServiceThrottledError("rate exceeded")

    service.plan = plan
    event, at = until_event(trigger(poll_error_window=10, poll_interval=10))
    assert event["status"] == "success"
    assert at > 300


@pytest.mark.parametrize("status", ["success", "failed", "unknown", "timeout", "error"])
def test_an_event_is_json(status: str) -> None:
    event = trigger(deadline=BEGIN).event(status, "why")
    assert json.loads(json.dumps(event)) == event
    assert event == {
        "status": status,
        "external_id": "job",
        "message": "why",
        "deadline": BEGIN.isoformat(),
    }


# -- the deadline --------------------------------------------------------------------------------


def test_the_deadline_ends_the_wait_and_leaves_the_job(service: FakeService) -> None:
    service.ends["job"] = 1000.0
    event, at = until_event(trigger(deadline=BEGIN + timedelta(seconds=95)))
    assert event["status"] == "timeout"
    assert at == pytest.approx(95.0)
    assert service.cancelled == []


def test_the_deadline_is_the_same_on_another_triggerer(service: FakeService) -> None:
    service.ends["job"] = 1000.0
    first = trigger(deadline=BEGIN + timedelta(seconds=95))

    async def main() -> float:
        task = asyncio.ensure_future(event_of(first))
        await asyncio.sleep(40)
        task.cancel()
        _, parameters = first.serialize()
        event = await event_of(FakeTrigger(**parameters))
        assert event["status"] == "timeout"
        return asyncio.get_running_loop().time()

    assert run(main) == pytest.approx(95.0)


def test_a_deadline_in_the_past_ends_the_wait_at_once(service: FakeService) -> None:
    event, at = until_event(trigger(deadline=BEGIN - timedelta(days=1)))
    assert (event["status"], at) == ("timeout", 0.0)


# -- serialization -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"poll_interval": timedelta(seconds=90), "poll_error_window": timedelta(hours=1)},
        {"poll_interval": 0.5, "deadline": BEGIN, "cancel_on_kill": False, "poll_error_window": 5},
        {"deadline": "2026-01-01T02:00:00+02:00"},
    ],
)
def test_a_trigger_can_be_made_anew_from_json(parameters: dict[str, Any]) -> None:
    made = trigger(**parameters)
    path, serialized = made.serialize()
    assert path == "unit.triggers.virtual.FakeTrigger"
    again = FakeTrigger(**json.loads(json.dumps(serialized)))
    assert again.serialize() == (path, serialized)
    for name in ("external_id", "poll_interval", "deadline", "cancel_on_kill", "poll_error_window"):
        assert getattr(again, name) == getattr(made, name)


# -- who may cancel the job ----------------------------------------------------------------------


def cancel_while_it_waits(made: FakeTrigger, calls_on_kill: bool = True) -> None:
    """Do what a triggerer does: cancel the task and, on Airflow 3.3, call ``on_kill`` for a person."""

    async def main() -> None:
        task = asyncio.ensure_future(event_of(made))
        await asyncio.sleep(15)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        if calls_on_kill:
            await made.on_kill()
        await asyncio.sleep(20)

    run(main)


@pytest.fixture
def state_is(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Airflow below 3.3, which has to be asked for the task's state."""

    def say(state: str | Exception | None, after: float = 0.0) -> None:
        async def ask(task_instance: Any) -> str | None:
            assert task_instance is TASK_INSTANCE
            await asyncio.sleep(after)
            if isinstance(state, Exception):
                raise state
            return state

        monkeypatch.setattr(base, "TRIGGERER_CALLS_ON_KILL", False)
        monkeypatch.setattr(kill, "_state_of", ask)

    return say


def test_a_person_s_kill_cancels_the_job(service: FakeService) -> None:
    service.ends["job"] = 1000.0
    cancel_while_it_waits(trigger())
    assert service.cancelled == [("job", "Task stopped by Airflow: dag.task, run run")]


def test_cancel_on_kill_false_leaves_the_job(service: FakeService) -> None:
    service.ends["job"] = 1000.0
    cancel_while_it_waits(trigger(cancel_on_kill=False))
    assert service.cancelled == []


@pytest.mark.parametrize("refusals", [0, 1, 2])
def test_cancelling_is_tried_again(service: FakeService, refusals: int) -> None:
    service.ends["job"] = 1000.0
    service.refusals = [ConnectionError("reset")] * refusals
    cancel_while_it_waits(trigger())
    assert len(service.cancelled) == 1


def test_a_triggerer_that_cancels_again_does_not_stop_the_cancellation(service: FakeService) -> None:
    """Airflow 3.3's does, about a second after it has called ``on_kill``."""
    service.refusals = [ConnectionError("reset")] * 2

    async def main() -> None:
        killing = asyncio.ensure_future(trigger().on_kill())
        await asyncio.sleep(0.5)
        killing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await killing
        await asyncio.sleep(10)

    run(main)
    assert len(service.cancelled) == 1


def test_a_job_that_cannot_be_cancelled_is_an_error_in_the_log(service: FakeService) -> None:
    service.refusals = [ConnectionError("reset")] * 9

    async def main() -> None:
        with pytest.raises(ConnectionError):
            await trigger().on_kill()

    run(main)
    assert len(service.refusals) == 6


def test_on_3_3_a_shutdown_cancels_nothing_and_asks_nobody(
    service: FakeService, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask(task_instance: Any) -> str | None:
        raise AssertionError

    monkeypatch.setattr(base, "TRIGGERER_CALLS_ON_KILL", True)
    monkeypatch.setattr(base, "is_still_deferred", ask)
    service.ends["job"] = 1000.0
    cancel_while_it_waits(trigger(), calls_on_kill=False)
    assert service.cancelled == []


@pytest.mark.parametrize("state", ["failed", "success", None, "scheduled", "queued", "running", "removed"])
def test_below_3_3_a_task_that_is_no_longer_deferred_has_its_job_cancelled(
    service: FakeService, state_is: Callable[..., None], state: str | None
) -> None:
    state_is(state)
    service.ends["job"] = 1000.0
    cancel_while_it_waits(trigger(), calls_on_kill=False)
    assert [job for job, _ in service.cancelled] == ["job"]


@pytest.mark.parametrize(
    ("state", "after"), [("deferred", 0.0), (ConnectionError("gone"), 0.0), ("failed", 3600.0)]
)
def test_below_3_3_a_shutdown_or_no_answer_leaves_the_job(
    service: FakeService, state_is: Callable[..., None], state: Any, after: float
) -> None:
    state_is(state, after)
    service.ends["job"] = 1000.0
    cancel_while_it_waits(trigger(), calls_on_kill=False)
    assert service.cancelled == []


def test_below_3_3_cancel_on_kill_false_leaves_the_job(
    service: FakeService, state_is: Callable[..., None]
) -> None:
    state_is("failed")
    service.ends["job"] = 1000.0
    cancel_while_it_waits(trigger(cancel_on_kill=False), calls_on_kill=False)
    assert service.cancelled == []


def test_a_triggerer_that_goes_away_leaves_all_jobs(service: FakeService) -> None:
    service.ends.update({str(n): 1000.0 for n in range(20)})

    async def main() -> None:
        # Not awaited: they are cancelled when the loop is closed, as asyncio.run does.
        tasks = [asyncio.ensure_future(event_of(FakeTrigger(external_id=str(n)))) for n in range(20)]
        await asyncio.sleep(15)
        assert not any(task.done() for task in tasks)

    if base.TRIGGERER_CALLS_ON_KILL:
        run(main)
        assert service.cancelled == []


def test_a_cancelled_trigger_is_asked_for_no_more(service: FakeService) -> None:
    service.ends["job"] = 1000.0

    async def main() -> None:
        task = asyncio.ensure_future(event_of(trigger(poll_interval=1)))
        await asyncio.sleep(15)
        assert shared_poller(service)._subscriptions
        task.cancel()
        await asyncio.wait({task})
        assert not shared_poller(service)._subscriptions

    if base.TRIGGERER_CALLS_ON_KILL:
        run(main)


# -- the state of the task, below 3.3 ------------------------------------------------------------


def state_of(task_instance: Any) -> str | None:
    question: Coroutine[Any, Any, str | None] = kill._state_of(task_instance)
    return asyncio.run(question)


@pytest.mark.parametrize(
    ("map_index", "states", "expected"),
    [
        (-1, {"run": {"task": "failed"}}, "failed"),
        (-1, {"run": {"task": SimpleNamespace(value="deferred")}}, "deferred"),
        (-1, {"run": {"task": None}}, None),
        (-1, {}, None),
        (2, {"run": {"task_2": "deferred", "task": "failed"}}, "deferred"),
        (0, {"run": {"task_0": "deferred"}}, "deferred"),
    ],
)
def test_the_server_is_asked_on_airflow_3(
    monkeypatch: pytest.MonkeyPatch, map_index: int, states: dict[str, Any], expected: str | None
) -> None:
    task_runner = pytest.importorskip("airflow.sdk.execution_time.task_runner")

    class Channel:
        async def asend(self, question: Any) -> Any:
            assert (question.dag_id, question.task_ids, question.run_ids) == ("dag", ["task"], ["run"])
            assert question.map_index == (None if map_index < 0 else map_index)
            return SimpleNamespace(task_states=states)

    monkeypatch.setattr(task_runner, "SUPERVISOR_COMMS", Channel(), raising=False)
    assert state_of(SimpleNamespace(**{**vars(TASK_INSTANCE), "map_index": map_index})) == expected


@pytest.mark.parametrize(("run_id", "expected"), [("run", "deferred"), ("another", None)])
def test_the_database_is_asked_on_airflow_2(
    monkeypatch: pytest.MonkeyPatch, run_id: str, expected: str | None
) -> None:
    if importlib.util.find_spec("airflow.sdk"):
        pytest.skip("Airflow 3's triggerer has no database to ask; the sessions with Airflow 2.11 run this")
    import airflow.utils.session
    from sqlalchemy import create_engine, text
    from sqlalchemy.orm import Session
    from sqlalchemy.pool import StaticPool

    engine = create_engine("sqlite://", poolclass=StaticPool, connect_args={"check_same_thread": False})
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE task_instance (dag_id, task_id, run_id, map_index, state)"))
        connection.execute(text("INSERT INTO task_instance VALUES ('dag', 'task', 'run', -1, 'deferred')"))
        connection.execute(text("INSERT INTO task_instance VALUES ('dag', 'task', 'run', 0, 'failed')"))

    @contextmanager
    def session() -> Iterator[Session]:
        yield Session(engine)

    monkeypatch.setattr(airflow.utils.session, "create_session", session)
    assert state_of(SimpleNamespace(**{**vars(TASK_INSTANCE), "run_id": run_id})) == expected
