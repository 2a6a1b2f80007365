"""DUR210 to DUR231: switches, sensors, retries."""

from __future__ import annotations

import pytest

from airflow_provider_durable.review.findings import Level

IMPORTS = """
import datetime
from datetime import timedelta
from airflow.providers.amazon.aws.operators.batch import BatchOperator
from airflow.providers.databricks.operators.databricks import DatabricksRunNowOperator
from airflow.providers.amazon.aws.sensors.s3 import S3KeySensor
from airflow.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sensors.time_delta import TimeDeltaSensor, TimeDeltaSensorAsync
from airflow.sdk import DAG, task
from airflow_provider_durable.operators.spark import SparkSubmitOperator
from company.sensors import CompanySensor
HOUR = 60 * 60
COMMON = {"retries": 0}
"""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (
            "DatabricksRunNowOperator(task_id='t', deferrable=True, wait_for_termination=False)",
            "never defers",
        ),
        ("BatchOperator(task_id='t', deferrable=True, wait_for_completion=False)", "waits all the same"),
        ("SparkSubmitOperator(task_id='t', deferrable=True, wait_for_completion=False)", "refuses the pair"),
        (
            "BatchOperator.partial(task_id='t', deferrable=True, wait_for_completion=False).expand(a=[1])",
            "waits all the same",
        ),
        (
            "DatabricksRunNowOperator(task_id='t', **{'deferrable': True, 'wait_for_termination': False})",
            "never defers",
        ),
    ],
)
def test_deferring_against_the_wait_switch_is_found_and_says_what_happens(
    review, call: str, says: str
) -> None:
    (finding,) = review(IMPORTS + call, only="DUR210")
    assert says in finding.message


@pytest.mark.parametrize(
    "call",
    [
        "DatabricksRunNowOperator(task_id='t', deferrable=True, wait_for_termination=True)",
        "DatabricksRunNowOperator(task_id='t', deferrable=False, wait_for_termination=False)",
        "DatabricksRunNowOperator(task_id='t', deferrable=conf.defer, wait_for_termination=False)",
    ],
)
def test_no_contradiction_no_finding(codes, call: str) -> None:
    assert codes(IMPORTS + call, only="DUR21") == []


def test_inner_default_args_win_and_the_origin_is_named(review) -> None:
    code = (
        IMPORTS
        + """
with DAG("d", default_args={"wait_for_termination": False, "deferrable": True}):
    DatabricksRunNowOperator(task_id="a", job_id=1)
    DatabricksRunNowOperator(task_id="b", job_id=1, wait_for_termination=True)
"""
    )
    (finding,) = review(code, only="DUR210")
    assert "'a'" in finding.message
    assert "(from default_args)" in finding.message


def test_deferrable_alone_is_a_finding_where_the_default_is_not_to_wait_and_else_a_note(review) -> None:
    def levels(call: str) -> list[Level]:
        return [finding.level for finding in review(IMPORTS + call, only="DUR211")]

    assert levels("TriggerDagRunOperator(task_id='t', trigger_dag_id='x', deferrable=True)") == [
        Level.WARNING
    ]
    assert levels("DatabricksRunNowOperator(task_id='t', deferrable=True)") == [Level.NOTE]
    assert levels("BatchOperator(task_id='t', deferrable=True)") == []
    ours = "from airflow_provider_durable.operators.databricks import DatabricksRunNowOperator as Ours\n"
    assert levels(ours + "Ours(task_id='t', deferrable=True)") == []
    assert levels("DatabricksRunNowOperator(task_id='t', deferrable=True, **settings)") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("timeout=6 * HOUR", "up to 6 hours"),
        ("timeout=timedelta(hours=36).total_seconds()", "up to 1.5 days"),
        ("timeout=datetime.timedelta(days=1), mode='poke'", "up to 1 day"),
        ("poke_interval=600", "10 minutes between polls"),
        ("poke_interval=float(600)", "10 minutes between polls"),
    ],
)
def test_a_sensor_that_says_it_waits_for_long_should_not_poke(review, arguments: str, says: str) -> None:
    (finding,) = review(IMPORTS + f"S3KeySensor(task_id='t', bucket_key='k', {arguments})", only="DUR220")
    assert says in finding.message
    assert 'mode="reschedule"' in (finding.after or "")


