"""The documentation is checked like code: its examples do what the pages say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from airflow_provider_durable.review.engine import Selection, review_text
from airflow_provider_durable.review.findings import Level
from airflow_provider_durable.review.rules import ALL_RULES
from airflow_provider_durable.review.versions import target

DOCS = Path(__file__).parents[2] / "docs" / "review"


def example(code: str, heading: str) -> str:
    page = (DOCS / f"{code}.md").read_text()
    found = re.search(rf"## {heading}\n\n```python\n(.*?)```", page, re.DOTALL)
    assert found is not None, f"{code} has no example under {heading}"
    return found[1]


def version_for(code: str) -> str:
    return "3.2.2" if code == "DUR601" else "3.3.2"


@pytest.mark.parametrize("code", ALL_RULES)
def test_the_before_example_is_found_by_its_rule(code: str) -> None:
    findings = review_text(example(code, "Before"), "dags/x.py", Selection(), target(version_for(code)))
    assert code in {finding.code for finding in findings}


@pytest.mark.parametrize("code", ALL_RULES)
def test_the_after_example_is_clean_for_its_rule_and_has_nothing_but_notes_for_the_others(code: str) -> None:
    findings = review_text(example(code, "After"), "dags/x.py", Selection(), target(version_for(code)))
    assert code not in {finding.code for finding in findings}
    assert [finding.code for finding in findings if finding.level is not Level.NOTE] == []


@pytest.mark.parametrize("code", ALL_RULES)
def test_every_rule_has_a_page_with_the_same_sections(code: str) -> None:
    page = (DOCS / f"{code}.md").read_text()
    assert page.startswith(f"# {code}: {ALL_RULES[code].name}\n")
    headings = re.findall(r"^## (.*)$", page, re.MULTILINE)
    assert [heading for heading in headings if heading != "Below Airflow 3.3"] == [
        "Why",
        "Before",
        "After",
        "When to ignore it",
    ]


def test_the_index_lists_every_rule_and_no_other() -> None:
    listed = re.findall(r"^\| \[(DUR\d+)\]\((DUR\d+)\.md\)", (DOCS / "index.md").read_text(), re.MULTILINE)
    assert listed == [(code, code) for code in ALL_RULES]


def test_no_page_is_left_over_from_a_rule_that_is_gone() -> None:
    assert {path.stem for path in DOCS.glob("*.md")} == {*ALL_RULES, "index"}
