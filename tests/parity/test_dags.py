"""In a Dag our operators are what Apache's are: to the scheduler, to the UI, to templates, to other tasks."""

from __future__ import annotations

import inspect
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_durable.resumable.compat import AirflowException
from parity.dags import in_a_dag, new_dag, serialized, there_and_back
from parity.observed import differing, state_of
from parity.pairs import PAIRS
from parity.services import run, service_of

if TYPE_CHECKING:
    from parity.pairs import Pair

each_pair = pytest.mark.parametrize("pair", PAIRS, ids=str)


def both_there_and_back(pair: Pair) -> list[Any]:
    return [there_and_back(in_a_dag(operator, **pair.given()).dag).get_task("task") for operator in pair.both]


@each_pair
def test_what_the_scheduler_reads_is_what_it_reads_of_apaches(pair: Pair) -> None:
    theirs, ours = both_there_and_back(pair)
    assert differing(state_of(theirs), ours) == set()
    for name in ("task_type", "operator_name", "template_fields", "template_ext", "ui_color", "ui_fgcolor"):
        assert getattr(ours, name) == getattr(theirs, name), name
        assert getattr(theirs, name, None) is not None or name == "template_ext"


@each_pair
def test_the_ui_has_the_links_of_apaches_by_their_names(pair: Pair) -> None:
    theirs, ours = both_there_and_back(pair)
    assert ours.extra_links == theirs.extra_links
    (fields,) = serialized(in_a_dag(pair.ours, **pair.given()).dag)["dag"]["tasks"]
    assert json.dumps(fields["__var"].get("_operator_extra_links", {})) == json.dumps(
        serialized(in_a_dag(pair.apache, **pair.given()).dag)["dag"]["tasks"][0]["__var"].get(
            "_operator_extra_links", {}
        )
    )
    assert [type(link) for link in pair.ours.operator_extra_links] == [
        type(link) for link in pair.apache.operator_extra_links
    ]


@each_pair
def test_a_mapped_task_is_serialized_as_apaches_is(pair: Pair) -> None:
    fields = []
    for operator in pair.both:
        given = {name: value for name, value in pair.given().items() if name != pair.mapped}
        with new_dag() as dag:
            operator.partial(**given).expand(**{pair.mapped: [pair.samples[pair.mapped]] * 2})
        (encoded,) = serialized(dag)["dag"]["tasks"]
        fields.append(encoded["__var"])
        assert "MappedOperator" in type(there_and_back(dag).get_task("task")).__name__
    theirs, ours = fields
    assert {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)} == {
        "_task_module"
    }


@each_pair
def test_templates_are_rendered_in_all_fields_and_no_others(pair: Pair) -> None:
    for field in pair.apache.template_fields:
        rendered = []
        for operator in pair.both:
            task = in_a_dag(operator, **pair.given())
            setattr(task, field, {"a": ["{{ word }}"]})
            task.render_template_fields({"word": "rendered", "dag": task.dag, "ti": None})
            rendered.append(getattr(task, field))
        assert rendered == [{"a": ["rendered"]}] * 2, field


@each_pair
def test_the_output_of_another_task_makes_a_dependency(pair: Pair) -> None:
    found: list[Any] = []
    for operator in pair.both:
        with new_dag():
            earlier = operator(**{**pair.given(), "task_id": "earlier"})
            try:
                task = operator(**pair.given(**{pair.mapped: earlier.output}))
            except AirflowException as error:
                # Older versions take no such thing in every parameter.
                found.append(str(error))
            else:
                found.append(task.upstream_task_ids)
    assert found[0] == found[1]


def test_openlineage_is_told_the_same_of_a_job_at_bigquery(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(
        "airflow.providers.openlineage",
        reason="OpenLineage is beside Airflow 3.2 only, as its listener would run in all that tests start",
    )
    (pair,) = (pair for pair in PAIRS if pair.name == "BigQueryInsertJobOperator")
    told = []
    with service_of(pair, monkeypatch) as service:
        for operator in pair.both:
            task = run(pair, operator, service).task
            lineage = task.get_openlineage_facets_on_complete(None)
            assert lineage.run_facets["externalQuery"].externalQueryId == task.job_id
            told.append(re.sub(r'"creationTime": [0-9.]+', "", repr(lineage).replace(task.job_id, "ID")))
    assert told[0] == told[1]
    assert "copy" in told[0]


@each_pair
def test_openlineage_asks_the_same_methods(pair: Pair) -> None:
    names = [f"get_openlineage_facets_on_{when}" for when in ("start", "complete", "failure")]
    for name in names:
        theirs, ours = (inspect.getattr_static(operator, name, None) for operator in pair.both)
        assert ours is theirs, name
