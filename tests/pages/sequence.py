"""The sequence picture of docs/how-it-works.md: a worker dies between the answer and storing the id."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from pages.embed import REPOSITORY

PICTURE = REPOSITORY / "docs" / "images" / "sequence.svg"
LANES = {"try 1": 110, "store": 330, "service": 560, "try 2": 780}
TITLES = {
    "try 1": "Worker, try 1",
    "store": "Airflow's task state store",
    "service": "The service",
    "try 2": "Worker, try 2",
}
WIDTH, TOP, STEP = 910, 92, 44
INK, MUTED, OURS, WRONG = "#1f2933", "#9aa5b1", "#0b6e4f", "#b42318"


@dataclass(frozen=True)
class Arrow:
    """One message."""

    sender: str
    receiver: str
    text: str
    colour: str = INK
    lost: bool = False


@dataclass(frozen=True)
class Note:
    """What happens in one lane."""

    lane: str
    text: str
    colour: str = INK


STEPS = (
    Arrow("try 1", "store", "1  record: token 7f3a…", OURS),
    Arrow("try 1", "service", "2  submit, with the token", OURS),
    Note("service", "starts job 42"),
    Arrow("service", "try 1", "job 42", MUTED, lost=True),
    Note("try 1", "killed", WRONG),
    Note("try 2", "Airflow starts the next try"),
    Arrow("store", "try 2", "a record without an id", OURS),
    Arrow("try 2", "service", "a job with token 7f3a…?", OURS),
    Arrow("service", "try 2", "job 42", OURS),
    Arrow("try 2", "store", "3  id: 42", OURS),
    Arrow("try 2", "service", "how is job 42? … and again"),
    Arrow("service", "try 2", "it has succeeded"),
    Note("try 2", "returns the result", OURS),
)


SUMMARY = (
    "A worker dies after the service has started the job and before its id is stored. The next try finds the "
    "record, asks the service for the token, and waits for the same job."
)


def draw() -> str:
    """Return the picture, as SVG."""
    height = TOP + STEP * len(STEPS) + 20
    font = f'font-family="system-ui, sans-serif" font-size="13" fill="{INK}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {font}>',
        f"<title>{escape(SUMMARY)}</title>",
        *(_marker(colour) for colour in (INK, MUTED, OURS)),
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for lane, x in LANES.items():
        end = TOP + STEP * 4 if lane == "try 1" else height - 16
        start = TOP + STEP * 5 if lane == "try 2" else 56
        parts += [
            f'<text x="{x}" y="34" font-weight="600" text-anchor="middle">{escape(TITLES[lane])}</text>',
            f'<line x1="{x}" y1="{start}" x2="{x}" y2="{end}" stroke="{MUTED}" stroke-dasharray="2 4"/>',
        ]
    for number, step in enumerate(STEPS):
        y = TOP + STEP * number
        parts += _arrow(step, y) if isinstance(step, Arrow) else _note(step, y)
    return "\n".join([*parts, "</svg>", ""])


def _marker(colour: str) -> str:
    size = 'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" orient="auto"'
    return f'<marker id="to{colour[1:]}" {size}><path d="M0 0 L10 5 L0 10 z" fill="{colour}"/></marker>'


def _arrow(step: Arrow, y: int) -> list[str]:
    """A line from lane to lane with its text above; a lost one ends half way."""
    start, end = LANES[step.sender], LANES[step.receiver]
    direction = 1 if end > start else -1
    if step.lost:
        end = (start + end) // 2
    line = f'x1="{start}" y1="{y}" x2="{end - 2 * direction}" y2="{y}"'
    head = f'stroke="{step.colour}" stroke-width="1.6" marker-end="url(#to{step.colour[1:]})"'
    halo = f'fill="{step.colour}" stroke="#ffffff" stroke-width="4" paint-order="stroke"'
    drawn = [
        f"<line {line} {head}/>",
        f'<text x="{(start + end) // 2}" y="{y - 7}" text-anchor="middle" {halo}>{escape(step.text)}</text>',
    ]
    if step.lost:
        cross = f"M{end - 22} {y - 7} l14 14 m0 -14 l-14 14"
        drawn.append(f'<path d="{cross}" stroke="{WRONG}" stroke-width="2.4"/>')
    return drawn


def _note(step: Note, y: int) -> list[str]:
    """A box on a lane."""
    x, width = LANES[step.lane], 7 * len(step.text) + 24
    place = f'x="{x - width // 2}" y="{y - 15}" width="{width}" height="26" rx="6"'
    return [
        f'<rect {place} fill="#ffffff" stroke="{step.colour}" stroke-width="1.4"/>',
        f'<text x="{x}" y="{y + 3}" text-anchor="middle" fill="{step.colour}">{escape(step.text)}</text>',
    ]
