"""Every argument of Apache's and of ours is taken wherever Airflow takes arguments, and acts alike."""

from __future__ import annotations

import copy
import inspect
import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE
from airflow_provider_durable.resumable.compat import AirflowException
from airflow_provider_durable.resumable.parameters import NOT_GIVEN
from parity.dags import in_a_dag, new_dag
from parity.observed import differing, state_of
from parity.pairs import PAIRS, own_parameters_of, parameters_of

if TYPE_CHECKING:
    from parity.pairs import Pair

#: A value of each of the mixin's parameters that is not its default.
OF_THE_MIXIN: dict[str, Any] = {
    "cancel_on_kill": False,
    "deferrable": True,
    "durable": False,
    "mode": "reschedule",
    "on_clear": "resume",
    "on_lost_submission": "fail",
    "poll_error_window": timedelta(minutes=3),
    "poll_interval": 9,
    "state_retention": timedelta(days=3),
    "wait_for_termination": False,
}
each_pair = pytest.mark.parametrize("pair", PAIRS, ids=str)
pytestmark = [
    # Below 3.3 it says that the worker is held.
    pytest.mark.filterwarnings("ignore:mode='reschedule' needs Airflow 3.3:UserWarning"),
    # Apache's say so of parameters of their own.
    pytest.mark.filterwarnings("ignore:.* is deprecated:DeprecationWarning"),
]


def arguments_of_apaches(pair: Pair) -> Iterator[tuple[str, Any]]:
    for name, parameter in own_parameters_of(pair.apache).items():
        yield name, pair.sample(parameter)


def arguments_of_ours(pair: Pair) -> Iterator[tuple[str, Any]]:
    parameters = own_parameters_of(pair.ours)
    new = parameters.keys() - own_parameters_of(pair.apache).keys()
    if pair.ours.poll_interval_parameter != "poll_interval":
        new -= {"poll_interval"}  # refused, with the name that Apache's has for it
    for name in sorted(new):
        yield name, OF_THE_MIXIN[name] if name in OF_THE_MIXIN else pair.sample(parameters[name])


def all_arguments(pair: Pair) -> Iterator[tuple[str, Any]]:
    yield from arguments_of_apaches(pair)
    yield from arguments_of_ours(pair)


#: Below 3.3 there is nothing to remember it in, and durable reads False.
KNOWN = set() if HAS_TASK_STATE_STORE else {"durable"}


@each_pair
def test_every_argument_of_apaches_makes_the_task_that_it_makes_there(pair: Pair) -> None:
    theirs, ours = pair.both
    for name, value in arguments_of_apaches(pair):
        given = pair.given(**{name: value})
        assert differing(state_of(theirs(**given)), ours(**given)) - KNOWN == set(), name


@each_pair
def test_every_argument_of_ours_acts_and_changes_nothing_else(pair: Pair) -> None:
    plain = pair.ours(**pair.given())
    #: The same switch under two names, and whether the author used it.
    aliases = {"wait_parameter", "wait_for_completion", "deferrable_given"}
    for name, value in arguments_of_ours(pair):
        task = pair.ours(**pair.given(**{name: value}))
        changed = differing(state_of(plain), task)
        assert changed <= {name} | aliases, name
        if name in OF_THE_MIXIN:
            assert getattr(task, name) == value, name
            assert changed or name in KNOWN, name


@each_pair
def test_the_signature_names_every_argument_with_its_default(pair: Pair) -> None:
    shown = dict(inspect.signature(pair.ours).parameters)
    assert shown.pop("kwargs").kind is inspect.Parameter.VAR_KEYWORD
    apaches = parameters_of(pair.apache)
    assert own_parameters_of(pair.ours).keys() <= shown.keys() <= parameters_of(pair.ours).keys()
    for name, parameter in shown.items():
        assert parameter.kind is inspect.Parameter.KEYWORD_ONLY
        default = apaches[name].default if name in apaches else parameter.default
        assert parameter.default == default
        assert parameter.default is not NOT_GIVEN


@each_pair
def test_an_unknown_argument_is_an_error_as_it_is_there(pair: Pair) -> None:
    errors = []
    for operator in pair.both:
        with pytest.raises(Exception, match="no_such_argument") as error:
            operator(**pair.given(no_such_argument=1))
        errors.append(error.type)
    assert errors[0] is errors[1]


@each_pair
def test_arguments_are_named_as_they_are_there(pair: Pair) -> None:
    for operator in pair.both:
        with pytest.raises((TypeError, AirflowException), match="Use keyword arguments"):
            operator("task")


@each_pair
def test_every_argument_may_come_from_default_args(pair: Pair) -> None:
    for name, value in all_arguments(pair):
        given = pair.given(**{name: value})
        direct = state_of(in_a_dag(pair.ours, **given))
        with new_dag(**{name: given.pop(name)}):
            assert differing(direct, pair.ours(**given)) == set(), name


@each_pair
def test_every_argument_may_be_partial(pair: Pair) -> None:
    element = {pair.mapped: pair.samples[pair.mapped]}
    for name, value in all_arguments(pair):
        if name != pair.mapped:
            given = pair.given(**{name: value})
            _check_mapped(pair, {**given, **element}, element)


@each_pair
def test_every_argument_may_be_expanded(pair: Pair) -> None:
    for name, value in all_arguments(pair):
        _check_mapped(pair, pair.given(**{name: value}), {name: value})


def _check_mapped(pair: Pair, given: dict[str, Any], element: dict[str, Any]) -> None:
    direct = state_of(in_a_dag(pair.ours, **given))
    constant = {name: value for name, value in given.items() if name not in element}
    with new_dag():
        lists = {name: [value] for name, value in element.items()}
        mapped = pair.ours.partial(**constant).expand(**lists)
    assert differing(direct, mapped.unmap(element)) == set(), given


@each_pair
def test_default_args_reach_mapped_tasks(pair: Pair) -> None:
    element = {pair.mapped: pair.samples[pair.mapped]}
    for name, value in all_arguments(pair):
        if name == pair.mapped:
            continue
        given = pair.given(**{name: value, **element})
        direct = state_of(in_a_dag(pair.ours, **given))
        constant = {key: value for key, value in given.items() if key not in (name, pair.mapped)}
        with new_dag(**{name: given[name]}):
            mapped = pair.ours.partial(**constant).expand(**{pair.mapped: [element[pair.mapped]]})
        assert differing(direct, mapped.unmap(element)) == set(), name


def pickled(task: Any) -> Any:
    return pickle.loads(pickle.dumps(task))


@each_pair
@pytest.mark.parametrize("made_anew", [copy.copy, copy.deepcopy, pickled])
def test_a_task_can_be_copied_and_pickled(pair: Pair, made_anew: Callable[[Any], Any]) -> None:
    for name, value in all_arguments(pair):
        task = in_a_dag(pair.ours, **pair.given(**{name: value}))
        again = made_anew(task)
        assert type(again) is pair.ours
        assert differing(state_of(task), again) == set(), name
