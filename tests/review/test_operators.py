"""DUR301, DUR4xx and DUR601: durable counterparts, the mixin, Airflow versions."""

from __future__ import annotations

import pytest

from airflow_provider_durable.review.findings import Level

DATABRICKS = "airflow.providers.databricks.operators.databricks"


@pytest.mark.parametrize(
    ("upstream", "ours"),
    [
        (
            "airflow.providers.amazon.aws.operators.batch import BatchOperator",
            "airflow_provider_durable.operators.batch import BatchOperator",
        ),
        (
            f"{DATABRICKS} import DatabricksSubmitRunOperator as Submit",
            "airflow_provider_durable.operators.databricks import DatabricksSubmitRunOperator as Submit",
        ),
        (
            f"{DATABRICKS} import DatabricksRunNowOperator",
            "airflow_provider_durable.operators.databricks import DatabricksRunNowOperator",
        ),
        (
            "airflow.providers.google.cloud.operators.bigquery import BigQueryInsertJobOperator",
            "airflow_provider_durable.operators.bigquery import BigQueryInsertJobOperator",
        ),
        (
            "airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator",
            "airflow_provider_durable.operators.spark import SparkSubmitOperator",
        ),
        (
            "airflow.contrib.operators.spark_submit_operator import SparkSubmitOperator",
            "airflow_provider_durable.operators.spark import SparkSubmitOperator",
        ),
        (
            "airflow.providers.amazon.aws.operators.batch import AwsBatchOperator",
            "airflow_provider_durable.operators.batch import BatchOperator as AwsBatchOperator",
        ),
    ],
)
def test_moving_over_is_one_import_line(review, upstream: str, ours: str) -> None:
    name = upstream.rsplit(maxsplit=1)[-1]
    (finding,) = review(
        f"from {upstream}\n\njob = {name}(task_id='job')\nmore = {name}.partial(task_id='x').expand(a=[1])"
    )
    assert (finding.code, finding.line, finding.related) == ("DUR301", 1, (3, 4))
    assert (finding.before, finding.after) == (f"from {upstream}", f"from {ours}")


@pytest.mark.parametrize(
    "code",
    [
        "from airflow_provider_durable.operators.batch import BatchOperator\nBatchOperator(task_id='x')",
        "from airflow.providers.amazon.aws.operators.batch import BatchOperator",
        "from company.batch import BatchOperator\nBatchOperator(task_id='x')  # airflow",
        "from airflow.providers.google.cloud.operators.bigquery import BigQueryCheckOperator as B\nB(a=1)",
    ],
)
def test_no_counterpart_or_no_use_no_finding(codes, code: str) -> None:
    assert codes(code) == []


def test_a_class_reached_through_its_module_or_as_a_base_is_seen_where_it_is_used(review) -> None:
    code = f"import {DATABRICKS} as dbx\n\nclass Ours(dbx.DatabricksRunNowOperator):\n    pass"
    (finding,) = review(code)
    assert (finding.code, finding.line) == ("DUR301", 3)


def test_the_counterpart_is_a_note_where_it_would_submit_again(review) -> None:
    code = f"from {DATABRICKS} import DatabricksRunNowOperator\nDatabricksRunNowOperator(task_id='x')"
    (finding,) = review(code, version="3.2.2")
    assert finding.level is Level.NOTE
    assert "it reconnects from Airflow 3.3 on" in finding.message


OPERATOR = """
from airflow.sdk import BaseOperator, ResumableJobMixin

class RunOperator({bases}):
    {key}

    def execute(self, context):
        {execute}

    def submit_job(self, context):
        {submit}

    def wait(self, context):
        {helper}
"""


