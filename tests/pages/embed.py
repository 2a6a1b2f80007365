"""What pages quote: files, and pictures that a command has drawn with what they say of themselves.

A file follows ``<!-- example_dags/name.py -->``, as a block of code. Between ``<!-- picture
docs/images/name.svg -->`` and ``<!-- end of picture -->`` stand the picture and the sentence in its title,
so that nobody copies figures by hand; nothing, while there is no such picture. ``of docs/name.md`` in the
comment names the page to read on.
"""

from __future__ import annotations

import os
import re
from html import unescape
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
FILE = re.compile(r"<!-- (\S+\.py) -->\n```python\n.*?^```$", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(
    r"(<!-- picture (\S+\.svg)(?: of (\S+\.md))? -->\n).*?(<!-- end of picture -->)", re.DOTALL
)


def pages() -> list[Path]:
    """README and all of docs/, review pages included."""
    return [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]


def embedded(page: Path) -> str:
    """Return a page's text with what it quotes as that is now."""

    def link(place: str) -> str:
        return os.path.relpath(REPOSITORY / place, page.parent)

    def block(found: re.Match[str]) -> str:
        return f"<!-- {found[1]} -->\n```python\n{(REPOSITORY / found[1]).read_text()}```"

    def picture(found: re.Match[str]) -> str:
        begin, place, more, end = found.groups()
        if not (REPOSITORY / place).exists():
            return begin + end
        (title,) = map(unescape, re.findall("<title>(.*?)</title>", (REPOSITORY / place).read_text()))
        read_on = f" [All of it]({link(more)})." if more else ""
        return f"{begin}![{title}]({link(place)})\n\n{title}.{read_on}\n{end}"

    return PICTURE.sub(picture, FILE.sub(block, page.read_text()))
