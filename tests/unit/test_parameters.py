"""Parameters: from wherever they are given, and clear errors for what cannot be meant."""

from __future__ import annotations

import copy
import warnings
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest

from airflow_provider_durable import ResumableJobMixin
from airflow_provider_durable.resumable import HAS_TASK_STATE_STORE
from airflow_provider_durable.resumable.compat import AirflowException, BaseOperator
from airflow_provider_durable.resumable.settings import Settings
from unit.fakes import Durable, SixHooks, Store, context, make

try:
    from airflow.sdk import DAG
except ImportError:
    from airflow import DAG

durable_only = pytest.mark.task_state_store
shim_only = pytest.mark.no_task_state_store

DEFAULTS = {
    "wait_for_termination": True,
    "deferrable": False,
    "mode": "poke",
    "poll_interval": 30,
    "poll_error_window": timedelta(minutes=10),
    "cancel_on_kill": True,
    "on_clear": "resubmit",
    "on_lost_submission": "resubmit",
    "state_retention": None,
}


def dag(**default_args: Any) -> DAG:
    return DAG(
        "d", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=timezone.utc), default_args=default_args
    )


def test_defaults() -> None:
    task = SixHooks(task_id="job")
    assert {name: getattr(task, name) for name in DEFAULTS} == DEFAULTS
    assert task.durable is HAS_TASK_STATE_STORE


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("durable", False),
        ("wait_for_termination", False),
        ("deferrable", True),
        ("poll_interval", 5),
        ("poll_error_window", 60),
        ("cancel_on_kill", False),
        ("on_clear", "resume"),
        ("on_lost_submission", "fail"),
        ("state_retention", timedelta(days=1)),
    ],
)
def test_every_parameter_works_from_default_args(name: str, value: Any) -> None:
    with dag(**{name: value}):
        assert getattr(Durable(task_id="job"), name) == value


@durable_only
def test_reschedule_works_from_default_args() -> None:
    with dag(mode="reschedule"):
        assert Settings.of(Durable(task_id="job")).reschedules


@durable_only
@pytest.mark.parametrize("in_default_args", [True, False])
@pytest.mark.parametrize(("name", "value"), [("deferrable", True), ("durable", False)])
def test_a_mode_that_default_args_have_for_sensors_gives_way(
    name: str, value: bool, in_default_args: bool
) -> None:
    told = {name: value}
    with dag(mode="reschedule", **(told if in_default_args else {})):
        settings = Settings.of(Durable(task_id="job", **({} if in_default_args else told)))
    assert (settings.reschedules, settings.defers) == (False, name == "deferrable")


def test_an_argument_beats_default_args() -> None:
    with dag(durable=False, on_clear="resume"):
        task = Durable(task_id="job", on_clear="resubmit")
    assert (task.durable, task.on_clear) == (False, "resubmit")


