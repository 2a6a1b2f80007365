"""Words by which names give away what they hold. Each list is as short as real Dags let it be."""

from __future__ import annotations

import re

from airflow_provider_durable.review.model.values import HOLE

_WATERMARK = re.compile(
    r"watermark|high_?water|(^|_)hwm(_|$)"
    r"|last_?(successful_?|success_?)?(processed|process|run|update|updated|load|loaded|sync|synced|extract|extracted"
    r"|ingest|ingested|modified|seen|fetch|fetched|import|imported|export|exported|pull|pulled|read|execution|executed)"
    r"|last_?(date|time|timestamp|ts|datetime|offset|id|row|record|key|block|value)"
    r"|(max|latest|newest|most_recent|previous|prev)_\w*(date|time|timestamp|ts|datetime|offset|block)(_|$)|(^|_)since(_|$)"
)
_STATE = re.compile(
    r"cursor|checkpoint|(^|_)(offset|progress|position|page|next_page|page_token|retry_count|attempt|attempts)(_|$)"
    r"|(^|_)(state|status)$"
)
_JOB_ID = re.compile(
    r"(^|_)(job|run|batch|query|statement|execution|application|app|driver|step|submission|operation|workflow|pipeline"
    r"|external|job_run|cluster_job|invocation)_?(id|ids|arn|handle)(_|$)"
)
_SECRET = re.compile(
    r"passw(or)?d|secret|(^|_)pwd(_|$)|credential|private_?key|api_?key|access_?key|(access|auth|api|bearer|refresh|id|oauth"
    r"|session|jwt)_?tokens?(_|$)|^(tokens?|jwt|bearer)$"
)


def snake(text: str) -> str:
    """A name in lower case with underscores, whatever its style; parts that are not known become ``x``."""
    text = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text.replace(HOLE, "_x_"))
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def is_watermark(text: str) -> bool:
    """How far a table or asset has been processed."""
    return bool(_WATERMARK.search(snake(text)))


def is_state(text: str) -> bool:
    """How far a run has come, or what it has started."""
    name = snake(text)
    return bool(_STATE.search(name) or _JOB_ID.search(name))


def is_job_id(text: str) -> bool:
    """What names a job outside Airflow."""
    return bool(_JOB_ID.search(snake(text)))


def is_secret(text: str) -> bool:
    """Something that must not be read by everyone. Page and sync tokens are none."""
    return bool(_SECRET.search(snake(text)))
