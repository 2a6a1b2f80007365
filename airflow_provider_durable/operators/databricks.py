"""
Databricks: a run is found again by sending its submission once more, with the same token.

The service returns the run that it has for a token, so a repeated request, by whoever repeats it, starts
no second one. https://docs.databricks.com/api/workspace/jobs/submit, ``idempotency_token``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import (
    RecoveryUnavailableError,
    ResumableJobMixin,
    ServiceThrottledError,
    SubmissionRejectedError,
)
from airflow_provider_durable.resumable.compat import BaseOperatorMeta, log_event
from airflow_provider_durable.resumable.parameters import NOT_GIVEN, refuse_poll_interval

with requires_extra("databricks"):
    from airflow.providers.databricks.hooks.databricks import RunState
    from airflow.providers.databricks.operators.databricks import (
        XCOM_JOB_ID_KEY,
        XCOM_RUN_ID_KEY,
        XCOM_RUN_PAGE_URL_KEY,
        is_repair_reason_match_exist,
        update_job_for_repair,
    )
    from airflow.providers.databricks.operators.databricks import (
        DatabricksRunNowOperator as ApacheRunNowOperator,
    )
    from airflow.providers.databricks.operators.databricks import (
        DatabricksSubmitRunOperator as ApacheSubmitRunOperator,
    )

    from airflow_provider_durable.services import databricks, databricks_payload

if TYPE_CHECKING:
    from pydantic import JsonValue

    from airflow_provider_durable.resumable.compat import Context

#: What a run is while the service has yet to say so: it was just told to run its failed tasks again.
_REPAIRING = "PENDING:"


class _DatabricksRun(ResumableJobMixin):
    """What the two operators have in common: all but the request."""

    poll_interval_parameter = "polling_period_seconds"
    recovery_submits = True
    resume_method = "execute_complete"
    event_id_key = "run_id"
    #: The class of Apache's that builds the request, and the hook's method that sends it.
    _apache: ClassVar[type[Any]]
    _method: ClassVar[str]

    if TYPE_CHECKING:
        # From Apache's operators.
        task_id: str
        do_xcom_push: bool
        databricks_conn_id: str
        polling_period_seconds: Any
        _hook: Any

    # Explicitly decorated, as the mixin's: this class is not made by Airflow's metaclass.
    @BaseOperatorMeta._apply_defaults  # type: ignore[type-var]
    def __init__(
        self, *, json: Any = NOT_GIVEN, idempotency_token: str | None = NOT_GIVEN, **kwargs: Any
    ) -> None:
        where = f"{type(self).__name__}(task_id={kwargs.get('task_id')!r})"
        refuse_poll_interval(type(self), kwargs, where)
        if isinstance(json, Mapping):
            json = dict(json)  # older versions of Apache's operator write into it
        elif isinstance(json, (list, tuple, set, int, float, bytes)):
            raise ValueError(f"{where}: json={json!r} must be a dictionary, the body of the request.")  # noqa: TRY004
        if isinstance(idempotency_token, str) and "{" not in idempotency_token:
            databricks.check_token(idempotency_token, where)
        given = {"json": json, "idempotency_token": idempotency_token}
        super().__init__(**{k: v for k, v in given.items() if v is not NOT_GIVEN}, **kwargs)
        self.run_id: int | None = None
        self._payload: dict[str, Any] | None = None
        self._run: Mapping[str, Any] = {}
        self._announced: JsonValue = None

    def execute(self, context: Context) -> Any:
        """
        Find the run of an earlier try or submit one, and wait for it.

        :return: the run id
        :raises JobFailedError: the run ended without success; its failed tasks are in the message
        """
        self._announced = None
        run_id = self.execute_resumable(context)
        self._announce(run_id, context)
        return run_id

    # -- submit --------------------------------------------------------------------------------

    def prepare_submission(self, context: Context) -> dict[str, JsonValue]:
        """
        Check the request before any is sent, and look up names in it.

        An author's own token is for the first submission: Databricks would answer a later one with the
        run that failed. From then on every submission has a token of its own.
        """
        payload, details = self._build(context, known={})
        own_token = payload.get("idempotency_token")
        return (
            {**details, "idempotency_token": own_token} if own_token and self.is_first_submission else details
        )

    def submit_job(self, context: Context) -> int:
        """
        Send the request, with the token.

        :return: the run id
        :raises SubmissionRejectedError: Databricks said no
        :raises SubmissionUnclearError: Databricks may have started the run
        :raises ServiceThrottledError: Databricks did not look at the request
        """
        return self._submit(self.submission_token, context)

    def recover_job(self, token: str, context: Context) -> JsonValue:
        """
        Send the request once more, with the token of before: Databricks returns the run that it has.

        If there is none it starts one now, which is what the submission was for.

        :raises RecoveryUnavailableError: Databricks does not take the token any longer, as after its run
            was deleted ("If a run with the provided token is deleted, an error is returned")
        """
        try:
            return self._submit(token, context)
        except SubmissionRejectedError as error:
            if not databricks.is_refused(error.__cause__ or error):
                raise
            raise RecoveryUnavailableError(
                f"Databricks does not take its token any longer, as after its run was deleted. {error}."
            ) from error

    def _submit(self, token: str, context: Context) -> int:
        details = self.submission_details
        payload = self._payload or self._build(context, known=details)[0]
        payload = {**payload, "idempotency_token": details.get("idempotency_token") or token}
        with databricks.attempts_of(self._hook) as earlier:
            try:
                self.run_id = run_id = cast("int", getattr(self._hook, self._method)(payload))
            except Exception as error:
                raise databricks.submission_error(error, earlier) from error
        self.log.info("Run submitted with run_id: %s", run_id)
        return run_id

    def _build(
        self, context: Context, known: Mapping[str, JsonValue]
    ) -> tuple[dict[str, Any], dict[str, JsonValue]]:
        """Build and keep the request's body; return it, and the ids of what it names."""
        check = databricks.CHECKS[self._method]
        payload, names = databricks_payload.build(self, self._apache, context, check)
        ids = databricks_payload.look_up(payload, names, self._hook, known)
        self._payload = payload
        return payload, ids

    # -- ask -----------------------------------------------------------------------------------

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """
        Return the run's status, ``<life cycle>:<result>``; ``NOT_FOUND:`` if Databricks has no such run.

        :raises ServiceThrottledError: Databricks wants fewer requests
        """
        self.run_id = cast("int", external_id)
        try:
            self._run = self._hook.get_run(self.run_id)
        except Exception as error:
            if databricks.is_throttled(error):
                raise ServiceThrottledError(str(error)) from error
            if not databricks.is_unknown_run(error):
                raise
            self._run = {}
            return databricks.NOT_FOUND
        self._announce(external_id, context)
        return databricks.status_of(self._run)

    def is_job_active(self, status: str) -> bool:
        """Return whether the run has not ended."""
        return databricks.is_active(status)

    def is_job_succeeded(self, status: str) -> bool:
        """Return whether the run has succeeded, as Databricks counts it."""
        return databricks.is_succeeded(status)

    def get_job_result(self, external_id: JsonValue, context: Context) -> JsonValue:
        """Return the run id."""
        if failed := databricks.failed_tasks(self._run):
            tasks = [task.get("task_key") for task in failed]
            log_event(self.log, "warning", "The run succeeded, although tasks in it failed", tasks=tasks)
        return external_id

    def describe_failure(self, external_id: JsonValue, status: str, context: Context) -> str:
        """Return the error message: result, the service's words, failed tasks and their errors."""
        if not self._run:
            return f"Databricks run {external_id} is not known to Databricks (any more)."
        result = status.strip(":").rpartition(":")[2]
        return f"Databricks run {external_id} ended as {result}: " + databricks.failure_summary(
            self._hook, self._run
        )

    # -- wait ----------------------------------------------------------------------------------

    def make_trigger(self, external_id: JsonValue, context: Context) -> Any:
        """Return a trigger that waits for the end of the run."""
        from airflow_provider_durable.triggers.databricks import DatabricksRunTrigger

        self._announce(external_id, context)
        return DatabricksRunTrigger(
            run_id=cast("int", external_id),
            databricks_conn_id=self.databricks_conn_id,
            run_page_url=self._run.get("run_page_url"),
            **self.trigger_options,
        )

    def cancel_job(self, external_id: JsonValue, context: Context) -> None:
        """Cancel the run; Databricks accepts that for runs that have ended, too."""
        try:
            self._hook.cancel_run(external_id)
        except Exception as error:
            if not databricks.is_unknown_run(error):
                raise

    def _announce(self, run_id: JsonValue, context: Context) -> None:
        """Log the link to the run, and push what Apache's operators push. Best effort, once a process."""
        if self._announced == run_id:
            return
        if self._run.get("run_id") != run_id:
            try:
                self._run = self._hook.get_run(run_id)
            except Exception as error:  # noqa: BLE001 - the run matters more than the link to it
                log_event(self.log, "warning", "The link to the run is not available", cause=str(error))
                return
        self._announced = run_id
        url = self._run.get("run_page_url")
        self.log.info("View run status, Spark UI, and logs at %s", url)
        values = {
            XCOM_RUN_ID_KEY: run_id,
            XCOM_RUN_PAGE_URL_KEY: url,
            XCOM_JOB_ID_KEY: self._run.get("job_id"),
        }
        if (ti := context.get("ti")) and self.do_xcom_push:
            for key, value in values.items():
                if value is not None:
                    ti.xcom_push(key=key, value=value)


