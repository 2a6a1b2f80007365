"""DUR103 and DUR104: ids that are kept for a retry by hand."""

from __future__ import annotations

import pytest

from airflow_provider_durable.review.findings import Level

TASK = """
from airflow.models import Variable
from airflow.sdk import task

@task(retries=3)
def run(ti, **context):
{body}

@task
def other(ti):
    {other}

run() >> other()
"""


def in_task(body: str, other: str = "pass") -> str:
    return TASK.format(body="\n".join(f"    {line}" for line in body.split("\n")), other=other)


@pytest.mark.parametrize(
    "pull",
    [
        'ti.xcom_pull(task_ids="run", key="position")',
        'ti.xcom_pull(task_ids=ti.task_id, key="position")',
        'ti.xcom_pull(key="position")',
        'ti.xcom_pull("run", None, "position")',
    ],
)
def test_a_task_that_pulls_what_it_pushed_counts_on_the_next_try(codes, pull: str) -> None:
    assert codes(in_task(f'start = {pull}\nti.xcom_push(key="position", value=work(start))')) == ["DUR103"]


@pytest.mark.parametrize(
    ("push", "other"),
    [
        ('ti.xcom_push(key="job_id", value=hook.submit_job())', 'ti.xcom_pull(task_ids="run", key="job_id")'),
        ('ti.xcom_push(key="rows", value=hook.submit_job())', "pass"),
        ('ti.xcom_push(key="job_id", value=settings["job_id"])', "pass"),
        ('ti.xcom_pull(task_ids="other", key="position")\nti.xcom_push(key="position", value=1)', "pass"),
        # Read back within the try, another task's id, and earlier runs' XComs, which a retry leaves alone.
        ('ti.xcom_push(key="day", value=1)\nday = ti.xcom_pull(task_ids="run", key="day")', "pass"),
        (
            'day = ti.xcom_pull(task_ids=steps["x"].task_id, key="day")\nti.xcom_push(key="day", value=day)',
            "pass",
        ),
        (
            'n = ti.xcom_pull("run", None, "n", include_prior_dates=True)\nti.xcom_push(key="n", value=n)',
            "pass",
        ),
    ],
)
def test_an_xcom_for_another_task_is_what_xcoms_are_for(codes, push: str, other: str) -> None:
    assert codes(in_task(push, other)) == []


def test_a_template_that_pulls_the_key_is_another_task(codes) -> None:
    code = in_task('ti.xcom_push(key="job_id", value=hook.submit_job())')
    template = """
from airflow.operators.bash import BashOperator
BashOperator(task_id="show", bash_command="echo {{ ti.xcom_pull(task_ids='run', key='job_id') }}")
"""
    assert codes(code) == ["DUR103"]
    assert codes(code + template) == []


@pytest.mark.parametrize(
    ("body", "kept_in"),
    [
        (
            'job = Variable.get("job_id")\nif not job:\n    job = submit(x)\n    Variable.set("job_id", job)',
            "a Variable",
        ),
        (
            'if old := ti.xcom_pull("run", key="query_id"):\n    attach(old)\nelse:\n    run_query(x)',
            "an XCom",
        ),
        ('job = attach(1) if Variable.get("run_id") else hook.run_now(x)', "a Variable"),
        (
            'job = Variable.get("nightly")\nif job:\n    return\nn = run_now(x)\nVariable.set("nightly", n)',
            "a Variable",
        ),
    ],
)
def test_reconnect_or_submit_is_seen_in_its_forms(review, body: str, kept_in: str) -> None:
    (finding,) = [found for found in review(in_task(body)) if found.code.startswith("DUR1")]
    assert finding.code == "DUR104"
    assert kept_in in finding.message
    assert 'external_id_key = "' in (finding.after or "")


@pytest.mark.parametrize(
    "body",
    [
        'if Variable.get("dry_run") == "no":\n    hook.submit(x)',
        'conf = Variable.get("job_id_prefix")\nhook.submit(conf)',
        'if Variable.get("job_id"):\n    print("there is one")',
    ],
)
def test_a_variable_that_only_decides_whether_to_submit_is_no_reconnect(codes, body: str) -> None:
    assert "DUR104" not in codes(in_task(body))


def test_by_hand_in_an_operator_with_task_state_store_still_loses_a_job(review) -> None:
    code = """
    from airflow.sdk import BaseOperator

    class RunOperator(BaseOperator):
        def execute(self, context):
            store = context["task_state_store"]
            job_id = store.get("job_id")
            if not job_id:
                job_id = self.hook.submit_job(self.job)
                store.set("job_id", job_id)
    """
    (finding,) = review(code)
    assert finding.code == "DUR104"
    assert "between the submission and the store" in finding.message
    assert "class RunOperator(ResumableJobMixin, BaseOperator):" in (finding.after or "")
    # A task function cannot have the mixin: there it is the best there is.
    assert (
        review(in_task('store = context["task_state_store"]\nif not store.get("job_id"):\n    submit_job()'))
        == []
    )


def test_the_mixin_s_own_hooks_may_look_at_what_is_stored(codes) -> None:
    code = """
    from airflow_provider_durable import ResumableJobMixin
    from airflow.sdk import BaseOperator

    class RunOperator(ResumableJobMixin, BaseOperator):
        external_id_key = "job_id"
        def submit_job(self, context):
            if context["task_state_store"].get("job_id"):
                self.log.info("resubmitting")
            return self.hook.submit_job(self.job)
    """
    assert codes(code) == []


def test_below_3_3_both_are_notes(review) -> None:
    code = in_task('ti.xcom_push(key="p", value=ti.xcom_pull(key="p"))')
    assert [(found.code, found.level) for found in review(code, version="3.2.2")] == [("DUR103", Level.NOTE)]
