"""
A model of the world against which the mixin is run at random.

Tries crash between any two steps, answers get lost, jobs end as they like, people clear the task and
evict its worker. Whatever happens: never two jobs at once, no more jobs than there were reasons to
start one, and a job that succeeded is returned.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from airflow_provider_durable.resumable import (
    JobFailedError,
    SubmissionUnclearError,
    TaskStoppedError,
    submission,
)
from airflow_provider_durable.resumable.compat import AirflowRescheduleException
from unit.fakes import Crash, Durable, Service, Store, TaskInstance, make

pytestmark = pytest.mark.task_state_store

RETRIES = 2


class World(RuleBasedStateMachine):
    """One task instance, its store, and a service."""

    def __init__(self) -> None:
        super().__init__()
        submission.jitter = lambda seconds: 0.0  # type: ignore[assignment]
        self.store = Store()
        self.service = Service()
        self.ti = TaskInstance(try_number=1, max_tries=RETRIES)
        self.epoch_of: dict[str, int] = {}
        self.mode = "poke"
        self.steps_left: int | None = None
        self.lose_answer = False
        self.ends: list[str] = []
        self.signal: tuple[int, str] | None = None
        self.looks = 0
        self.over = False  # the task has ended; only a clear goes on
        self.coming_back = False  # the same try runs again after a reschedule
        self.reasons = 0
        self.known: set[str] = set()
        self.again = False
        self.excused: set[str] = set()
        self.store.before_call = lambda name: self.step()  # type: ignore[assignment]
        self.wrap()

    @initialize(mode=st.sampled_from(["poke", "reschedule"]))
    def choose_mode(self, mode: str) -> None:
        self.mode = mode

    # -- the world's side ----------------------------------------------------------------------

    def step(self) -> None:
        """One more step of the process; the planned one is its last."""
        if self.steps_left is not None and threading.current_thread() is threading.main_thread():
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Crash

    def wrap(self) -> None:
        submit, status = self.service.submit, self.service.status

        def submitting(token: str = "") -> str:
            self.step()
            assert not self.service.active, "a second job beside an active one"
            job_id = submit(token)
            self.epoch_of[job_id] = self.ti.max_tries
            self.step()
            if self.lose_answer:
                self.lose_answer = False
                raise SubmissionUnclearError("the answer is lost")
            return job_id

        def looking(job_id: Any) -> str:
            self.step()
            self.looks += 1
            job = self.service.jobs[job_id]
            if self.signal and self.looks >= self.signal[0]:
                self.ti.state, self.signal = self.signal[1], None
                self.task.on_kill()
            # What a new try finds at its first look ended before it, if at all: see the rule for that.
            if job.status == "RUNNING" and not (self.looks == 1 and job.id in self.known and not self.again):
                # A try that nothing ends would never end: the last look sees the job succeed.
                end = self.ends.pop(0) if self.ends else "SUCCEEDED"
                if end != "RUNNING":
                    job.status = end
            return status(job_id)

        self.service.submit = submitting  # type: ignore[method-assign]
        self.service.status = looking  # type: ignore[method-assign]

    def note_reasons(self) -> None:
        """Count what gives a new try a reason to start a job: nothing yet, a failure, a clear."""
        jobs = list(self.service.jobs.values())
        if not jobs:
            self.reasons = max(self.reasons, 1)
            return
        last = jobs[-1]
        cleared = self.ti.max_tries > self.epoch_of[last.id]
        ended_badly = last.status in ("FAILED", "CANCELLED")
        if last.id not in self.excused and (ended_badly or (last.status == "SUCCEEDED" and cleared)):
            self.excused.add(last.id)
            self.reasons += 1

    # -- what may happen -----------------------------------------------------------------------

    @precondition(lambda self: not self.over)
    @rule(
        steps=st.none() | st.integers(0, 14),
        lose_answer=st.booleans(),
        ends=st.lists(st.sampled_from(["RUNNING", "SUCCEEDED", "FAILED"]), max_size=4),
        signal=st.none()
        | st.tuples(st.integers(1, 4), st.sampled_from(["running", "failed", "restarting", "success"])),
    )
    def run_a_try(
        self, steps: int | None, lose_answer: bool, ends: list[str], signal: tuple[int, str] | None
    ) -> None:
        if not self.coming_back:
            self.note_reasons()
        self.steps_left, self.lose_answer, self.looks = steps, lose_answer, 0
        self.ends, self.signal, self.ti.state = ends, signal, "running"
        self.task = make(Durable, self.service, mode=self.mode)
        known = self.known = {job.id for job in self.service.jobs.values()}
        self.again = self.coming_back
        try:
            result = self.task.execute({"ti": self.ti, "task_state_store": self.store})
        except AirflowRescheduleException:
            self.coming_back = True
            return
        except JobFailedError:
            assert list(self.service.jobs.values())[-1].status in ("FAILED", "CANCELLED")
            self.end_try(failed=True)
        except (Crash, TaskStoppedError):
            self.end_try(failed=True)
        else:
            last = list(self.service.jobs.values())[-1]
            assert result == f"result of {last.id}"
            assert last.status == "SUCCEEDED"
            self.end_try(failed=False)
        finally:
            self.steps_left = None
            # A job of before a clear, or one that was stopped, may have ended inside this very try.
            started = [job for job in self.service.jobs.values() if job.id not in known]
            if started and known:
                self.reasons = (
                    max(self.reasons, len(self.service.jobs)) if self.stale(known) else self.reasons
                )

    def stale(self, known: set[str]) -> bool:
        """Whether the job before the one just started had a good reason to be followed."""
        before = [job for job in self.service.jobs.values() if job.id in known][-1]
        cleared = self.ti.max_tries > self.epoch_of[before.id]
        return before.status != "RUNNING" and (cleared or before.cancels > 0)

    def end_try(self, *, failed: bool) -> None:
        self.coming_back = False
        state = self.ti.state
        if failed and state == "restarting":
            self.clear()
        elif failed and state not in ("failed", "success") and self.ti.try_number <= self.ti.max_tries:
            self.ti.try_number += 1
        else:
            self.over = True

    @precondition(lambda self: self.service.active)
    @rule(end=st.sampled_from(["SUCCEEDED", "FAILED"]))
    def a_job_ends_while_nobody_watches(self, end: str) -> None:
        self.service.active[0].status = end

    @precondition(lambda self: self.over)
    @rule()
    def a_person_clears(self) -> None:
        self.clear()

    def clear(self) -> None:
        """As Airflow does it: the next try has the next number, and the retries begin anew."""
        self.over, self.coming_back = False, False
        self.ti.max_tries = self.ti.try_number + RETRIES
        self.ti.try_number += 1

    # -- what must hold ------------------------------------------------------------------------

    @invariant()
    def never_two_at_once(self) -> None:
        assert len(self.service.active) <= 1

    @invariant()
    def one_job_for_each_reason(self) -> None:
        assert len(self.service.jobs) <= max(self.reasons, 1)

    @invariant()
    def nobody_is_left_running_after_a_person_has_ended_the_task(self) -> None:
        if self.over and self.ti.state in ("failed", "success"):
            assert all(job.status != "RUNNING" or job.cancels == 0 for job in self.service.jobs.values())


World.TestCase.settings = settings(
    max_examples=150, stateful_step_count=12, deadline=None, suppress_health_check=list(HealthCheck)
)
test_one_job_whatever_happens = World.TestCase