class DatabricksSubmitRunOperator(_DatabricksRun, ApacheSubmitRunOperator):  # type: ignore[misc]
    """
    Submit a one-time run to Databricks and return its id: one run, whatever dies while it goes on.

    A drop-in for ``airflow.providers.databricks.operators.databricks.DatabricksSubmitRunOperator``: its
    parameters, template fields, link and OpenLineage injection, and the parameters of
    :class:`~airflow_provider_durable.ResumableJobMixin`. ``polling_period_seconds`` holds in every way of
    waiting.

    :param idempotency_token: sent as it is with the first submission; one that follows a failed run or a
        clear gets a token of its own, because Databricks would return the old run (templated)
    """

    external_id_key = "databricks_run_id"
    _apache = ApacheSubmitRunOperator
    _method = "submit_run"


class DatabricksRunNowOperator(_DatabricksRun, ApacheRunNowOperator):  # type: ignore[misc]
    """
    Run a Databricks job and return the run's id: one run, whatever dies while it goes on.

    A drop-in for ``airflow.providers.databricks.operators.databricks.DatabricksRunNowOperator``: its
    parameters, template fields, link and OpenLineage injection, and the parameters of
    :class:`~airflow_provider_durable.ResumableJobMixin`. ``polling_period_seconds`` holds in every way of
    waiting.

    :param idempotency_token: sent as it is with the first submission; one that follows a failed run or a
        clear gets a token of its own, because Databricks would return the old run (templated)
    :param repair_run: repair a run that failed, once, in every way of waiting and after a reconnect; the
        task succeeds if the repaired run does
    :param cancel_previous_runs: cancel the job's active runs before a run is submitted; never when an
        earlier try's run is reconnected to or recovered
    """

    external_id_key = "databricks_run_now_id"
    _apache = ApacheRunNowOperator
    _method = "run_now"
    _repaired = False

    if TYPE_CHECKING:
        repair_run: bool
        cancel_previous_runs: bool
        databricks_repair_reason_new_settings: dict[str, Any]

    def prepare_submission(self, context: Context) -> dict[str, JsonValue]:
        """
        Check the request, look up the job's name, and cancel the job's active runs if so wanted.

        Here and not with the request: once a submission is recorded there may be a run of its own.
        """
        self._repaired = False
        details = super().prepare_submission(context)
        job_id = (self._payload or {})["job_id"]
        if self.cancel_previous_runs:
            self._hook.cancel_all_runs(job_id)
        return {**details, "job_id": job_id}

    def get_job_status(self, external_id: JsonValue, context: Context) -> str:
        """Return the run's status, as for a submitted run; a failed one is repaired first, if so wanted."""
        status = super().get_job_status(external_id, context)
        ended = self._run and not self.is_job_active(status) and not self.is_job_succeeded(status)
        if ended and self.repair_run and self.is_job_current and self._repair(context):
            return _REPAIRING
        return status

    def make_trigger(self, external_id: JsonValue, context: Context) -> Any:
        """Return a trigger that waits for the end of the run, and knows whether it may be repaired yet."""
        trigger = super().make_trigger(external_id, context)
        repaired = self._repaired or bool(self.submission_details.get("repaired"))
        trigger.repair_run = bool(self.repair_run) and not repaired
        return trigger

    def _repair(self, context: Context) -> bool:
        """Have the failed tasks of the run run again, once; return whether they do."""
        run, hook, message = self._run, self._hook, databricks.state_message(self._run)
        state = RunState("TERMINATED", "FAILED", message)
        if self.databricks_repair_reason_new_settings and not is_repair_reason_match_exist(self, state):
            return False
        latest = self._latest_repair()
        if self._was_repaired(latest):
            return False
        log_event(self.log, "warning", "The run failed; repairing it", run_id=self.run_id, cause=message)
        request: dict[str, Any] = {"run_id": self.run_id, "rerun_all_failed_tasks": True}
        if latest is not None:
            request["latest_repair_id"] = latest
        payload = self._payload or self._build(context, known={"job_id": run.get("job_id")})[0]
        if parameters := payload.get("job_parameters"):
            request["job_parameters"] = parameters
        try:
            update_job_for_repair(self, hook, cast("int", run.get("job_id")), state)
            hook.repair_run(request)
        except Exception as error:
            if not databricks.is_refused(error):
                raise
            log_event(self.log, "error", "Databricks refused to repair the run", cause=str(error))
            return False
        self._repaired = True
        self.remember(repaired=True)
        return True

    def _latest_repair(self) -> int | None:
        try:
            return cast("int | None", self._hook.get_latest_repair_id(self.run_id))
        except KeyError:  # an answer without a history
            return None

    def _was_repaired(self, latest: int | None) -> bool:
        """
        Return whether this submission's run was repaired by us.

        The repair that was the latest when the run failed is noted before ours is requested: if there is a
        later one, the request arrived, whatever became of its answer.
        """
        if self._repaired or not self.submission_token:
            return self._repaired or latest is not None
        if "repair_base" not in self.submission_details:
            self.remember(repair_base=latest or 0)
        known = self.submission_details
        return bool(known.get("repaired")) or known["repair_base"] != (latest or 0)