def operator(
    bases: str = "ResumableJobMixin, BaseOperator",
    key: str = 'external_id_key = "run_id"',
    execute: str = "return self.execute_resumable(context)",
    submit: str = "return self.hook.submit()",
    helper: str = "pass",
) -> str:
    return OPERATOR.format(bases=bases, key=key, execute=execute, submit=submit, helper=helper)


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ({}, []),
        ({"execute": "return self.hook.wait(self.submit_job(context))"}, ["DUR401"]),
        ({"execute": "return self.wait(context)", "helper": "return self.execute_resumable(context)"}, []),
        (
            {"execute": "if self.x:\n            return 1\n        return self.execute_resumable(context)"},
            [],
        ),
        ({"execute": "raise NotImplementedError"}, []),
        ({"bases": "ResumableJobMixin, OtherOperator", "execute": "return super().execute(context)"}, []),
        ({"bases": "BaseOperator", "execute": "return 1", "key": "x = 1"}, []),
        ({"key": "pass"}, ["DUR402"]),
        ({"key": "external_id_key: str = 'run_id'"}, []),
        ({"key": "pass", "bases": "ABC, ResumableJobMixin"}, []),
        ({"key": "def __init__(self): self.external_id_key = 'run_id'"}, []),
        ({"submit": "self.hook.submit()"}, ["DUR403"]),
        ({"submit": "return None"}, ["DUR403"]),
        ({"submit": "if self.skip:\n            return\n        return self.hook.submit()"}, ["DUR403"]),
        ({"submit": '"""Start it."""\n        raise NotImplementedError'}, []),
        ({"submit": "self.log.info('no')\n        raise RuntimeError"}, []),
        ({"submit": "def inner():\n            return None\n        return inner() or 1"}, []),
        ({"execute": "self.execute(context)\n        return self.execute_resumable(context)"}, ["DUR404"]),
        ({"helper": "return self.execute(context)"}, ["DUR404"]),
        ({"bases": "BaseOperator, ResumableJobMixin"}, ["DUR405"]),
    ],
)
def test_the_mixin_s_rules(codes, parts: dict[str, str], found: list[str]) -> None:
    assert codes(operator(**parts)) == found


def test_the_mixin_is_known_from_both_packages_and_through_a_base_class_of_the_file(codes) -> None:
    ours = operator(key="pass").replace(
        "BaseOperator, Res", "BaseOperator\nfrom airflow_provider_durable import Res"
    )
    assert codes(ours) == ["DUR402"]
    inherited = (
        operator() + "\nclass Child(RunOperator):\n    def execute(self, context):\n        return 1\n"
    )
    assert codes(inherited) == ["DUR401"]
    assert (
        codes(
            operator(key="pass").replace(
                "airflow.sdk import BaseOperator, Res", "company import BaseOperator, Res"
            )
        )
        == []
    )


def test_an_operator_that_has_the_mixin_upstream_has_a_key(codes) -> None:
    code = operator(bases="ResumableJobMixin, GlueJobOperator", key="pass")
    assert codes("from airflow.providers.amazon.aws.operators.glue import GlueJobOperator" + code) == []


STORE = """
from airflow.sdk import task

@task
def load(asset_state_store=None, **context):
    {body}
"""


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from airflow.sdk import ResumableJobMixin", [Level.WARNING]),
        ("from airflow.sdk import NEVER_EXPIRE", [Level.WARNING]),
        ("from airflow.sdk.state import TaskScope", [Level.WARNING]),
        ("from airflow.sdk import state", [Level.WARNING]),
        ("import airflow.sdk.state", [Level.WARNING]),
        ("import airflow.sdk", []),
        ("try:\n    from airflow.sdk import ResumableJobMixin\nexcept ImportError:\n    pass", []),
        (STORE.format(body='context["task_state_store"].set("a", 1)'), [Level.WARNING]),
        (STORE.format(body='asset_state_store[ORDERS].get("a")'), [Level.WARNING]),
        (STORE.format(body='if AIRFLOW_V_3_3_PLUS: context["task_state_store"].set("a", 1)'), []),
        (
            "from airflow.operators.bash import BashOperator\nBashOperator(task_id='x', durable=True)",
            [Level.NOTE],
        ),
        ("from airflow_provider_durable import ResumableJobMixin", []),
    ],
)
def test_what_needs_3_3_is_found_below_it_only(review, code: str, found: list[Level]) -> None:
    assert [finding.level for finding in review(code, only="DUR601", version="3.2.2")] == found
    assert review(code, only="DUR601", version="3.3.0") == []
