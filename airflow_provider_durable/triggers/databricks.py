"""
Databricks in the triggerer: the Jobs API has no request about many runs, so each run is asked for alone.

https://docs.databricks.com/api/workspace/jobs/getrun
"""

from __future__ import annotations

import json
import threading
from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.extras import requires_extra
from airflow_provider_durable.resumable import ServiceThrottledError
from airflow_provider_durable.triggers.base import JobTrigger
from airflow_provider_durable.triggers.service import JobService

with requires_extra("databricks"):
    from airflow_provider_durable.services import databricks

if TYPE_CHECKING:
    from pydantic import JsonValue
    from typing_extensions import Unpack

    from airflow_provider_durable.triggers.base import WaitOptions

#: Seconds until a request without an answer has failed; the hook's own limit is three minutes.
_TIMEOUT = 30


class DatabricksRuns(JobService):
    """
    The runs of one workspace.

    :param databricks_conn_id: the Airflow connection
    """

    ids_per_request = 1

    def __init__(self, databricks_conn_id: str) -> None:
        self._databricks_conn_id = databricks_conn_id
        self._hook: Any = None
        self._lock = threading.Lock()

    @property
    def key(self) -> Hashable:
        """The connection."""
        return type(self), self._databricks_conn_id

    def hook(self) -> Any:
        """Return the provider's hook, made when it is first needed; it fetches and renews tokens."""
        with self._lock:
            if self._hook is None:
                # Here and not above: a second of imports, which would stall the triggerer's loop.
                from airflow.providers.databricks.hooks.databricks import DatabricksHook

                # The poller does the repeating, so that it knows how often the service is asked.
                self._hook = DatabricksHook(
                    self._databricks_conn_id,
                    timeout_seconds=_TIMEOUT,
                    retry_limit=1,
                    caller="DatabricksRunTrigger",
                )
            return self._hook

    def _forget(self, hook: Any) -> None:
        """Read the connection again before the next request: its credentials do not work any longer."""
        with self._lock:
            if self._hook is hook:
                self._hook = None

    def ask(self, external_ids: Sequence[JsonValue]) -> dict[JsonValue, str]:
        """Send ``jobs/runs/get``."""
        hook, (run_id,) = self.hook(), external_ids
        try:
            return {run_id: databricks.status_of(hook.get_run(run_id))}
        except Exception as error:
            if databricks.is_throttled(error):
                raise ServiceThrottledError(str(error)) from error
            if databricks.is_unknown_run(error):
                return {}
            self._forget(hook)
            raise

    def is_active(self, status: str) -> bool:
        """Return whether a run of this status has not ended."""
        return databricks.is_active(status)

    def is_succeeded(self, status: str) -> bool:
        """Return whether a run of this status has succeeded, as Databricks counts it."""
        return databricks.is_succeeded(status)

    def cancel(self, external_id: JsonValue, reason: str) -> None:
        """Send ``jobs/runs/cancel``, which Databricks accepts for runs in any state."""
        hook = self.hook()
        try:
            hook.cancel_run(external_id)
        except Exception as error:
            if not databricks.is_unknown_run(error):
                self._forget(hook)
                raise


class DatabricksRunTrigger(JobTrigger):
    """
    Waits for the end of a Databricks run. Its event also has what Apache's has.

    :param run_id: the run's id
    :param databricks_conn_id: the Airflow connection
    :param run_page_url: the link to the run, handed through to the event
    :param repair_run: whether Apache's operator, should the Dag go back to it, is to repair a failed run
    :param options: how to wait: see :class:`~airflow_provider_durable.triggers.base.JobTrigger`
    """

    def __init__(
        self,
        *,
        run_id: int,
        databricks_conn_id: str = "databricks_default",
        run_page_url: str | None = None,
        repair_run: bool = False,
        **options: Unpack[WaitOptions],
    ) -> None:
        super().__init__(external_id=run_id, **options)
        self.databricks_conn_id = databricks_conn_id
        self.run_page_url = run_page_url
        self.repair_run = repair_run

    def parameters(self) -> dict[str, Any]:
        """Return the parameters as JSON."""
        parameters = super().parameters()
        return {
            "run_id": parameters.pop("external_id"),
            "databricks_conn_id": self.databricks_conn_id,
            "run_page_url": self.run_page_url,
            "repair_run": self.repair_run,
            **parameters,
        }

    def event(self, status: str, message: str) -> dict[str, Any]:
        """Return the event; Apache's operator, should the Dag go back to it, reads the last five."""
        result = "SUCCESS" if status == "success" else "FAILED"
        state = {"life_cycle_state": "TERMINATED", "result_state": result, "state_message": message}
        return {
            **super().event(status, message),
            "run_id": self.external_id,
            "run_page_url": self.run_page_url,
            "run_state": json.dumps(state),
            "repair_run": self.repair_run and status == "failed",
            "errors": [],
        }

    def service(self) -> JobService:
        """Return Databricks, as this trigger's connection reaches it."""
        return DatabricksRuns(self.databricks_conn_id)
