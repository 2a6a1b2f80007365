"""
Metrics and the trace span of the mixin.

Names and attributes are those of Airflow's own mixin where it has them (``resumable_job.*``), so that
dashboards go on working; ours follow the same naming.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.resumable.compat import HAS_TASK_STATE_STORE, log_event
from airflow_provider_durable.resumable.decision import Decision

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_durable.resumable.decision import Situation
    from airflow_provider_durable.resumable.run import JobRun

#: Airflow's: reconnect_attempt, reconnect_success, already_succeeded, terminal_resubmit, fresh_submit.
#: Ours: recovered, lost_submission, cleared_resubmit, left_running, cancelled.
_PREFIX = "resumable_job"


def count(operator: Any, ti: Any, name: str) -> None:
    """
    Count ``resumable_job.<name>``, tagged as Airflow's mixin tags it.

    :param operator: the operator
    :param ti: the task instance, or None
    :param name: the metric's last word
    """
    if not HAS_TASK_STATE_STORE:
        return  # nor is there anything that Airflow's mixin would count
    from airflow.sdk._shared.observability.metrics import stats

    tags = {"operator": type(operator).__name__}
    if team := getattr(ti, "stats_tags", {}).get("team_name"):
        tags["team_name"] = team
    stats.incr(f"{_PREFIX}.{name}", tags=tags)


@contextmanager
def decision_span(operator: Any) -> Iterator[Any]:
    """Open the span ``resumable_job.resume_decision``."""
    from opentelemetry import trace

    with trace.get_tracer(__name__).start_as_current_span(f"{_PREFIX}.resume_decision") as span:
        span.set_attribute("operator", type(operator).__name__)
        span.set_attribute("resumable.external_id_key", operator.external_id_key)
        yield span


def report(run: JobRun, span: Any, decision: Decision, situation: Situation, status: str | None) -> None:
    """
    Tell log, metrics and trace what was decided, and why.

    A try that comes back to its own job, from a reschedule or a trigger, decides nothing new: it is
    traced, logged at debug level, and not counted.
    """
    name, metric, level, text = _describe(decision, situation)
    external_id = situation.external_id
    if external_id:
        span.set_attribute("resumable.external_id", str(external_id))
    if status is not None:
        span.set_attribute("resumable.prior_status", status)
    span.set_attribute("resumable.decision", name)
    coming_back = situation.same_try and decision is not Decision.SUBMIT
    if metric and not coming_back:
        count(run.operator, run.ti, metric)
    fields = {"external_id_key": run.operator.external_id_key, "external_id": external_id, "status": status}
    log_event(
        run.operator.log,
        "debug" if coming_back else level,
        text,
        **{key: value for key, value in fields.items() if value is not None},
    )


def _describe(decision: Decision, situation: Situation) -> tuple[str, str, str, str]:
    """Return the span's word, the metric ("" for none), the log level and the sentence."""
    if decision is Decision.RECONNECT:
        return "reconnect", "reconnect_success", "info", "Reconnecting to existing job"
    if decision is Decision.RECOVER:
        return "recover", "", "info", "A submission's answer was never stored; looking for its job"
    if decision is Decision.FAILED:
        return "failed", "", "debug", "The job of this try ended without success"
    if decision is Decision.FINISHED:
        text = "Job already completed successfully, skipping resubmission"
        if not situation.waits:
            text = "Job was already submitted, skipping resubmission"
        return "already_succeeded", "already_succeeded", "info", text
    if not situation.external_id:
        text = "No stored external ID found; submitting fresh job"
        return "fresh_submit", "fresh_submit", "debug", text
    if situation.cleared:
        return "cleared_resubmit", "cleared_resubmit", "info", "The task was cleared; submitting a new job"
    text = "Prior job in terminal state, resubmitting fresh"
    return "terminal_resubmit", "terminal_resubmit", "warning", text
