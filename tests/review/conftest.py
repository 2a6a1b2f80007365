"""What the tests of the Dag review share: a piece of code in, findings out."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from airflow_provider_durable.review.engine import Selection, review_text
from airflow_provider_durable.review.findings import Finding
from airflow_provider_durable.review.versions import target

Review = Callable[..., list[Finding]]


@pytest.fixture
def review() -> Review:
    """Review a piece of code as one Dag file; ``only`` keeps the findings of some rules."""

    def run(
        code: str, *, only: str = "DUR", version: str = "3.3.2", path: str = "dags/example.py"
    ) -> list[Finding]:
        return review_text(dedent(code), path, Selection(select=(only,)), target(version))

    return run


@pytest.fixture
def codes(review: Review) -> Callable[..., list[str]]:
    """The codes found in a piece of code, in order."""

    def run(code: str, **settings: str) -> list[str]:
        return [finding.code for finding in review(code, **settings)]

    return run
