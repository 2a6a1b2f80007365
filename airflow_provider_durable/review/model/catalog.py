"""What is known of operators and sensors: which submit a job, which wait, which have a durable counterpart.

Keyed by class name: providers moved these classes between modules, and kept their names.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Waits = Literal["yes", "no", "unless-referenced"]


@dataclass(frozen=True)
class Submitter:
    """An operator that starts a job outside Airflow.

    :param service: what the job runs on, in words.
    :param switch: the parameter that says whether the task waits; empty where there is none.
    :param inverted: the switch means "do not wait".
    :param default: whether the task waits when nothing is said. ``unless-referenced``: provider versions
        differ, so the task is taken not to wait where a sensor watches its job.
    :param deferrable: it has ``deferrable=``.
    :param defer_needs_wait: with the switch off, ``deferrable=True`` does nothing at all.
    :param durable: it can reconnect after a crash (Airflow 3.3 and a provider that has Airflow's mixin).
    :param cluster: it starts something to run jobs on, so tasks right after it are what it is for.
    """

    service: str
    switch: str = ""
    inverted: bool = False
    default: Waits = "yes"
    deferrable: bool = True
    defer_needs_wait: bool = False
    durable: bool = False
    cluster: bool = False


@dataclass(frozen=True)
class Counterpart:
    """A durable operator of this package.

    :param modules: the modules that the upstream class is imported from, newest first.
    :param module: ours.
    """

    modules: tuple[str, ...]
    module: str


PACKAGE = "airflow_provider_durable"

COUNTERPARTS: dict[str, Counterpart] = {
    "BatchOperator": Counterpart(
        ("airflow.providers.amazon.aws.operators.batch",), f"{PACKAGE}.operators.batch"
    ),
    "AwsBatchOperator": Counterpart(
        ("airflow.providers.amazon.aws.operators.batch", "airflow.contrib.operators.awsbatch_operator"),
        f"{PACKAGE}.operators.batch",
    ),
    "DatabricksSubmitRunOperator": Counterpart(
        (
            "airflow.providers.databricks.operators.databricks",
            "airflow.contrib.operators.databricks_operator",
        ),
        f"{PACKAGE}.operators.databricks",
    ),
    "DatabricksRunNowOperator": Counterpart(
        (
            "airflow.providers.databricks.operators.databricks",
            "airflow.contrib.operators.databricks_operator",
        ),
        f"{PACKAGE}.operators.databricks",
    ),
    "BigQueryInsertJobOperator": Counterpart(
        ("airflow.providers.google.cloud.operators.bigquery",), f"{PACKAGE}.operators.bigquery"
    ),
    "SparkSubmitOperator": Counterpart(
        (
            "airflow.providers.apache.spark.operators.spark_submit",
            "airflow.contrib.operators.spark_submit_operator",
        ),
        f"{PACKAGE}.operators.spark",
    ),
}
# The name in our module, where upstream has since dropped the old one.
RENAMED = {"AwsBatchOperator": "BatchOperator"}

_DATABRICKS = Submitter("Databricks", "wait_for_termination", defer_needs_wait=True, durable=True)
_AWS = "wait_for_completion"

SUBMITTERS: dict[str, Submitter] = {
    "DatabricksSubmitRunOperator": _DATABRICKS,
    "DatabricksRunNowOperator": _DATABRICKS,
    "DatabricksNotebookOperator": Submitter("Databricks", "wait_for_termination", defer_needs_wait=True),
    "DatabricksTaskOperator": Submitter("Databricks", "wait_for_termination", defer_needs_wait=True),
    "DatabricksSQLStatementsOperator": Submitter("Databricks", "wait_for_termination", defer_needs_wait=True),
    "BatchOperator": Submitter("AWS Batch", _AWS, durable=True),
    "AwsBatchOperator": Submitter("AWS Batch", _AWS, durable=True),
    "GlueJobOperator": Submitter("AWS Glue", _AWS, durable=True),
    "AwsGlueJobOperator": Submitter("AWS Glue", _AWS, deferrable=False),
    "RedshiftDataOperator": Submitter("Redshift", _AWS, defer_needs_wait=True, durable=True),
    "EmrAddStepsOperator": Submitter("EMR", _AWS, default="no"),
    "EmrContainerOperator": Submitter("EMR on EKS", _AWS),
    "EmrServerlessStartJobOperator": Submitter("EMR Serverless", _AWS),
    "EmrCreateJobFlowOperator": Submitter("EMR", _AWS, default="no", cluster=True),
    "EcsRunTaskOperator": Submitter("Amazon ECS", _AWS),
    "StepFunctionStartExecutionOperator": Submitter("AWS Step Functions", default="no"),
    "SageMakerProcessingOperator": Submitter("SageMaker", _AWS),
    "SageMakerTrainingOperator": Submitter("SageMaker", _AWS),
    "SageMakerTransformOperator": Submitter("SageMaker", _AWS),
    "SageMakerTuningOperator": Submitter("SageMaker", _AWS),
    "SageMakerAutoMLOperator": Submitter("SageMaker", _AWS, deferrable=False),
    "SageMakerStartPipelineOperator": Submitter("SageMaker", _AWS, default="no"),
    "BigQueryInsertJobOperator": Submitter("BigQuery", durable=True),
    "DataprocSubmitJobOperator": Submitter("Dataproc", "asynchronous", inverted=True),
    "DataprocCreateBatchOperator": Submitter("Dataproc", "asynchronous", inverted=True),
    "AzureDataFactoryRunPipelineOperator": Submitter(
        "Azure Data Factory", "wait_for_termination", defer_needs_wait=True
    ),
    "AzureSynapseRunSparkBatchOperator": Submitter("Azure Synapse", "wait_for_termination", deferrable=False),
    "AzureSynapseRunPipelineOperator": Submitter("Azure Synapse", "wait_for_termination", deferrable=False),
    "DbtCloudRunJobOperator": Submitter("dbt Cloud", "wait_for_termination", defer_needs_wait=True),
    "AirbyteTriggerSyncOperator": Submitter("Airbyte", "asynchronous", inverted=True),
    "SparkSubmitOperator": Submitter("Spark", deferrable=False, durable=True),
    "SparkKubernetesOperator": Submitter(
        "Spark on Kubernetes", default="unless-referenced", deferrable=False
    ),
    "LivyOperator": Submitter("Livy", default="unless-referenced"),
}

# Operators whose deferrable=True does nothing while their wait switch is off, and that start no outside job.
DEFER_NEEDS_WAIT: dict[str, tuple[str, bool]] = {
    "TriggerDagRunOperator": ("wait_for_completion", False),
    **{
        name: (known.switch, known.default == "yes")
        for name, known in SUBMITTERS.items()
        if known.defer_needs_wait and not known.inverted
    },
}

WAIT_SWITCHES = {"wait_for_termination": False, "wait_for_completion": False, "asynchronous": True}

# Parameters by which a sensor is told which job to watch.
JOB_PARAMETERS = frozenset(
    [
        "run_id",
        "job_id",
        "job_run_id",
        "batch_id",
        "statement_id",
        "query_id",
        "query_execution_id",
        "execution_id",
        "execution_arn",
        "step_id",
        "application_id",
        "application_name",
        "dataproc_job_id",
        "airbyte_job_id",
        "job_flow_id",
        "job_name",
        "training_job_name",
        "transform_job_name",
        "processing_job_name",
        "pipeline_exec_arn",
        "pipeline_run_id",
        "external_id",
        "task",
        "task_arn",
        "driver_id",
        "submission_id",
        "virtual_cluster_job_id",
        "invocation_id",
        "sub_run_id",
    ]
)

_SUBMIT = re.compile(
    r"(^|_)(submit|launch|trigger)(_|$)"
    r"|^(start|create|run|post|insert|execute|add)_(\w+_)?(jobs?|runs?|now|query|statement|execution|batch|pipeline|"
    r"steps?|flow_steps|sync|sql_async|async)$"
    r"|^(run_now|execute_async|start_query_execution|execute_statement|insert_job|add_job_flow_steps)$"
)
_ASK = re.compile(
    r"(status|state|describe|poll|is_(running|active|done|finished|complete)|wait|get_(job|run|query|step|batch|"
    r"execution|statement)(_\w+)?$)"
)


def leaf(qualified: str) -> str:
    """The last part of a dotted name."""
    return qualified.rsplit(".", 1)[-1]


def is_sensor(qualified: str) -> bool:
    """Whether a class is a sensor, by the naming that Airflow and its providers keep to."""
    return bool(re.search(r"Sensor(Async)?$", leaf(qualified)))


def is_operator(qualified: str) -> bool:
    """Whether a class is an operator or a sensor, by the same naming."""
    return bool(re.search(r"(Operator|Sensor)(Async)?$", leaf(qualified)))


def is_airflow(qualified: str, *names: str) -> bool:
    """Whether a dotted name is one of Airflow's own with one of these last parts."""
    return qualified.split(".", 1)[0] == "airflow" and leaf(qualified) in names


def is_ours(qualified: str) -> bool:
    """Whether a dotted name is this package's."""
    return qualified.split(".", 1)[0] == PACKAGE


def counterpart(qualified: str) -> tuple[str, str] | None:
    """Our module and class for an upstream operator, where there is one."""
    module, _, name = qualified.rpartition(".")
    known = COUNTERPARTS.get(name)
    if known is None or module not in known.modules:
        return None
    return known.module, RENAMED.get(name, name)


def submits(method: str) -> bool:
    """Whether a method's name says that it starts a job."""
    return bool(_SUBMIT.search(method))


def asks(method: str) -> bool:
    """Whether a method's name says that it asks how a job is doing."""
    return bool(_ASK.search(method))
