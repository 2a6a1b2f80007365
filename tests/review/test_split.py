"""DUR201 to DUR204: jobs split over two tasks, and what hangs on the wrong one."""

from __future__ import annotations

import pytest

from airflow_provider_durable.review.findings import Level

HEAD = """
from airflow.models.baseoperator import chain
from airflow.models.xcom_arg import XComArg
from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator, EmrCreateJobFlowOperator
from airflow.providers.amazon.aws.operators.glue import GlueJobOperator as Glue
from airflow.providers.amazon.aws.sensors.emr import EmrJobFlowSensor, EmrStepSensor
from airflow.providers.amazon.aws.sensors.glue import GlueJobSensor
from airflow.operators.empty import EmptyOperator
from airflow.operators.python import PythonOperator
from airflow.sdk import DAG, Label, Variable, task, task_group
from airflow.utils.task_group import TaskGroup
"""
SUBMIT = 'submit = Glue(task_id="submit", job_name="j", wait_for_completion=False)'
WAIT = 'wait = GlueJobSensor(task_id="wait", job_name="j", run_id=submit.output)'
NEXT = 'load = EmptyOperator(task_id="load")'


def dag(*lines: str) -> str:
    body = "\n".join(line for text in lines for line in text.split("\n"))
    return HEAD + 'with DAG("d"):\n' + "\n".join(f"    {line}" for line in body.split("\n"))


@pytest.mark.parametrize(
    "run_id",
    [
        "submit.output",
        'submit.output["run_id"]',
        "XComArg(submit)",
        "cast(str, XComArg(submit, key='run_id'))",
        "\"{{ ti.xcom_pull(task_ids='submit', key='return_value') }}\"",
        '"{{ task_instance.xcom_pull("submit") }}"'.replace('"submit"', "'submit'"),
        "\"{{ ti.xcom_pull(task_ids=['submit'])[0] }}\"",
        "f\"{{{{ ti.xcom_pull(task_ids='{submit.task_id}') }}}}\"",
        "\"{{{{ ti.xcom_pull(task_ids='{}') }}}}\".format(submit.task_id)",
        "pulled",
    ],
)
def test_the_sensor_is_tied_to_its_job_in_every_way_to_pass_an_id(codes, run_id: str) -> None:
    pulled = "pulled = \"{{ ti.xcom_pull(task_ids='submit') }}\""
    code = dag(
        SUBMIT,
        pulled,
        f'wait = GlueJobSensor(task_id="wait", job_name="j", run_id={run_id})',
        "submit >> wait",
    )
    assert codes(code) == ["DUR201"]


@pytest.mark.parametrize(
    "code",
    [
        # Another job's sensor, a sensor for something else, a submit task that waits, one that defers.
        dag(SUBMIT, 'GlueJobSensor(task_id="wait", job_name="other", run_id="jr_1")'),
        dag(SUBMIT.replace("False", "True"), WAIT),
        dag(SUBMIT.replace(", wait_for_completion=False", ""), WAIT),
        dag(SUBMIT.replace("False", "False, deferrable=True"), WAIT, "# noqa: DUR210"),
        dag(SUBMIT.replace("False", "settings.wait"), WAIT),
        # A cluster is no job: its sensor waits for it to come up.
        dag(
            'cluster = EmrCreateJobFlowOperator(task_id="cluster", job_flow_overrides={})',
            'EmrJobFlowSensor(task_id="up", job_flow_id=cluster.output)',
        ),
    ],
)
def test_what_is_no_split_is_left_alone(codes, code: str) -> None:
    assert "DUR201" not in codes(code)


def test_an_operator_that_does_not_wait_by_default_needs_no_switch(codes) -> None:
    code = dag(
        'steps = EmrAddStepsOperator(task_id="steps", job_flow_id="j-1", steps=STEPS)',
        "EmrStepSensor(task_id='wait', job_flow_id='j-1', step_id=\"{{ ti.xcom_pull('steps')[0] }}\")",
    )
    assert codes(code) == ["DUR201"]


def test_the_switch_is_taken_from_default_args(codes) -> None:
    code = dag(SUBMIT.replace(", wait_for_completion=False", ""), WAIT)
    assert codes(code) == []
    assert codes(code.replace('DAG("d")', 'DAG("d", default_args={"wait_for_completion": False})')) == [
        "DUR201"
    ]
    grouped = code.replace(
        'with DAG("d"):', 'with TaskGroup("g", default_args=dict(wait_for_completion=False)):'
    )
    assert codes(grouped) == ["DUR201"]


