"""The parts of a task's life, which are the lines of the table."""

from __future__ import annotations

BEFORE_RECORD = "killed before anything is stored"
BEFORE_JOB = "killed after the record, before the job exists"
BEFORE_ID = "killed after the service acted, before the id is stored"
AFTER_ID = "killed after the id is stored"
WAITING = "killed in mid-wait"
TWICE = "killed twice in a row"
ENDED = "killed after the job's end, before its result is returned"
LEAVING = "killed while leaving the worker"
TRIGGERER = "killed in the triggerer"
RESUMING = "killed while resuming"
FAULT = "answer lost, 5xx, timeout, outage"
CLEARED = "cleared while no process runs"
NOBODY_THERE = "a person acts while it waits and no process is there"
#: The order of the table; stop reasons are lines of their own.
GROUPS = (
    BEFORE_RECORD,
    BEFORE_JOB,
    BEFORE_ID,
    AFTER_ID,
    WAITING,
    LEAVING,
    TRIGGERER,
    RESUMING,
    ENDED,
    TWICE,
    FAULT,
    CLEARED,
    NOBODY_THERE,
)
