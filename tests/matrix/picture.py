"""The picture of the matrix: a square for every line, row and side; no plotting library."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from matrix.kinds import SIDES, WAYS
from matrix.rows import KINDS, ROWS

if TYPE_CHECKING:
    from matrix.kinds import Side
    from matrix.rows import Key
    from matrix.table import Matrix, Tally

LEFT, TOP, CELL, LINE, GAP = 360, 128, 30, 22, 14
KEPT, BROKEN, LIMIT, NONE = "#0b6e4f", "#c2410c", "#d9a514", "#e4e7eb"
NAMES = {"ours": "this package", "upstream": "Apache's operators"}


def draw(matrix: Matrix) -> str:
    """Return the picture: green where every cell kept the promise, else orange, with how many did not."""
    groups = matrix.groups()
    services = [name for name in KINDS if any(row[0] == name for row in matrix.verdicts)]
    side_width = len(services) * (len(WAYS) * CELL + GAP)
    width, height = LEFT + len(SIDES) * (side_width + GAP), TOP + len(groups) * LINE + 60
    ours, theirs = matrix.tally("ours"), matrix.tally("upstream")
    title = (
        f"Crash matrix: {ours.bad_cells} of {ours.cells} cells break the promise with this package, "
        f"{theirs.bad_cells} of {theirs.cells} with Apache's operators"
    )
    font = 'font-family="system-ui, sans-serif" font-size="12" fill="#1f2933"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {font}>',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="20" y="30" font-size="16" font-weight="600">What becomes of the job when things die</text>',
    ]
    for line, group in enumerate(groups):
        parts.append(
            f'<text x="{LEFT - 10}" y="{TOP + line * LINE + 15}" text-anchor="end">{escape(group)}</text>'
        )
    for number, side in enumerate(SIDES):
        left = LEFT + number * (side_width + GAP)
        parts.append(f'<text x="{left}" y="58" font-weight="600">{escape(NAMES[side])}</text>')
        for column, service in enumerate(services):
            parts += _service(matrix, service, side, left + column * (len(WAYS) * CELL + GAP), groups)
    return "\n".join([*parts, *_legend(TOP + len(groups) * LINE + 36), "</svg>", ""])


def _service(matrix: Matrix, service: str, side: Side, x: int, groups: list[str]) -> list[str]:
    words = KINDS[service].title.split(" ", 1)
    parts = [
        f'<text x="{x}" y="{80 + 13 * n}" font-size="11">{escape(word)}</text>'
        for n, word in enumerate(words)
    ]
    for column, way in enumerate(WAYS):
        left = x + column * CELL
        middle = left + CELL // 2
        parts.append(f'<text x="{middle}" y="{TOP - 8}" font-size="9" text-anchor="middle">{way[:5]}</text>')
        row: Key = (service, way, side)
        for line, group in enumerate(groups):
            tally = matrix.tally(side, service, way, group)
            parts += _square(
                tally, left, TOP + line * LINE, f"{service}, {way}, {side}: {group}", row in ROWS
            )
    return parts


def _square(tally: Tally, x: int, y: int, what: str, exists: bool) -> list[str]:
    if not tally.cells:
        tip = what if exists else f"{what}: no such way of waiting"
        colour, text = NONE, ""
    else:
        colour = BROKEN if tally.bad_cells else LIMIT if tally.limits else KEPT
        text = str(tally.bad_cells or tally.limits or "")
        tip = f"{what}: {str(tally).replace('**', '')}"
    parts = [
        (
            f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{LINE - 2}" rx="3" fill="{colour}">'
            f"<title>{escape(tip)}</title></rect>"
        )
    ]
    if text:
        style = 'text-anchor="middle" font-size="10" fill="#ffffff"'
        parts.append(f'<text x="{x + CELL // 2}" y="{y + 15}" {style}>{text}</text>')
    return parts


def _legend(y: int) -> list[str]:
    words = {
        KEPT: "kept in every cell",
        BROKEN: "broken, in so many cells",
        LIMIT: "a documented limit",
        NONE: "no such call or way",
    }
    parts = []
    for number, (colour, text) in enumerate(words.items()):
        x = 20 + number * 190
        parts.append(f'<rect x="{x}" y="{y - 11}" width="14" height="14" rx="3" fill="{colour}"/>')
        parts.append(f'<text x="{x + 20}" y="{y}">{text}</text>')
    return parts
