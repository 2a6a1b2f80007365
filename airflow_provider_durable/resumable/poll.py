"""
Asking a service for a job's status, again and again, without failing for what will pass.

A status request that fails says nothing about the job. Only when none has succeeded for the whole of
``poll_error_window`` does the last error come out.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_durable.resumable.compat import AirflowFailException, log_event
from airflow_provider_durable.resumable.exceptions import ServiceThrottledError, StatusUnavailableError
from airflow_provider_durable.resumable.record import utcnow

if TYPE_CHECKING:
    from collections.abc import Callable


class StatusReader:
    """
    Reads a status and tolerates failing requests for a while.

    :param read: the request
    :param window: for how long requests may fail in a row
    :param log: where each failure is reported, with its cause
    :param failing_since: since when requests have been failing already, from an earlier process
    """

    def __init__(
        self,
        read: Callable[[], str],
        window: timedelta,
        log: Any,
        failing_since: datetime | None = None,
    ) -> None:
        self._read = read
        self._window = window
        self._log = log
        self.failing_since = failing_since

    def __call__(self) -> str | None:
        """
        Return the status, or None if it could not be read this time.

        :raises StatusUnavailableError: requests have been failing for longer than the window
        """
        try:
            status = self._read()
        except ServiceThrottledError as error:
            log_event(self._log, "info", "The service asks for fewer requests", cause=str(error))
            self.failing_since = None
            return None
        except AirflowFailException:
            raise  # what the operator says for certain is no failing request
        except Exception as error:
            self.failing_since = self.failing_since or utcnow()
            failing_for = utcnow() - self.failing_since
            log_event(
                self._log,
                "warning",
                "Asking for the job's status failed",
                cause=f"{type(error).__name__}: {error}",
                failing_for_seconds=round(failing_for.total_seconds()),
            )
            if failing_for > self._window:
                raise StatusUnavailableError(
                    f"The job's status could not be read for {failing_for}, longer than "
                    f"poll_error_window={self._window}. The job may still be running; the next try, or "
                    f"clearing the task, reconnects to it. Last error: {type(error).__name__}: {error}"
                ) from error
            return None
        self.failing_since = None
        return status


def jitter(seconds: float) -> float:
    """Return ``seconds``, up to a tenth more or less: tasks that started together ask apart."""
    return seconds * random.uniform(0.9, 1.1)  # noqa: S311 - no secret