@pytest.mark.parametrize(
    "call",
    [
        "S3KeySensor(task_id='t', timeout=6 * HOUR, mode='reschedule')",
        "S3KeySensor(task_id='t', timeout=6 * HOUR, deferrable=True)",
        "S3KeySensor(task_id='t', timeout=6 * HOUR, **options)",
        "S3KeySensor(task_id='t', timeout=6 * HOUR, mode=MODE)",
        "S3KeySensor(task_id='t', timeout=600, poke_interval=300)",
        "S3KeySensor(task_id='t')",
        "TimeDeltaSensorAsync(task_id='t', delta=timedelta(hours=9))",
        "TimeDeltaSensor(task_id='t', delta=timedelta(minutes=9))",
        "CompanySensor(task_id='t', timeout=6 * HOUR)",
        "with DAG('d', default_args={'mode': 'reschedule'}):\n    S3KeySensor(task_id='t', timeout=6 * HOUR)",
    ],
)
def test_a_sensor_that_frees_its_slot_or_waits_shortly_or_may_do_either_is_left_alone(
    codes, call: str
) -> None:
    assert codes(IMPORTS + call, only="DUR220") == []


def test_waiting_sensors_of_every_kind_are_seen(codes) -> None:
    code = (
        IMPORTS
        + """
class Mine(S3KeySensor):
    pass

TimeDeltaSensor(task_id="a", delta=timedelta(hours=9))
Mine(task_id="b", timeout=6 * HOUR)

@task.sensor(timeout=6 * HOUR)
def ready():
    return True

ready()
"""
    )
    assert codes(code, only="DUR220") == ["DUR220"] * 3


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("SparkSubmitOperator(task_id='t', retries=0)", True),
        ("DatabricksRunNowOperator(task_id='t', durable=True, retries=0)", True),
        ("with DAG('d', default_args=COMMON):\n    SparkSubmitOperator(task_id='t')", True),
        (
            "with DAG('d', default_args={**COMMON, 'a': 1}) as dag:\n    SparkSubmitOperator(task_id='t')",
            True,
        ),
        ("dag = DAG('d', default_args=COMMON)\nSparkSubmitOperator(task_id='t', dag=dag)", True),
        ("with DAG('d', default_args=COMMON):\n    SparkSubmitOperator(task_id='t', retries=1)", False),
        ("SparkSubmitOperator(task_id='t')", False),
        ("SparkSubmitOperator(task_id='t', retries=0, durable=False)", False),
        ("DatabricksRunNowOperator(task_id='t', retries=0)", False),
    ],
)
def test_durable_without_a_retry_left(codes, code: str, found: bool) -> None:
    assert codes(IMPORTS + code, only="DUR230") == (["DUR230"] if found else [])


def test_an_operator_of_one_s_own_with_the_mixin_needs_retries_as_well(codes) -> None:
    code = """
    from airflow.sdk import BaseOperator, ResumableJobMixin

    class Run(ResumableJobMixin, BaseOperator):
        external_id_key = "run_id"

    Run(task_id="t", retries=0)
    """
    assert codes(code) == ["DUR230"]


def test_a_dag_decorator_s_default_args_hold_for_its_tasks(codes) -> None:
    code = (
        IMPORTS
        + """
from airflow.sdk import dag

@dag(default_args={"retries": 0})
def pipeline():
    SparkSubmitOperator(task_id="t")

pipeline()
"""
    )
    assert codes(code, only="DUR230") == ["DUR230"]


def test_durable_false_is_airflow_s_and_not_a_message_queue_s(codes) -> None:
    assert codes("import airflow, pika\nchannel.queue_declare(queue='q', durable=False)") == []
    assert codes(IMPORTS + "SparkSubmitOperator(task_id='t', durable=False)", only="DUR231") == ["DUR231"]
    for path in ("tests/dags/x.py", "dags/test_x.py", "conftest.py", "a/x_test.py"):
        assert (
            codes(IMPORTS + "SparkSubmitOperator(task_id='t', durable=False)", only="DUR231", path=path) == []
        )


def test_the_group_s_default_args_win_over_the_dag_s(codes) -> None:
    code = """
with DAG("d", default_args={"retries": 0}):
    with TaskGroup("g", default_args={"retries": 2}):
        SparkSubmitOperator(task_id="t")
"""
    assert codes(IMPORTS + "from airflow.sdk import TaskGroup" + code, only="DUR230") == []


def test_a_name_has_the_value_that_it_has_where_it_is_used(codes) -> None:
    sensor = "S3KeySensor(task_id='t', timeout=LIMIT)\n"
    code = f"LIMIT = 7200\n{sensor}LIMIT = 60\n{sensor}"
    assert codes(IMPORTS + code, only="DUR220") == ["DUR220"]
