"""A deferral that one operator begins is ended by the other: each understands the events of both triggers."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable import TriggerFailedError
from airflow_provider_durable.resumable.compat import AirflowException
from parity.pairs import PAIRS
from parity.services import call, service_of

if TYPE_CHECKING:
    from parity.pairs import Pair
    from parity.services import Running

try:
    from airflow.sdk.exceptions import TaskDeferred
except ImportError:  # Airflow below 3.2
    from airflow.exceptions import TaskDeferred

each_pair = pytest.mark.parametrize(
    "pair", [pair for pair in PAIRS if pair.name != "SparkSubmitOperator"], ids=str
)


@pytest.fixture
def service(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    with service_of(pair, monkeypatch) as running:
        yield running


def deferred(operator: type[Any], pair: Pair, service: Running) -> TaskDeferred:
    """Have the operator defer."""
    arguments = {**service.arguments}
    if operator is pair.apache:
        arguments.pop("databricks_retry_args", None)  # tenacity's objects cannot travel with its trigger
    task = operator(**pair.given(**arguments, deferrable=True))
    with pytest.raises(TaskDeferred) as deferral:
        task.execute({**service.context(), "task": task})
    return deferral.value


@each_pair
def test_the_method_that_ends_it_is_the_same(pair: Pair, service: Running) -> None:
    assert deferred(pair.ours, pair, service).method_name == "execute_complete"
    for operator in pair.both:
        assert callable(operator.execute_complete)


@each_pair
def test_apaches_operator_succeeds_at_our_triggers_success(pair: Pair, service: Running) -> None:
    deferral = deferred(pair.ours, pair, service)
    event = deferral.trigger.event("success", "ended")
    task = pair.apache(**pair.given(**service.arguments))
    ran = call(service, task, "execute_complete", event, **(deferral.kwargs or {}))
    assert ran.error is None
    ours = pair.ours(**pair.given(**service.arguments))
    # Databricks' return nothing, and not every version of the others notes the id on the task.
    assert ran.returned in (None, "ID", deferral.trigger.external_id)
    assert call(service, ours, "execute_complete", event).returned == "ID"


@each_pair
@pytest.mark.parametrize("status", ["failed", "unknown", "timeout", "error"])
def test_apaches_operator_fails_at_whatever_else_our_trigger_says(
    pair: Pair, service: Running, status: str
) -> None:
    deferral = deferred(pair.ours, pair, service)
    event = deferral.trigger.event(status, "said our trigger")
    task = pair.apache(**pair.given(**service.arguments))
    ran = call(service, task, "execute_complete", event, **(deferral.kwargs or {}))
    assert isinstance(ran.error, AirflowException)
    assert "said our trigger" in str(ran.error)


@each_pair
def test_ours_ends_a_deferral_that_apaches_began_in_the_jobs_result(pair: Pair, service: Running) -> None:
    event = event_of_apaches(pair, service)
    task = pair.ours(**pair.given(**service.arguments))
    ran = call(service, task, "execute_complete", event)
    assert ran.error is None
    assert ran.returned == "ID"


@each_pair
def test_ours_fails_a_deferral_that_apaches_began_if_the_job_has(pair: Pair, service: Running) -> None:
    service.fail()
    event = event_of_apaches(pair, service)
    task = pair.ours(**pair.given(**service.arguments))
    error = call(service, task, "execute_complete", event).error
    assert isinstance(error, AirflowException)
    assert not isinstance(error, TriggerFailedError)


def event_of_apaches(pair: Pair, service: Running) -> dict[str, Any]:
    """Have Apache's operator defer, and its trigger run: return what that says."""
    if pair.name == "BatchOperator":
        # Needs a library that pins another boto3. It says this of a job that succeeded, and else nothing.
        return {"status": "success", "job_id": service.start()}
    service.hold()
    event: dict[str, Any] = asyncio.run(service.triggerer(deferred(pair.apache, pair, service).trigger))
    return event


@each_pair
def test_both_take_the_event_by_position_and_by_name(pair: Pair) -> None:
    for operator in pair.both:
        inspect.signature(operator.execute_complete).bind("self", "context", "event")
        inspect.signature(operator.execute_complete).bind("self", context="context", event="event")