@pytest.mark.parametrize(
    ("sensor", "level", "says"),
    [
        ("", Level.WARNING, "A poking sensor holds a worker slot anyway"),
        (', mode="reschedule"', Level.NOTE, "fair choice where worker slots are scarce"),
        (", deferrable=True", Level.WARNING, "so a triggerer runs"),
    ],
)
def test_the_advice_follows_what_the_file_tells_of_its_deployment(
    review, sensor: str, level: Level, says: str
) -> None:
    (finding,) = review(dag(SUBMIT, WAIT.removesuffix(")") + sensor + ")"))
    assert (finding.code, finding.level) == ("DUR201", level)
    assert says in finding.message


def test_the_rewrite_is_one_task_with_this_package_s_operator(review) -> None:
    code = """
    from airflow.providers.databricks.operators import databricks as dbx
    from airflow.providers.databricks.sensors.databricks import DatabricksSensor

    submit = dbx.DatabricksRunNowOperator(task_id="submit", job_id=17, wait_for_termination=False)
    wait = DatabricksSensor(task_id="wait", run_id=submit.output["run_id"], deferrable=True)
    """
    (finding,) = review(code, only="DUR201")
    assert finding.after == (
        "from airflow_provider_durable.operators.databricks import DatabricksRunNowOperator\n\n"
        "submit = DatabricksRunNowOperator(\n"
        '    task_id="submit",\n    job_id=17,\n    wait_for_termination=True,\n    deferrable=True,\n)'
    )
    (older,) = review(code, only="DUR201", version="3.1.0")
    assert "durable" not in older.message
    assert "airflow_provider_durable" not in (older.after or "")


@pytest.mark.parametrize(
    "submit",
    [
        '@task\ndef submit():\n    return glue.start_job_run(JobName="j")["JobRunId"]\nrun = submit()',
        'def go():\n    return submit_job()\nrun = PythonOperator(task_id="s", python_callable=go).output',
    ],
)
@pytest.mark.parametrize(
    "wait",
    [
        "@task.sensor\ndef wait(run_id):\n    return hook.get_job_run(run_id) == 'DONE'\nwait(run)",
        "@task\ndef wait(run_id):\n    while hook.get_status(run_id):\n        time.sleep(30)\nwait(run)",
        'GlueJobSensor(task_id="wait", job_name="j", run_id=run)',
    ],
)
def test_hand_written_submit_and_poll_tasks_are_seen(review, submit: str, wait: str) -> None:
    (finding,) = review(dag(submit, wait))
    assert finding.code == "DUR201"
    assert "A retry of the hand-written submit task starts a second job" in finding.message


def test_a_job_id_through_an_airflow_variable_is_followed(codes) -> None:
    code = dag(
        '@task\ndef submit():\n    Variable.set("glue_run_id", hook.start_job_run())\nsubmit()',
        'GlueJobSensor(task_id="wait", job_name="j", run_id="{{ var.value.glue_run_id }}")',
    )
    assert "DUR201" in codes(code)


@pytest.mark.parametrize(
    "hang",
    [
        "submit >> load",
        "load << submit",
        "submit >> [wait, load]",
        "submit >> Label('then') >> load",
        "submit.set_downstream(load)",
        "load.set_upstream(submit)",
        "chain(submit, load)",
        "chain(submit, [wait, load])",
        "submit >> wait\nsubmit >> load",
        "with TaskGroup('g') as g:\n    inner = EmptyOperator(task_id='inner')\nsubmit >> g",
        "PythonOperator(task_id='use', python_callable=print, op_args=[submit.output])",
        "@task\ndef use(run):\n    print(run)\nuse(submit.output)",
    ],
)
def test_what_hangs_on_the_submit_task_is_found_however_it_is_written(codes, hang: str) -> None:
    code = dag(SUBMIT, WAIT, NEXT, hang)
    assert codes(code, only="DUR202") == ["DUR202"]


@pytest.mark.parametrize(
    "hang",
    [
        "submit >> wait >> load",
        "chain(submit, wait, load)",
        "[submit, wait] >> load",
        "wait >> load\nsubmit >> wait",
        # On the way to the sensor: it prepares the waiting.
        "submit >> load >> wait",
        "chain([submit, wait], [wait, load])",
    ],
)
def test_what_also_waits_for_the_sensor_is_right(codes, hang: str) -> None:
    assert codes(dag(SUBMIT, WAIT, NEXT, hang), only="DUR202") == []


