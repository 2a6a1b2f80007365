"""Code in README and the general pages runs as it stands, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(page.relative_to(REPOSITORY)) for page in REPOSITORY.glob("docs/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


@pytest.mark.parametrize("page", PAGES)
def test_code_runs(page: str) -> None:
    for number, block in enumerate(BLOCK.findall((REPOSITORY / page).read_text())):
        exec(compile(block, f"{page}, block {number}", "exec"), {"__name__": "page"})


def test_the_smallest_dag_is_among_it() -> None:
    (block,) = BLOCK.findall((REPOSITORY / "README.md").read_text())
    names: dict[str, object] = {}
    exec(block, names)
    assert "BatchOperator" in names


ALL_PAGES = [
    *PAGES[:1],
    *sorted(str(page.relative_to(REPOSITORY)) for page in REPOSITORY.glob("docs/**/*.md")),
]


@pytest.mark.parametrize("page", ALL_PAGES)
def test_links_lead_somewhere(page: str) -> None:
    folder = (REPOSITORY / page).parent
    missing = [link for link in LINK.findall((REPOSITORY / page).read_text()) if not (folder / link).exists()]
    assert missing == []
