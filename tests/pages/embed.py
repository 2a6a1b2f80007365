"""Files that pages show: a comment ``<!-- example_dags/name.py -->``, then the file, as a block of code."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
EMBEDDED = re.compile(r"<!-- (\S+\.py) -->\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)


def pages() -> list[Path]:
    """README and all of docs/, review pages included."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def embedded(text: str) -> str:
    """Return a page's text with its embedded files as they are now."""

    def block(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n```python\n{(REPOSITORY / found[1]).read_text()}```"

    return EMBEDDED.sub(block, text)