def test_a_group_that_ends_in_the_sensor_waits_for_it(codes) -> None:
    code = dag(
        "with TaskGroup('job') as job:",
        f"    {SUBMIT}",
        f"    {WAIT}",
        "    submit >> wait",
        NEXT,
        "job >> load",
    )
    assert codes(code, only="DUR202") == []
    apart = dag("with TaskGroup('job') as job:", f"    {SUBMIT}", WAIT, NEXT, "job >> wait", "job >> load")
    assert codes(apart, only="DUR202") == ["DUR202"]


def test_the_finding_names_the_line_of_the_dependency_and_both_tasks(review) -> None:
    code = dag(SUBMIT, WAIT, NEXT, "submit >> wait", "submit >> load")
    (finding,) = review(code, only="DUR202")
    assert finding.line == code.split("\n").index("    submit >> load") + 1
    assert (finding.before, finding.after) == ("submit >> load", "wait >> load")


@pytest.mark.parametrize(
    ("argument", "found"),
    [
        ("outlets=[ORDERS]", True),
        ("on_success_callback=tell", True),
        ("on_failure_callback=tell", True),
        ("on_execute_callback=tell", False),
        ("on_success_callback=None", False),
        ("retries=3", False),
    ],
)
def test_what_tells_of_the_job_belongs_on_the_sensor(codes, argument: str, found: bool) -> None:
    code = dag(SUBMIT.replace("False", f"False, {argument}"), WAIT, "submit >> wait")
    assert codes(code, only="DUR203") == (["DUR203"] if found else [])


def test_an_alert_on_both_tasks_is_right(codes) -> None:
    code = dag(
        SUBMIT.replace("False", "False, on_failure_callback=tell"),
        WAIT.replace("run_id", "on_failure_callback=tell, run_id"),
    )
    assert codes(code, only="DUR203") == []


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        ((SUBMIT, NEXT.replace("EmptyOperator", "PythonOperator"), "submit >> load"), True),
        ((SUBMIT, NEXT, "submit >> load"), False),
        ((SUBMIT,), False),
        (
            (
                SUBMIT.replace("False", "True"),
                NEXT.replace("EmptyOperator", "PythonOperator"),
                "submit >> load",
            ),
            False,
        ),
        # Something takes the id, in a way that may be waiting.
        (
            (SUBMIT, 'load = PythonOperator(task_id="l", python_callable=watch, op_args=[submit.output])'),
            False,
        ),
        ((SUBMIT, 'GlueJobSensor(task_id="wait", job_name="j", run_id="latest") << submit'), False),
    ],
)
def test_a_job_that_nothing_waits_for_is_found_when_work_follows_it(
    codes, lines: tuple[str, ...], found: bool
) -> None:
    assert codes(dag(*lines), only="DUR204") == (["DUR204"] if found else [])


def test_task_ids_of_another_dag_in_the_file_are_not_mixed_up(codes) -> None:
    first = dag(SUBMIT.replace("False", "True"))
    second = dag(
        SUBMIT, "GlueJobSensor(task_id='wait', run_id=\"{{ ti.xcom_pull(task_ids='submit') }}\")"
    ).replace(HEAD, "")
    assert codes(first + "\n" + second, only="DUR201") == ["DUR201"]
    third = dag("GlueJobSensor(task_id='wait', run_id=\"{{ ti.xcom_pull(task_ids='submit') }}\")").replace(
        HEAD, ""
    )
    assert codes(dag(SUBMIT) + "\n" + third.replace("with DAG", "with DAG"), only="DUR201") == ["DUR201"]


def test_chain_joins_two_lists_item_by_item(codes) -> None:
    other = 'other = EmptyOperator(task_id="other")'
    assert codes(dag(SUBMIT, WAIT, NEXT, other, "chain([submit, other], [wait, load])"), only="DUR202") == []
    assert codes(dag(SUBMIT, WAIT, NEXT, other, "chain([submit, other], load)"), only="DUR202") == ["DUR202"]


def test_a_sensor_watches_the_task_of_its_own_dag_when_two_have_the_same_id(codes) -> None:
    waits = dag(
        SUBMIT.replace("False", "True"), "GlueJobSensor(task_id='w', run_id=\"{{ ti.xcom_pull('submit') }}\")"
    )
    assert codes(dag(SUBMIT) + "\n" + waits.replace(HEAD, ""), only="DUR201") == []
