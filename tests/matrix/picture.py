"""The picture of the matrix: a square for every line, row and side; no plotting library."""

from __future__ import annotations

from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from matrix.kinds import SIDES, WAYS
from matrix.rows import KINDS

if TYPE_CHECKING:
    from matrix.kinds import Side
    from matrix.table import Matrix, Tally

LEFT, TOP, HEAD, CELL, LINE, GAP = 360, 44, 56, 30, 22, 14
KEPT, BROKEN, LIMIT, NONE = "#0b6e4f", "#c2410c", "#d9a514", "#e4e7eb"
NAMES = {"ours": "this package", "upstream": "Apache's operators"}


def title(matrix: Matrix) -> str:
    """Return what the picture shows, in one sentence."""
    ours, theirs = matrix.tally("ours"), matrix.tally("upstream")
    limits = f" ({ours.limits} at a documented limit)" if ours.limits else ""
    return (
        f"Crash matrix: {ours.bad_cells} of {ours.cells} cells break the promise with this package{limits}, "
        f"{theirs.bad_cells} of {theirs.cells} with Apache's operators"
    )


def draw(matrix: Matrix) -> str:
    """Return the picture: green where every cell kept the promise, else orange, with how many did not."""
    groups = matrix.groups()
    services = [name for name in KINDS if any(row[0] == name for row in matrix.verdicts)]
    width = LEFT + len(services) * (len(WAYS) * CELL + GAP) + GAP
    side_height = HEAD + len(groups) * LINE + 2 * GAP
    font = 'font-family="system-ui, sans-serif" font-size="12" fill="#1f2933"'
    height = TOP + len(SIDES) * side_height + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" {font}>',
        f"<title>{escape(title(matrix))}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        '<text x="20" y="30" font-size="16" font-weight="600">What becomes of the job when things die</text>',
    ]
    for number, side in enumerate(SIDES):
        parts += _side(matrix, side, services, groups, TOP + number * side_height)
    return "\n".join([*parts, *_legend(height - 16), "</svg>", ""])


def _side(matrix: Matrix, side: Side, services: list[str], groups: list[str], top: int) -> list[str]:
    parts = [f'<text x="20" y="{top + 20}" font-size="14" font-weight="600">{escape(NAMES[side])}</text>']
    for line, group in enumerate(groups):
        place = f'x="{LEFT - 10}" y="{top + HEAD + line * LINE + 15}" text-anchor="end"'
        parts.append(f"<text {place}>{escape(group)}</text>")
    for column, service in enumerate(services):
        x = LEFT + column * (len(WAYS) * CELL + GAP)
        for number, word in enumerate(KINDS[service].title.split(" ", 1)):
            parts.append(f'<text x="{x}" y="{top + 20 + 13 * number}" font-size="11">{escape(word)}</text>')
        for number, way in enumerate(WAYS):
            left = x + number * CELL
            style = 'font-size="9" text-anchor="middle"'
            parts.append(f'<text x="{left + CELL // 2}" y="{top + HEAD - 6}" {style}>{way[:5]}</text>')
            for line, group in enumerate(groups):
                tally = matrix.tally(side, service, way, group)
                parts += _square(tally, left, top + HEAD + line * LINE)
    return parts


def _square(tally: Tally, x: int, y: int) -> list[str]:
    colour, text = NONE, ""
    if tally.cells:
        colour = BROKEN if tally.bad_cells else LIMIT if tally.limits else KEPT
        text = str(tally.bad_cells or tally.limits or "")
    parts = [f'<rect x="{x + 1}" y="{y + 1}" width="{CELL - 2}" height="{LINE - 2}" rx="3" fill="{colour}"/>']
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
