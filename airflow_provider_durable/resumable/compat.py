"""
Everything that depends on the Airflow version, and nothing else.

The rest of the package imports Airflow's names from here, so that a new Airflow release is one
module to look at. On Airflow 2 the names come from ``airflow``, on Airflow 3 from ``airflow.sdk``.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.sdk import Context
    from airflow.sdk.bases.operator import BaseOperator, BaseOperatorMeta
    from airflow.sdk.bases.resumablejobmixin import ResumableJobMixin as AirflowResumableJobMixin
    from airflow.sdk.configuration import conf
    from airflow.sdk.exceptions import (
        AirflowException,
        AirflowFailException,
        AirflowRescheduleException,
        AirflowTaskTimeout,
    )
    from airflow.sdk.execution_time.context import NEVER_EXPIRE
    from airflow.sdk.log import mask_secret

    HAS_TASK_STATE_STORE: bool
else:
    try:
        from airflow.sdk import Context
        from airflow.sdk.bases.operator import BaseOperator, BaseOperatorMeta
    except ImportError:  # Airflow 2
        from airflow.models.baseoperator import BaseOperator, BaseOperatorMeta
        from airflow.utils.context import Context

    try:
        from airflow.sdk.configuration import conf
        from airflow.sdk.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowRescheduleException,
            AirflowTaskTimeout,
        )
    except ImportError:  # Airflow below 3.2
        from airflow.configuration import conf
        from airflow.exceptions import (
            AirflowException,
            AirflowFailException,
            AirflowRescheduleException,
            AirflowTaskTimeout,
        )

    try:
        from airflow.sdk.log import mask_secret
    except ImportError:  # Airflow 2
        from airflow.utils.log.secrets_masker import mask_secret

    try:
        from airflow.sdk.bases.resumablejobmixin import ResumableJobMixin as AirflowResumableJobMixin
        from airflow.sdk.execution_time.context import NEVER_EXPIRE
    except ImportError:  # Airflow below 3.3
        AirflowResumableJobMixin = None
        NEVER_EXPIRE = None

    #: Airflow 3.3 brought ``context["task_state_store"]`` and the mixin that uses it, together.
    HAS_TASK_STATE_STORE = AirflowResumableJobMixin is not None


def log_event(logger: Any, level: str, event: str, **fields: Any) -> None:
    """
    Log a short sentence with its facts as fields.

    Task loggers are structlog's on Airflow 3 and the standard library's on Airflow 2, which takes no
    fields: there they follow the sentence as ``key=value``.

    :param logger: the operator's or trigger's ``log``
    :param level: ``debug``, ``info``, ``warning``, ``error`` or ``exception``
    :param event: the sentence
    :param fields: the facts
    """
    log = getattr(logger, level)
    if isinstance(logger, (logging.Logger, logging.LoggerAdapter)):
        log("%s %s", event, " ".join(f"{key}={value!r}" for key, value in fields.items()))
    else:
        log(event, **fields)


__all__ = [
    "HAS_TASK_STATE_STORE",
    "NEVER_EXPIRE",
    "AirflowException",
    "AirflowFailException",
    "AirflowRescheduleException",
    "AirflowResumableJobMixin",
    "AirflowTaskTimeout",
    "BaseOperator",
    "BaseOperatorMeta",
    "Context",
    "conf",
    "log_event",
    "mask_secret",
]
