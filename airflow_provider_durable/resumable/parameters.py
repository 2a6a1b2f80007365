"""
The parameters that every durable operator has: their defaults, who gets them, what cannot be combined.

Where the next class in line (Apache's operator) takes a parameter of the same name, the value is
passed on and its default holds; the rest are attributes of the mixin's own.
"""

from __future__ import annotations

import functools
import inspect
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.resumable.compat import NEVER_EXPIRE, conf

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_durable.resumable.hooks import JobHooks


class _NotGiven:
    """Tells a parameter left at its default from one that the author set."""

    def __repr__(self) -> str:
        return "<default>"


NOT_GIVEN: Any = _NotGiven()

_CHOICES = {
    "mode": ("poke", "reschedule"),
    "on_clear": ("resubmit", "resume"),
    "on_lost_submission": ("resubmit", "fail"),
}

#: What Airflow can still add to today's date.
_LONGEST = timedelta(days=365 * 1000)

DEFAULTS: dict[str, Any] = {
    "durable": True,
    "wait_for_termination": True,
    "mode": "poke",
    "poll_interval": 30,
    "poll_error_window": timedelta(minutes=10),
    "cancel_on_kill": True,
    "on_clear": "resubmit",
    "on_lost_submission": "resubmit",
    "state_retention": None,
}


def default_of(name: str) -> Any:
    """Return the mixin's own default of parameter ``name``."""
    if name == "deferrable":
        return conf.getboolean("operators", "default_deferrable", fallback=False)
    return DEFAULTS[name]


def refuse_poll_interval(cls: type[JobHooks], given: Mapping[str, Any], where: str) -> None:
    """
    Refuse ``poll_interval`` where Apache's operator has another name for it.

    :param cls: the operator's class
    :param given: the arguments that the author wrote; ``default_args`` may be for other operators, too
    :param where: what the error begins with
    :raises ValueError: it is among them
    """
    if "poll_interval" in given:
        raise ValueError(
            f"{where}: poll_interval is called {cls.poll_interval_parameter} here, as in Apache's operator."
        )


@functools.cache
def parameters_behind(cls: type[Any], mixin: type[Any]) -> frozenset[str]:
    """Return the names that the classes after ``mixin`` in the MRO of ``cls`` take in ``__init__``."""
    mro = cls.__mro__
    names: set[str] = set()
    for behind in mro[mro.index(mixin) + 1 :]:
        if init := vars(behind).get("__init__"):
            names.update(inspect.signature(init).parameters)
    return frozenset(names)


def mode_gives_way(parameters: Mapping[str, Any], default_args: Mapping[str, Any] | None) -> bool:
    """
    Return whether ``mode`` is only there for the Dag's sensors, and the operator is told something else.

    Dags have ``mode="reschedule"`` in ``default_args``, where no operator took notice of it before.

    :param parameters: the mixin's, as they arrived
    :param default_args: of the Dag, the task group and the task
    """
    shared = (default_args or {}).get("mode", NOT_GIVEN)
    defers = parameters["deferrable"] is not NOT_GIVEN and bool(parameters["deferrable"])
    return shared is not NOT_GIVEN and shared == parameters["mode"] and (defers or not parameters["durable"])


def seconds_of(value: Any) -> float:
    """Return a duration, given as a number of seconds or as a timedelta, in seconds."""
    return value.total_seconds() if isinstance(value, timedelta) else float(value)


def _where(operator: JobHooks) -> str:
    return f"{type(operator).__name__}(task_id={getattr(operator, 'task_id', None)!r})"


def check(operator: JobHooks, given: set[str], own: set[str]) -> None:
    """
    Check an operator's parameters when the Dag is parsed.

    :param operator: the operator, constructed
    :param given: the mixin's parameters that the author gave
    :param own: those among them that no class behind takes for something of its own
    :raises ValueError: a value that cannot be meant, or a combination that is impossible
    """
    from airflow_provider_durable.resumable.hooks import JobHooks

    where = _where(operator)
    for name in sorted(own & _CHOICES.keys()):
        value = getattr(operator, name)
        if value not in _CHOICES[name]:
            choices = " or ".join(repr(choice) for choice in _CHOICES[name])
            raise ValueError(f"{where}: {name}={value!r} is not known. Write {name}={choices}.")
    for name in sorted(given & {operator.poll_interval_parameter, "poll_error_window"}):
        value = getattr(operator, name)
        if isinstance(value, (int, float, timedelta)) and seconds_of(value) <= 0:
            raise ValueError(f"{where}: {name}={value!r} must be more than 0 seconds.")
    retention: Any = operator.state_retention
    endless = retention is None or retention == NEVER_EXPIRE
    if not endless and not (isinstance(retention, timedelta) and timedelta(0) < retention < _LONGEST):
        raise ValueError(
            f"{where}: state_retention={retention!r} is no duration. Write a timedelta of more than 0 and "
            "less than 1,000 years, airflow.sdk.NEVER_EXPIRE, or leave it out for Airflow's default."
        )
    reschedule = "mode" in own and operator.mode == "reschedule"
    if reschedule and "durable" in given and not operator.durable:
        raise ValueError(
            f"{where}: mode='reschedule' comes back to its job through the task state store, which "
            "durable=False does not use. Leave one of the two out."
        )
    if "deferrable" not in given or not operator.deferrable:
        return
    if reschedule:
        raise ValueError(
            f"{where}: deferrable=True waits in the triggerer, mode='reschedule' without one. Leave one of "
            "the two out."
        )
    if type(operator).make_trigger is JobHooks.make_trigger:
        raise ValueError(
            f"{where}: deferrable=True needs a trigger. Define make_trigger(self, external_id, context) in "
            f"{type(operator).__name__}, or write mode='reschedule', which frees the worker without one."
        )
    check_wait(operator, operator.should_wait())


def check_wait(operator: JobHooks, waits: bool | None) -> None:
    """
    Check whether an operator that is to defer also waits.

    :raises ValueError: the author asked for ``deferrable=True`` and for not waiting
    """
    if waits is False and operator.deferrable and operator.deferrable_given:
        raise ValueError(
            f"{_where(operator)}: deferrable=True waits for the job, {operator.wait_parameter}=False does "
            f"not. Write {operator.wait_parameter}=True to wait in the triggerer, or leave deferrable out to "
            "return once the job is accepted."
        )