def test_default_args_reach_mapped_tasks() -> None:
    class Named(Durable):
        def __init__(self, *, name: str, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.name = name

    with dag(durable=False, poll_interval=7):
        mapped = Named.partial(task_id="job", on_clear="resume").expand(name=["a", "b"])
    task = mapped.unmap({"name": "a"})
    assert (task.durable, task.poll_interval, task.on_clear, task.name) == (False, 7, "resume", "a")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        (
            {"mode": "sleep"},
            r"Durable\(task_id='job'\): mode='sleep' is not known. Write mode='poke' or 'reschedule'",
        ),
        ({"on_clear": True}, "on_clear=True is not known. Write on_clear='resubmit' or 'resume'"),
        ({"on_lost_submission": "x"}, "Write on_lost_submission='resubmit' or 'fail'"),
        ({"poll_interval": 0}, "poll_interval=0 must be more than 0 seconds"),
        ({"poll_error_window": timedelta(0)}, "must be more than 0 seconds"),
        ({"state_retention": 7}, "more than 0 and less than 1,000 years"),
        ({"state_retention": timedelta(0)}, "more than 0 and less than 1,000 years"),
        ({"state_retention": timedelta(days=900_000_000)}, "airflow.sdk.NEVER_EXPIRE"),
        (
            {"deferrable": True, "wait_for_termination": False},
            "deferrable=True waits .*, wait_for_termination=False does not. Write wait_for_termination=True",
        ),
        (
            {"deferrable": True, "mode": "reschedule"},
            "deferrable=True .*mode='reschedule'.* Leave one of the two out",
        ),
        (
            {"mode": "reschedule", "durable": False},
            "mode='reschedule' .*durable=False.* Leave one of the two out",
        ),
    ],
)
def test_what_cannot_be_meant_is_an_error_when_the_dag_is_parsed(parameters: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Durable(task_id="job", **parameters)


def test_deferrable_without_a_trigger_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(ValueError, match=r"Define make_trigger\(self, external_id, context\) in SixHooks"):
        SixHooks(task_id="job", deferrable=True)


def test_deferrable_from_the_configuration_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    assert Settings.of(Durable(task_id="job")).defers
    assert not Settings.of(Durable(task_id="job", wait_for_termination=False)).leaves_worker
    assert not Settings.of(SixHooks(task_id="job")).defers
    assert not Settings.of(Durable(task_id="job", deferrable=False)).defers


@durable_only
def test_reschedule_beats_deferrable_from_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
    settings = Settings.of(Durable(task_id="job", mode="reschedule"))
    assert (settings.defers, settings.reschedules) == (False, True)


class Apache(BaseOperator):
    """An operator of a provider package, with parameters of its own."""

    def __init__(
        self, *, deferrable: bool = True, poll_interval: int = 4, mode: str = "append", **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable
        self.poll_interval = poll_interval
        self.mode = mode


class Both(ResumableJobMixin, Apache):
    """A drop-in for it."""

    execute = Durable.execute
    submit_job = Durable.submit_job
    get_job_status = Durable.get_job_status
    is_job_active = Durable.is_job_active
    is_job_succeeded = Durable.is_job_succeeded
    get_job_result = Durable.get_job_result
    make_trigger = Durable.make_trigger


def test_the_next_class_keeps_its_parameters_and_their_defaults() -> None:
    task = Both(task_id="job")
    assert (task.deferrable, task.poll_interval, task.mode) == (True, 4, "append")
    task = Both(task_id="job", deferrable=False, poll_interval=9, mode="overwrite", on_clear="resume")
    assert (task.deferrable, task.poll_interval, task.mode) == (False, 9, "overwrite")
    assert task.on_clear == "resume"
    assert not Settings.of(task).reschedules


def test_an_unknown_parameter_is_still_an_error() -> None:
    with pytest.raises((TypeError, AirflowException), match="dureable"):
        Both(task_id="job", dureable=True)


@pytest.mark.parametrize(
    ("rendered", "waits"), [("True", True), ("false", False), ("0", False), (True, True), (False, False)]
)
def test_a_templated_switch_counts_once_it_is_rendered(rendered: Any, waits: bool) -> None:
    task = Durable(task_id="job")
    task.wait_for_termination = rendered
    assert Settings.of(task).waits is waits


def test_a_templated_switch_is_checked_after_rendering() -> None:
    task = Durable(task_id="job", deferrable=True, wait_for_termination="{{ params.wait }}")
    task.wait_for_termination = "maybe"
    with pytest.raises(ValueError, match="'maybe'; it must be True or False"):
        Settings.of(task)
    task.wait_for_termination = "False"
    with pytest.raises(ValueError, match="deferrable=True waits for the job"):
        task.execute(context(Store()))


def test_operators_can_be_copied() -> None:
    task = make(Durable, on_clear="resume")
    assert copy.deepcopy(task).on_clear == "resume"


# -- below 3.3 -----------------------------------------------------------------------------------


@shim_only
def test_the_shim_is_silent_unless_durable_is_asked_for() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Durable(task_id="job").durable is False
        assert Durable(task_id="job", durable=False).durable is False
    with pytest.warns(UserWarning, match=r"durable=True needs Airflow 3\.3"):
        assert Durable(task_id="job", durable=True).durable is False


@shim_only
def test_the_shim_says_that_reschedule_holds_the_worker() -> None:
    with pytest.warns(UserWarning, match=r"mode='reschedule' needs Airflow 3\.3"):
        task = Durable(task_id="job", mode="reschedule")
    assert not Settings.of(task).leaves_worker


@shim_only
def test_the_shim_submits_on_every_try() -> None:
    task, store = make(Durable), Store()
    task.service.status = lambda job_id: "SUCCEEDED"
    for number in (1, 2):
        assert task.execute(context(store, try_number=number)) == f"result of job-{number}"
    assert store.calls == []
    with pytest.raises((TypeError, AirflowException)):
        Durable(task_id="job", dureable=True)
