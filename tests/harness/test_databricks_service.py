"""The Databricks stand-in does what tests lean on: real SQL, durations, tokens, cancellations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from harness.databricks_service import FAILING_SQL, DatabricksService, databricks_connection_env
from harness.processes import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabricksService]:
    service = DatabricksService.start(tmp_path_factory.mktemp("databricks"))
    yield service
    service.stop()


@pytest.fixture
def hook(service: DatabricksService, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Airflow's hook, which is what the operators use."""
    from airflow.providers.databricks.hooks.databricks import DatabricksHook

    for name, value in databricks_connection_env(service.url).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(DatabricksHook, "user_agent_header", {"user-agent": "test"})
    return DatabricksHook(retry_limit=1)


def state(hook: Any, run_id: int) -> tuple[str, str]:
    said = hook.get_run_state(run_id)
    return said.life_cycle_state, said.result_state or ""


def test_a_run_executes_sql_and_goes_on_until_its_time_is_over(service: DatabricksService, hook: Any) -> None:
    run_id = hook.submit_run({"run_name": "long seconds=60", "tasks": [service.sql_task()]})
    assert state(hook, run_id) == ("RUNNING", "")
    service.finish(run_id)
    wait_until(lambda: state(hook, run_id) == ("TERMINATED", "SUCCESS"), "the run has ended")
    task = hook.get_run(run_id)["tasks"][0]
    assert "499500" in hook.get_run_output(task["run_id"])["logs"]


def test_a_run_whose_sql_is_wrong_fails(service: DatabricksService, hook: Any) -> None:
    run_id = hook.submit_run({"run_name": "wrong", "tasks": [service.sql_task(sql=FAILING_SQL)]})
    wait_until(lambda: state(hook, run_id) == ("TERMINATED", "FAILED"), "the run has ended")
    task = hook.get_run(run_id)["tasks"][0]
    assert "no_such_table" in hook.get_run_output(task["run_id"])["error"]


def test_the_same_token_is_the_same_run(service: DatabricksService, hook: Any) -> None:
    job_id = service.create_job("tokens now seconds=60")
    once = {"run_name": "tokens once", "tasks": [service.sql_task()]}
    for send, body, name in (
        (hook.submit_run, once, "tokens once"),
        (hook.run_now, {"job_id": job_id}, "tokens now"),
    ):
        first, again = (send({**body, "idempotency_token": f"{name} 1"}) for _ in range(2))
        other, none = send({**body, "idempotency_token": f"{name} 2"}), send(body)
        assert first == again
        assert len({first, other, none}) == 3
        assert [run.submissions for run in service.runs(name)] == [2, 1, 1]


def test_a_cancelled_run_ends(service: DatabricksService, hook: Any) -> None:
    run_id = hook.submit_run({"run_name": "cancel seconds=60", "tasks": [service.sql_task()]})
    hook.cancel_run(run_id)
    assert state(hook, run_id) == ("TERMINATED", "CANCELED")
    assert service.run(run_id).cancelled


def test_an_unknown_run_is_answered_as_databricks_does(hook: Any) -> None:
    with pytest.raises(Exception, match=r"Run 999999 does not exist.*400"):
        hook.get_run(999_999)
