"""
Why a trigger is cancelled, on Airflow below 3.3, whose triggerer does not say.

It cancels a trigger when a person acts on the task and when it shuts down, alike. The state of the task
instance tells the two apart: a task whose triggerer goes away stays deferred.
"""

from __future__ import annotations

import asyncio
from typing import Any

from airflow.triggers.base import BaseTrigger
from asgiref.sync import sync_to_async

#: Airflow 3.3 brought ``BaseTrigger.on_kill``, called for a person's action and for nothing else.
TRIGGERER_CALLS_ON_KILL = hasattr(BaseTrigger, "on_kill")
#: Seconds to wait for the answer; a triggerer that shuts down may get none.
ANSWER_SECONDS = 5.0


async def is_still_deferred(task_instance: Any) -> bool:
    """
    Return whether the task still waits for its trigger, so that another triggerer will take it over.

    True, too, when nobody can say: a job that runs on is found again or ends, one that was cancelled by
    mistake is lost.

    :param task_instance: the trigger's ``task_instance``
    """
    ask = asyncio.ensure_future(_state_of(task_instance))
    # Not cancelled when it takes too long: on Airflow 3.1 that would break the channel to the server.
    await asyncio.wait({ask}, timeout=ANSWER_SECONDS)
    if not ask.done() or ask.cancelled() or ask.exception() is not None:
        return True
    return ask.result() == "deferred"


async def _state_of(task_instance: Any) -> str | None:
    """Return the task instance's state; None after a clear, or if there is no such task instance."""
    map_index = getattr(task_instance, "map_index", -1)
    try:
        from airflow.sdk.execution_time import task_runner
        from airflow.sdk.execution_time.comms import GetTaskStates
    except ImportError:
        return await sync_to_async(_state_in_database, thread_sensitive=False)(task_instance)
    question = GetTaskStates(
        dag_id=task_instance.dag_id,
        task_ids=[task_instance.task_id],
        run_ids=[task_instance.run_id],
        map_index=map_index if map_index >= 0 else None,
    )
    answer: Any = await task_runner.SUPERVISOR_COMMS.asend(question)
    of_run = answer.task_states.get(task_instance.run_id, {})
    key = f"{task_instance.task_id}_{map_index}" if map_index >= 0 else task_instance.task_id
    state = of_run.get(key)
    return None if state is None else str(getattr(state, "value", state))


def _state_in_database(task_instance: Any) -> str | None:
    """Airflow 2: the triggerer has the database."""
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session

    with create_session() as session:
        state = (
            session.query(TaskInstance.state)
            .filter_by(
                dag_id=task_instance.dag_id,
                task_id=task_instance.task_id,
                run_id=task_instance.run_id,
                map_index=task_instance.map_index,
            )
            .scalar()
        )
    return None if state is None else str(getattr(state, "value", state))
