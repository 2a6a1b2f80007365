"""What differs between the two operators of a pair, found by looking: by kind, the names of what differs.

``docs/differences.md`` lists what is meant to be found here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable.compat import AirflowException
from parity.dags import encoded
from parity.pairs import parameters_of
from parity.services import run, service_of

if TYPE_CHECKING:
    from parity.pairs import Pair

#: Of a task's attributes, where it is in its Dag, which is made anew for each; the last is there only on
#: tasks that were mapped.
_PLACE = frozenset({"dag", "start_date", "task_group", "returns_dag_result"})


def _parameters_added(pair: Pair) -> set[str]:
    return parameters_of(pair.ours).keys() - parameters_of(pair.apache).keys()


def _parameters_gone(pair: Pair) -> set[str]:
    return parameters_of(pair.apache).keys() - parameters_of(pair.ours).keys()


def _defaults(pair: Pair) -> set[str]:
    theirs, ours = map(parameters_of, pair.both)
    return {name for name in theirs.keys() & ours.keys() if theirs[name].default != ours[name].default}


def _class_attributes(pair: Pair) -> set[str]:
    """Template fields, links, colours, and whatever else is no method."""
    theirs, ours = pair.both
    return {
        name for name, value in _public(theirs) if not _is_code(value) and getattr(ours, name, None) != value
    }


def _names_gone(pair: Pair) -> set[str]:
    return {name for name, _ in _public(pair.apache) if not hasattr(pair.ours, name)}


def _signatures(pair: Pair) -> set[str]:
    theirs, ours = pair.both
    return {
        name
        for name, method in _public(theirs)
        if inspect.isfunction(method) and not _takes_all_that(getattr(ours, name), method)
    }


def _public(operator: type[Any]) -> Iterator[tuple[str, Any]]:
    for name in dir(operator):
        if not name.startswith("_"):
            yield name, inspect.getattr_static(operator, name)


def _is_code(value: Any) -> bool:
    return not inspect.isclass(value) and (callable(value) or hasattr(value, "__get__"))


def _takes_all_that(ours: Any, theirs: Any) -> bool:
    """Return whether ``ours`` can be called in every way in which ``theirs`` can."""
    if not callable(ours):
        return False
    mine = list(inspect.signature(ours).parameters.values())
    others = list(inspect.signature(theirs).parameters.values())
    by_name = {parameter.name: parameter for parameter in mine}
    for position, parameter in enumerate(others):
        counterpart = by_name.pop(parameter.name, None)
        if counterpart is None or counterpart.kind != parameter.kind:
            return False
        is_positional = parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        if is_positional and (position >= len(mine) or mine[position].name != parameter.name):
            return False
        if parameter.default is not parameter.empty and counterpart.default is counterpart.empty:
            return False
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return all(more.default is not more.empty or more.kind in variadic for more in by_name.values())


def state_of(task: Any) -> dict[str, Any]:
    """Return a task's public attributes, wherever in a Dag it is."""
    return {
        name: value for name, value in vars(task).items() if not name.startswith("_") and name not in _PLACE
    }


def differing(state: dict[str, Any], task: Any) -> set[str]:
    """Return the names of what ``task`` has otherwise."""
    return {name for name, value in state.items() if not _alike(value, getattr(task, name, _GONE))}


def _alike(value: Any, other: Any) -> bool:
    """Return whether two values, or two objects that each task made for itself, are the same."""
    return bool(value == other) or (type(value) is type(other) and type(value).__eq__ is object.__eq__)


_GONE = object()


def _attribute_values(pair: Pair) -> set[str]:
    """Attributes of a task as it is made."""
    theirs, ours = (operator(**pair.given()) for operator in pair.both)
    return differing(state_of(theirs), ours)


def _encoded(pair: Pair) -> set[str]:
    """Fields of a task in a serialized Dag."""
    theirs, ours = (encoded(operator, **pair.given()) for operator in pair.both)
    return {name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name)}


def _returned(pair: Pair) -> set[str]:
    """What a task returns."""
    with pytest.MonkeyPatch.context() as patch, service_of(pair, patch) as service:
        theirs, ours = (run(pair, operator, service) for operator in pair.both)
    assert theirs.error is ours.error is None
    return {"execute"} if theirs.returned != ours.returned else set()


def _pushed(pair: Pair) -> set[str]:
    """XComs of a task that succeeded."""
    with pytest.MonkeyPatch.context() as patch, service_of(pair, patch) as service:
        theirs, ours = (run(pair, operator, service).pushed for operator in pair.both)
    return {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}


def _attributes_afterwards(pair: Pair) -> set[str]:
    """What listeners, OpenLineage's among them, read of a task that has run."""
    with pytest.MonkeyPatch.context() as patch, service_of(pair, patch) as service:
        theirs, ours = (run(pair, operator, service) for operator in pair.both)
    return differing(state_of(theirs.task), ours.task) - {service.id_attribute}


def _raised(pair: Pair) -> set[str]:
    """What a task raises whose job failed."""
    with pytest.MonkeyPatch.context() as patch, service_of(pair, patch) as service:
        service.fail()
        theirs, ours = (run(pair, operator, service).error for operator in pair.both)
    assert isinstance(ours, AirflowException)
    return set() if isinstance(ours, type(theirs)) else {type(theirs).__name__}


#: By the word that the page uses for it.
KINDS: dict[str, Callable[[Pair], set[str]]] = {
    "parameter, new": _parameters_added,
    "parameter, gone": _parameters_gone,
    "default": _defaults,
    "class attribute": _class_attributes,
    "public name, gone": _names_gone,
    "method, called otherwise": _signatures,
    "attribute": _attribute_values,
    "serialized field": _encoded,
    "return value": _returned,
    "XCom": _pushed,
    "attribute, after the run": _attributes_afterwards,
    "error of a failed job": _raised,
}
