"""
Why a try is being stopped, and what that means for its job: the stop table.

Airflow calls ``on_kill`` for an eviction, a person's click and a timeout alike, and does not say
which. The server knows.
"""

from __future__ import annotations

from enum import Enum
from typing import Any


class StopReason(Enum):
    """Why ``on_kill`` was called; the values are what the log says."""

    PERSON = "a person ended the task or cleared it"
    TIMEOUT = "execution_timeout passed"
    EVICTION = "the worker is going away"
    UNKNOWN = "the API server could not say why"
    ANOTHER_TRY = "another try of the task has taken over"
    NOT_DURABLE = "no later try would find the job"


class StopAction(Enum):
    """What happens to the job."""

    CANCEL = "cancel"
    LEAVE = "leave running"


#: States that a task instance has after a person acted on it, as the API server names them.
_AFTER_A_PERSON = frozenset({"failed", "success", "skipped", "removed", "restarting"})


def classify(state: str | None) -> StopReason:
    """
    Return why a running task is stopped.

    :param state: the state the server holds for its task instance; None if it holds no such instance
    """
    if state is None or state in _AFTER_A_PERSON:
        return StopReason.PERSON
    return StopReason.EVICTION if state == "running" else StopReason.ANOTHER_TRY


def choose(reason: StopReason, *, try_left: bool, cancel_on_kill: bool) -> StopAction:
    """
    Return what happens to the job: the stop table.

    :param reason: why the try is stopped
    :param try_left: whether Airflow will start another try by itself
    :param cancel_on_kill: the operator's parameter; False leaves every job running
    """
    if not cancel_on_kill:
        return StopAction.LEAVE
    if reason in (StopReason.PERSON, StopReason.TIMEOUT, StopReason.NOT_DURABLE):
        return StopAction.CANCEL
    if reason is StopReason.EVICTION and not try_left:
        return StopAction.CANCEL
    return StopAction.LEAVE


def has_try_left(try_number: int, max_tries: int) -> bool:
    """Return whether Airflow will retry after this try fails."""
    return max_tries != 0 and try_number <= max_tries


def ask_server(ti: Any) -> StopReason:
    """
    Ask the API server what became of the task instance ``ti`` and return why it is stopped.

    Blocks until the channel to the server is free. Never raises: an unanswered question is
    ``StopReason.UNKNOWN``.
    """
    map_index = getattr(ti, "map_index", -1)
    try:
        states = ti.get_task_states(
            dag_id=ti.dag_id,
            task_ids=[ti.task_id],
            run_ids=[ti.run_id],
            map_index=map_index if map_index >= 0 else None,
        )
    except Exception:  # noqa: BLE001 - whatever the channel or the server has: it is no answer
        return StopReason.UNKNOWN
    # A mapped task's key is "<task_id>_<map_index>".
    of_run = states.get(ti.run_id, {})
    state = of_run.get(f"{ti.task_id}_{map_index}" if map_index >= 0 else ti.task_id)
    return classify(None if state is None else str(getattr(state, "value", state)))
