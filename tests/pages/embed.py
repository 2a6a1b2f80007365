"""What pages quote: files, after ``<!-- example_dags/name.py -->``, and what a picture says of itself.

A sentence with figures stands in the title of the picture that a command has drawn, and a page shows that
sentence between ``<!-- title of docs/images/name.svg -->`` and ``<!-- end of title -->``. So nobody copies
figures by hand.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
EMBEDDED = re.compile(r"<!-- (\S+\.py) -->\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)
TITLED = re.compile(r"<!-- title of (\S+\.svg) -->\n.*?<!-- end of title -->", re.DOTALL)


def pages() -> list[Path]:
    """README and all of docs/, review pages included."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def embedded(text: str) -> str:
    """Return a page's text with what it quotes as that is now."""

    def block(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n```python\n{(REPOSITORY / found[1]).read_text()}```"

    def title(found: re.Match[str]) -> str:
        (words,) = re.findall("<title>(.*?)</title>", (REPOSITORY / found[1]).read_text())
        return f"<!-- title of {found[1]} -->\n{unescape(words)}.\n<!-- end of title -->"

    return TITLED.sub(title, EMBEDDED.sub(block, text))
