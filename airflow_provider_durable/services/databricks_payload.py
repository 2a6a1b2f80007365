"""
The request that Apache's Databricks operator would send, built by Apache's operator and not sent.

How parameters become a request is private to the provider and differs between its versions. So its own
code runs, on a hook that keeps the request: whatever parameter a version has is in there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.compat import Context


class _Built(BaseException):
    """The request is complete. No ``Exception``, so that Apache's operator does not handle it."""

    def __init__(self, payload: Any) -> None:
        super().__init__()
        self.payload = payload


class _Recorder:
    """
    Stands where the operator has its hook. Names are not looked up yet, and no run is cancelled.

    :param hook: the operator's hook, for everything else
    """

    def __init__(self, hook: Any) -> None:
        self._hook = hook
        self.names: dict[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._hook, name)

    def submit_run(self, json: Any) -> Any:
        raise _Built(json)

    def run_now(self, json: Any) -> Any:
        raise _Built(json)

    def cancel_all_runs(self, job_id: Any) -> None:
        """Not yet: ``cancel_previous_runs`` has its moment, which is not every time a request is built."""

    def find_job_id_by_name(self, job_name: str) -> str:
        self.names["job_id"] = job_name
        return job_name

    def find_pipeline_id_by_name(self, pipeline_name: str) -> str:
        self.names["pipeline_id"] = pipeline_name
        return pipeline_name


def build(
    operator: Any, apache: type[Any], context: Context, check: Callable[[Any, str], None]
) -> tuple[dict[str, Any], dict[str, str]]:
    """
    Return the body of the request that ``operator`` would send now, without any request.

    :param operator: the operator, its templates rendered
    :param apache: the class of Apache's that it derives from
    :param context: Airflow's context
    :param check: called with the body and what an error begins with
    :return: the body, and the names in it that are to be looked up: by ``job_id`` or ``pipeline_id``, which
        hold the name instead
    :raises AirflowException: Apache's operator does not accept its parameters
    :raises ValueError: ``check`` does not
    """
    hook, json = operator._hook, operator.json
    recorder = _Recorder(hook)
    # Where its cached property looks; and a copy, because older versions write into their own parameter.
    operator.__dict__["_hook"] = recorder
    operator.json = copy.deepcopy(json)
    try:
        # With Airflow's mixin the request is made in submit_job, without it in execute.
        send = vars(apache).get("submit_job") or apache.execute
        send(operator, context)
    except _Built as built:
        check(built.payload, f"{type(operator).__name__}(task_id={operator.task_id!r})")
        return dict(built.payload), recorder.names
    finally:
        operator.__dict__["_hook"] = hook
        operator.json = json
    raise RuntimeError(f"{apache.__name__} made no request")


def look_up(
    payload: dict[str, Any], names: Mapping[str, str], hook: Any, known: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """
    Put ids in the place of names.

    :param payload: a request's body, from ``build``
    :param names: the names in it, from ``build``
    :param hook: a ``DatabricksHook``
    :param known: ids that need not be asked for
    :return: the ids
    :raises ValueError: there is no job or pipeline of this name
    """
    ids: dict[str, JsonValue] = {}
    for key, name in names.items():
        find = hook.find_job_id_by_name if key == "job_id" else hook.find_pipeline_id_by_name
        ids[key] = known.get(key) or find(name)
        if not ids[key]:
            raise ValueError(f"Databricks has no {key.removesuffix('_id')} named {name!r}.")
        (payload if key == "job_id" else payload["pipeline_task"])[key] = ids[key]
    return ids
