"""Pages that list what is in the source list all of it, and nothing that is not."""

from __future__ import annotations

import importlib
import re

import airflow_provider_durable
from airflow_provider_durable import resumable
from airflow_provider_durable.resumable.hooks import JobHooks
from airflow_provider_durable.resumable.parameters import DEFAULTS
from pages.embed import REPOSITORY
from pages.markdown import Page
from pages.messages import PACKAGE, listed_messages, matches, messages

TROUBLESHOOTING = Page("docs/troubleshooting.md")
OPERATING = Page("docs/operating.md")


def table(page: Page, heading: str) -> list[str]:
    """The code in the first column of the table under a heading."""
    section = page.text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE)


def source() -> str:
    return "\n".join(path.read_text() for path in sorted(PACKAGE.rglob("*.py")))


def test_every_error_message_is_explained() -> None:
    listed = listed_messages(TROUBLESHOOTING.text)
    unexplained = {
        text: path.name for text, path in messages().items() if not any(matches(one, text) for one in listed)
    }
    assert unexplained == {}


def test_every_message_that_is_explained_exists() -> None:
    section = TROUBLESHOOTING.text.partition("\n## No error")[0]
    known = messages()
    assert [one for one in listed_messages(section) if not any(matches(one, text) for text in known)] == []


def test_the_metrics_are_those_that_are_counted() -> None:
    text = (PACKAGE / "resumable" / "telemetry.py").read_text()
    # _describe returns the span's word, the metric, a level and a sentence.
    counted = {metric for _, metric in re.findall(r'return "(\w+)", "(\w*)"', text)} - {""}
    counted |= set(re.findall(r'\bcount\([\w.]+, [\w.]+, "(\w+)"\)', source()))
    assert set(table(OPERATING, "Metrics")) - {"resumable_job.…"} == counted


def test_the_spans_decisions_are_all_named() -> None:
    text = (PACKAGE / "resumable" / "telemetry.py").read_text()
    decisions = set(re.findall(r'return "(\w+)", "', text)) | {"no_task_state_store"}
    paragraph = OPERATING.text.partition("\n## Traces\n")[2].partition("\n## ")[0]
    assert set(re.findall("`([a-z_]+)`", paragraph.partition("one of")[2])) == decisions


def test_the_log_events_are_logged() -> None:
    events = table(OPERATING, "Log events")
    assert len(events) > 10
    assert [event for event in events if f'"{event}"' not in source()] == []


def test_every_parameter_is_in_the_table() -> None:
    listed = set(re.findall(r"^\| `(\w+)` \|", Page("docs/parameters.md").text, re.MULTILINE))
    assert listed == {*DEFAULTS, "deferrable"}


def test_what_hooks_may_read_is_all_listed() -> None:
    readable = {name for name, value in vars(JobHooks).items() if isinstance(value, property)} | {"remember"}
    section = Page("docs/writing-an-operator.md").text.partition("\n## What the hooks may read\n")[2]
    assert set(re.findall(r"^\| `(\w+)", section.partition("\n## ")[0], re.MULTILINE)) == readable


def test_the_api_page_names_what_can_be_imported() -> None:
    paths = re.findall(r"^- \[`([\w.]+)`\]\(\.\./([\w/.]+)\)", Page("docs/api.md").text, re.MULTILINE)
    for path, file in paths:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name)
        assert file == f"{module.replace('.', '/')}.py"
    public = {*airflow_provider_durable.__all__, *resumable.__all__} - {"__version__", "HAS_TASK_STATE_STORE"}
    assert public <= {path.rpartition(".")[2] for path, _ in paths}


def test_every_operator_has_a_page_and_is_on_the_api_page() -> None:
    api = Page("docs/api.md").text
    for path in sorted((PACKAGE / "operators").glob("[a-z]*.py")):
        assert (REPOSITORY / "docs" / "operators" / f"{path.stem}.md").exists()
        assert f"airflow_provider_durable.operators.{path.stem}." in api
