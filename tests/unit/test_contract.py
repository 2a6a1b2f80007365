"""What Airflow's own mixin promises to operators with its six hooks holds on ours, unchanged."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from airflow_provider_durable import ResumableJobMixin
from unit.fakes import Durable, Service, SixHooks, Store, context, make

pytestmark = pytest.mark.task_state_store


def test_is_a_subclass_of_airflows() -> None:
    from airflow.sdk import ResumableJobMixin as AirflowResumableJobMixin

    assert issubclass(ResumableJobMixin, AirflowResumableJobMixin)
    assert isinstance(make(SixHooks), AirflowResumableJobMixin)


def test_a_first_run_stores_the_id_and_nothing_else() -> None:
    task, store = make(SixHooks), Store()
    assert task.execute(context(store)) == "result of job-1"
    assert store.calls == [("get", "job_id"), ("set", "job_id", "job-1", {})]
    assert task.service.calls == ["submit", "submit-answer", "poll", "result"]


def test_the_id_is_stored_before_the_wait() -> None:
    task, store = make(SixHooks), Store()

    def die(*_: Any) -> None:
        assert store.values == {"job_id": "job-1"}
        raise RuntimeError("died")

    task.poll_until_complete = die
    with pytest.raises(RuntimeError, match="died"):
        task.execute(context(store))


def test_a_retry_with_an_active_job_reconnects_and_returns_its_result() -> None:
    service, store = Service(), Store()
    store.values["job_id"] = service.submit()
    task = make(SixHooks, service)
    assert task.execute(context(store, try_number=2)) == "result of job-1"
    assert list(service.jobs) == ["job-1"]
    assert store.sets() == []


def test_a_retry_with_a_succeeded_job_returns_without_waiting() -> None:
    service, store = Service(), Store()
    store.values["job_id"] = service.submit()
    service.jobs["job-1"].status = "SUCCEEDED"
    assert make(SixHooks, service).execute(context(store, try_number=2)) == "result of job-1"
    assert "poll" not in service.calls


@pytest.mark.parametrize("status", ["FAILED", "NOT_FOUND"])
def test_a_retry_with_a_failed_or_unknown_job_submits(status: str) -> None:
    service, store = Service(), Store()
    store.values["job_id"] = service.submit()
    service.jobs["job-1"].status = status
    assert make(SixHooks, service).execute(context(store, try_number=2)) == "result of job-2"
    assert store.values["job_id"] == "job-2"


def test_a_status_request_that_fails_never_leads_to_a_submission() -> None:
    service, store = Service(), Store()
    store.values["job_id"] = service.submit()
    service.failures["status"] = [ConnectionError("no route")]
    with pytest.raises(ConnectionError):
        make(SixHooks, service).execute(context(store, try_number=2))
    assert list(service.jobs) == ["job-1"]


def test_submit_job_returning_none_stores_nothing() -> None:
    task, store = make(SixHooks), Store()
    task.submit_job = lambda context: None
    task.poll_until_complete = lambda external_id, context: None
    assert task.execute(context(store)) == "result of None"
    assert store.sets() == []


@pytest.mark.parametrize("operator", [SixHooks, Durable])
def test_a_context_without_a_store_runs_and_warns(
    operator: type[SixHooks], capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    task = make(operator)
    if operator is Durable:
        task.service.status = lambda job_id: "SUCCEEDED"
    with caplog.at_level(logging.WARNING):
        assert task.execute(context()) == "result of job-1"
    assert "crash recovery is disabled" in capfd.readouterr().out + caplog.text


@pytest.mark.parametrize("operator", [SixHooks, Durable])
def test_a_context_without_a_task_instance_works(operator: type[SixHooks]) -> None:
    task, store = make(operator), Store()
    task.service.status = lambda job_id: "SUCCEEDED"
    assert task.execute({"task_state_store": store}) == "result of job-1"
    assert store.values == {"job_id": "job-1"}


@pytest.mark.parametrize("operator", [SixHooks, Durable])
def test_not_durable_touches_no_store_and_submits_always(operator: type[SixHooks]) -> None:
    service, store = Service(), Store()
    store.values["job_id"] = "job-0"
    for number in (1, 2):
        task = make(operator, service, durable=False)
        service.status = lambda job_id: "SUCCEEDED"  # type: ignore[method-assign]
        assert task.execute(context(store, try_number=number)) == f"result of job-{number}"
    assert store.calls == []


def test_durable_can_be_switched_off_on_the_instance() -> None:
    task, store = make(SixHooks), Store()
    task.durable = False
    task.execute(context(store))
    assert store.calls == []


def test_retention_is_passed_on_only_when_it_is_set() -> None:
    task, store = make(SixHooks, state_retention=timedelta(days=3)), Store()
    task.execute(context(store))
    assert store.calls[-1] == ("set", "job_id", "job-1", {"retention": timedelta(days=3)})


def test_an_operator_with_a_deferrable_of_its_own_goes_on_deciding_for_itself() -> None:
    class Own(SixHooks):
        def __init__(self, *, deferrable: bool = True, mode: str = "append", **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.deferrable = deferrable
            self.mode = mode

    store = Store()
    assert make(Own, deferrable=True).execute(context(store)) == "result of job-1"
    assert store.sets() == ["job_id"]


def test_metrics_and_span_keep_airflows_names(monkeypatch: pytest.MonkeyPatch) -> None:
    from airflow.sdk._shared.observability.metrics import stats

    counted: list[tuple[str, Any]] = []
    monkeypatch.setattr(stats, "incr", lambda name, tags=None, **_: counted.append((name, tags)))
    service, store = Service(), Store()
    make(SixHooks, service).execute(context(store, stats_tags={"team_name": "blue"}))
    service.jobs["job-1"].status = "RUNNING"
    make(SixHooks, service).execute(context(store, try_number=2))
    make(SixHooks, service).execute(context(store, try_number=3))
    service.jobs["job-1"].status = "FAILED"
    make(SixHooks, service).execute(context(store, try_number=4))
    assert [name for name, _ in counted] == [
        "resumable_job.fresh_submit",
        "resumable_job.reconnect_attempt",
        "resumable_job.reconnect_success",
        "resumable_job.reconnect_attempt",
        "resumable_job.already_succeeded",
        "resumable_job.reconnect_attempt",
        "resumable_job.terminal_resubmit",
    ]
    assert counted[0][1] == {"operator": "SixHooks", "team_name": "blue"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """Spans that were opened, with their attributes."""
    from contextlib import contextmanager

    from opentelemetry import trace

    opened: list[tuple[str, dict[str, Any]]] = []

    class Span:
        def __init__(self, attributes: dict[str, Any]) -> None:
            self.set_attribute = attributes.__setitem__

    class Tracer:
        @contextmanager
        def start_as_current_span(self, name: str) -> Any:
            opened.append((name, {}))
            yield Span(opened[-1][1])

    monkeypatch.setattr(trace, "get_tracer", lambda _: Tracer())
    return opened


def test_the_span_says_what_was_decided(spans: list[tuple[str, dict[str, Any]]]) -> None:
    service, store = Service(), Store()
    store.values["job_id"] = service.submit()
    make(SixHooks, service).execute(context(store, try_number=2))
    assert spans == [
        (
            "resumable_job.resume_decision",
            {
                "operator": "SixHooks",
                "resumable.external_id_key": "job_id",
                "resumable.external_id": "job-1",
                "resumable.prior_status": "RUNNING",
                "resumable.decision": "reconnect",
            },
        )
    ]


def test_the_span_says_that_there_was_no_store(spans: list[tuple[str, dict[str, Any]]]) -> None:
    make(SixHooks).execute(context())
    assert spans[0][1]["resumable.decision"] == "no_task_state_store"
    make(SixHooks, durable=False).execute(context())
    assert len(spans) == 1
