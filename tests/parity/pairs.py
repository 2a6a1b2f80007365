"""Each operator of this package beside the one of Apache's that it stands in for.

Whatever provider versions are installed, these are compared: what is written here names no version.
"""

from __future__ import annotations

import copy
import importlib
import importlib.metadata
import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

from requests.auth import HTTPBasicAuth

from airflow_provider_durable.resumable.compat import BaseOperator
from airflow_provider_durable.resumable.parameters import NOT_GIVEN

TASK = {"notebook_path": "/load"}
QUERY = {"query": {"query": "SELECT 1", "useLegacySql": False}}


@dataclass(frozen=True)
class Pair:
    """
    One operator, as both packages have it.

    :param name: the class, in both
    :param distribution: the provider package
    :param apache_module: where Apache's operator is
    :param module: where ours is
    :param arguments: the least that makes a task
    :param mapped: a parameter that Dags map over
    :param samples: values for parameters that not every value of their type would do for
    :param instead: what a parameter takes the place of, when it is given
    :param together: what a parameter needs beside it
    """

    name: str
    distribution: str
    apache_module: str
    module: str
    arguments: Mapping[str, Any]
    mapped: str
    samples: Mapping[str, Any] = field(default_factory=dict)
    instead: Mapping[str, str] = field(default_factory=dict)
    together: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.name

    @property
    def apache(self) -> type[Any]:
        """Apache's operator. Every environment that runs these tests has all the providers."""
        operator: type[Any] = getattr(importlib.import_module(self.apache_module), self.name)
        return operator

    @property
    def ours(self) -> type[Any]:
        """The operator of this package."""
        assert self.apache
        operator: type[Any] = getattr(importlib.import_module(self.module), self.name)
        return operator

    @property
    def both(self) -> tuple[type[Any], type[Any]]:
        """Apache's, and ours."""
        return self.apache, self.ours

    def given(self, **arguments: Any) -> dict[str, Any]:
        """Return ``arguments`` and what else it takes to make a task."""
        replaced = {self.instead[name] for name in arguments if name in self.instead}
        least = {name: value for name, value in self.arguments.items() if name not in replaced}
        beside = [self.together[name] for name in arguments if name in self.together]
        return {"task_id": "task", **copy.deepcopy(least), **dict(*beside), **arguments}

    def sample(self, parameter: inspect.Parameter) -> Any:
        """Return a value for a parameter that is not its default."""
        if parameter.name in self.samples:
            # Anew each time: older versions of Apache's operators write into what they are given.
            return copy.deepcopy(self.samples[parameter.name])
        if parameter.name in self.arguments:
            return copy.deepcopy(self.arguments[parameter.name])
        return _other_than(parameter.default, str(parameter.annotation))


#: A value of each type, by the word for it that annotations begin with.
_OF_TYPE: dict[str, Any] = {
    "bool": True,
    "dict": {"key": "value"},
    "float": 7.5,
    "int": 7,
    "list": ["one", "two"],
    "set": {"RUNNING"},
    "str": "another",
}


def _other_than(default: Any, annotation: str) -> Any:
    if isinstance(default, bool):
        return not default
    if isinstance(default, (int, float, timedelta)):
        return default * 2
    for word, value in _OF_TYPE.items():
        if annotation.startswith(word) or (isinstance(default, str) and word == "str"):
            return value
    raise NotImplementedError(f"Which value is there for {annotation}? Add one to the pair's samples.")


PAIRS = [
    Pair(
        name="BatchOperator",
        distribution="apache-airflow-providers-amazon",
        apache_module="airflow.providers.amazon.aws.operators.batch",
        module="airflow_provider_durable.operators.batch",
        arguments={"job_name": "report", "job_queue": "queue", "job_definition": "definition:1"},
        mapped="parameters",
        # What waits is an object of the author's.
        samples={"waiters": SimpleNamespace(), "parameters": {"day": "monday"}},
    ),
    Pair(
        name="DatabricksSubmitRunOperator",
        distribution="apache-airflow-providers-databricks",
        apache_module="airflow.providers.databricks.operators.databricks",
        module="airflow_provider_durable.operators.databricks",
        arguments={"notebook_task": TASK},
        mapped="notebook_task",
        samples={"json": {"run_name": "from json"}, "notebook_task": {"notebook_path": "/other"}},
        together={"dbt_task": {"git_source": {"git_url": "https://git.test/dbt"}}},
    ),
    Pair(
        name="DatabricksRunNowOperator",
        distribution="apache-airflow-providers-databricks",
        apache_module="airflow.providers.databricks.operators.databricks",
        module="airflow_provider_durable.operators.databricks",
        arguments={"job_id": "7"},
        mapped="notebook_params",
        samples={"json": {"python_params": ["from json"]}, "notebook_params": {"day": "monday"}},
        instead={"job_name": "job_id"},
    ),
    Pair(
        name="BigQueryInsertJobOperator",
        distribution="apache-airflow-providers-google",
        apache_module="airflow.providers.google.cloud.operators.bigquery",
        module="airflow_provider_durable.operators.bigquery",
        arguments={"configuration": QUERY},
        mapped="configuration",
        samples={"result_retry": None, "configuration": QUERY},
    ),
    Pair(
        name="SparkSubmitOperator",
        distribution="apache-airflow-providers-apache-spark",
        apache_module="airflow.providers.apache.spark.operators.spark_submit",
        module="airflow_provider_durable.operators.spark",
        arguments={"application": "app.jar"},
        mapped="application_args",
        samples={
            "application_args": ["--day", "monday"],
            "deploy_mode": "cluster",
            "yarn_rm_auth": HTTPBasicAuth("user", "word"),
        },
    ),
]


def parameters_of(operator: type[Any]) -> dict[str, inspect.Parameter]:
    """
    Return what can be given to ``operator``, and the defaults that then hold.

    Each class takes what it names and passes on the rest; a default of ``NOT_GIVEN`` is that of the next
    class. Kinds are left out: Airflow accepts nothing but keywords.
    """
    found: dict[str, inspect.Parameter] = {}
    for cls in operator.__mro__:
        if "__init__" not in vars(cls) or cls is object:
            continue
        for name, parameter in inspect.signature(cls.__init__).parameters.items():
            named = parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
            known = name in found and found[name].default is not NOT_GIVEN
            if named and name != "self" and not known:
                found[name] = parameter
    return found


def own_parameters_of(operator: type[Any]) -> dict[str, inspect.Parameter]:
    """Return the parameters of ``operator`` that not every operator has."""
    of_all = parameters_of(BaseOperator).keys()
    return {name: one for name, one in parameters_of(operator).items() if name not in of_all}
