"""A Dag file as text: decoding, parsing, and the ``# noqa`` comments in it.

Whatever a file holds, reading it ends in a ``SourceFile`` or in an ``UnreadableError`` that says why not.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOQA = re.compile(
    r"#\s*noqa(?P<codes>\s*:\s*(?P<list>[A-Z]+[0-9]+(?:[\s,]+[A-Z]+[0-9]+)*))?(?P<bare>\s*:)?", re.IGNORECASE
)
# A Dag file of this size is generated data; parsing it would take the time of a whole folder.
MAX_BYTES = 5_000_000


class UnreadableError(Exception):
    """A file that cannot be reviewed, with the place where reading it ended."""

    def __init__(self, reason: str, line: int = 1, column: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = max(line, 1)
        self.column = max(column, 1)


@dataclass
class SourceFile:
    """Text and syntax tree of one file."""

    path: str
    text: str
    tree: ast.Module
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        # Only the line ends that Python itself knows: a form feed or U+2028 inside a string is none.
        self.lines = re.split(r"\r\n|\r|\n", self.text)

    def suppressed(self, code: str, lines: tuple[int, ...]) -> bool:
        """Whether a ``# noqa`` comment on one of these lines covers this rule."""
        return any(self._line_suppresses(code, line) for line in lines)

    def _line_suppresses(self, code: str, line: int) -> bool:
        if not 1 <= line <= len(self.lines):
            return False
        match = NOQA.search(self.lines[line - 1])
        if match is None:
            return False
        if match["list"]:
            return any(code.startswith(item.upper()) for item in re.split(r"[\s,]+", match["list"]))
        # "# noqa:" followed by something that is no code is a comment, not a blanket exemption.
        return not match["bare"]


def read(path: Path, shown_as: str) -> SourceFile:
    """Read and parse a file.

    :raises UnreadableError: for anything that keeps the file from being parsed.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise UnreadableError(
                f"the file has {size:,} bytes, more than the {MAX_BYTES:,} that are reviewed"
            )
        data = path.read_bytes()
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror or error}") from error
    return parse(data, shown_as)


def parse(data: bytes, shown_as: str) -> SourceFile:
    """Parse the bytes of a file, with the encoding it declares.

    :raises UnreadableError: when they are not Python source.
    """
    text = _decode(data)
    try:
        with warnings.catch_warnings():
            # Invalid escapes in other people's strings are not this tool's to print.
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        # An f-string that Python 3.12 takes is an error before it: say which Python read the file.
        reason = f"does not parse with Python {sys.version_info[0]}.{sys.version_info[1]}: {error.msg}"
        raise UnreadableError(reason, error.lineno or 1, error.offset or 1) from error
    except (RecursionError, MemoryError) as error:
        raise UnreadableError("does not parse: the code is nested too deeply") from error
    except ValueError as error:
        raise UnreadableError(f"does not parse: {error}") from error
    return SourceFile(shown_as, text, tree)


def _decode(data: bytes) -> str:
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        text = data.decode(encoding)
    except (SyntaxError, LookupError) as error:
        raise UnreadableError(f"cannot be decoded: {error}") from error
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"cannot be decoded as {error.encoding}: {error.reason}", line) from error
    if "\x00" in text:
        raise UnreadableError(
            "does not parse: it contains null bytes", text.count("\n", 0, text.index("\x00")) + 1
        )
    return text.removeprefix("\ufeff")
