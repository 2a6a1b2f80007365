"""What a page of Markdown consists of, as tests see it: blocks of code, links, headings, code in text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from pages.embed import REPOSITORY

FENCE = re.compile(r"^( *)```(\S*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Page:
    """One page, by its place in the repository."""

    place: str

    @property
    def path(self) -> Path:
        """Its file."""
        return REPOSITORY / self.place

    @property
    def text(self) -> str:
        """All of it."""
        return self.path.read_text()

    @property
    def prose(self) -> str:
        """The text without blocks of code."""
        return FENCE.sub("", self.text)

    def blocks(self, language: str) -> list[str]:
        """The blocks of code in this language."""
        return [code for _, its, code in FENCE.findall(self.text) if its == language]

    @property
    def languages(self) -> set[str]:
        """The languages of its blocks."""
        return {language for _, language, _ in FENCE.findall(self.text)}

    @property
    def spans(self) -> list[str]:
        """Code in the text."""
        return [" ".join(span.split()) for span in re.findall("`([^`]+)`", self.prose)]

    @property
    def links(self) -> list[str]:
        """Where it leads to, within the repository."""
        return [link for link in LINK.findall(self.prose) if not re.match("[a-z]+:", link)]

    @property
    def anchors(self) -> set[str]:
        """Its headings, as GitHub names them in links."""
        return {
            re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
            for heading in HEADING.findall(FENCE.sub("", self.text))
        }

    def commands(self) -> list[str]:
        """What a reader is told to type: in blocks after ``$``, and in the text."""
        typed = [
            line[2:] for block in self.blocks("console") for line in block.splitlines() if line[:2] == "$ "
        ]
        return [*typed, *self.spans]
