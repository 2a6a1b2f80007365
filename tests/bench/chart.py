"""An SVG chart of the triggerer's measurements, written by hand: no plotting library."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

if TYPE_CHECKING:
    from bench.triggerer import Measured

WIDTH, PANEL_HEIGHT, LEFT, BAR, ROW = 760, 180, 92, 15, 44
COLOURS = {"theirs": "#9aa5b1", "ours": "#0b6e4f"}
NAMES = {"theirs": "Apache's BatchJobTrigger", "ours": "airflow-provider-durable"}


@dataclass(frozen=True)
class Panel:
    """One quantity."""

    title: str
    value: Callable[[Measured], float]
    text: Callable[[float], str]


PANELS = (
    Panel("Requests to AWS Batch", lambda side: side.requests, lambda value: f"{value:,.0f}"),
    Panel("CPU added, seconds", lambda side: side.cpu, lambda value: f"{value:.2f} s"),
    Panel("Memory added, MB", lambda side: side.memory / 1e6, lambda value: f"{value:,.0f} MB"),
    Panel("Longest stall of the event loop", lambda side: side.stall, lambda value: f"{value:.2f} s"),
)


def draw(results: Mapping[int, Mapping[str, Measured]], seconds: float, poll: int) -> str:
    """
    Return the chart.

    :param results: by number of jobs, then by side
    :param seconds: how long each measurement took
    :param poll: seconds between two status requests
    """
    height = 70 + PANEL_HEIGHT * 2
    heading = f"AWS Batch jobs waiting in one triggerer: {seconds:.0f} s, asked for every {poll} s"
    font = 'font-family="system-ui, sans-serif" font-size="12" fill="#1f2933"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" {font}>',
        f"<title>{escape(_summary(results, seconds))}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="20" y="28" font-size="16" font-weight="600">{heading}</text>',
    ]
    for number, side in enumerate(NAMES):
        x = 20 + number * 220
        parts.append(f'<rect x="{x}" y="42" width="12" height="12" fill="{COLOURS[side]}"/>')
        parts.append(f'<text x="{x + 18}" y="52">{escape(NAMES[side])}</text>')
    for number, panel in enumerate(PANELS):
        x, y = (number % 2) * WIDTH // 2, 70 + (number // 2) * PANEL_HEIGHT
        parts.extend(_panel(panel, results, x, y))
    return "\n".join([*parts, "</svg>", ""])


def _summary(results: Mapping[int, Mapping[str, Measured]], seconds: float) -> str:
    """Return the title, which pages quote under the chart."""
    most = max(results)
    theirs, ours = (results[most][side] for side in NAMES)
    return (
        f"Measured by make bench: {most:,} waiting AWS Batch jobs take {theirs.requests:,} requests and "
        f"{theirs.cpu:.1f} CPU-seconds in {seconds:.0f} s with Apache's trigger, {ours.requests:,} and "
        f"{ours.cpu:.2f} with the shared poller"
    )


def _panel(panel: Panel, results: Mapping[int, Mapping[str, Measured]], x: int, y: int) -> list[str]:
    """Bars from zero, one pair for each number of jobs."""
    room = WIDTH // 2 - LEFT - 90
    values = {
        (count, side): panel.value(measured)
        for count, sides in results.items()
        for side, measured in sides.items()
    }
    scale = room / (max(values.values()) or 1.0)
    parts = [f'<text x="{x + 20}" y="{y + 18}" font-weight="600">{escape(panel.title)}</text>']
    for row, count in enumerate(sorted(results)):
        top = y + 32 + row * ROW
        parts.append(
            f'<text x="{x + LEFT - 8}" y="{top + BAR + 5}" text-anchor="end">{count:,} jobs</text>',
        )
        for number, side in enumerate(NAMES):
            value, bar = values[count, side], top + number * (BAR + 2)
            width = max(1.0, value * scale)
            parts.append(
                f'<rect x="{x + LEFT}" y="{bar}" width="{width:.1f}" height="{BAR}" fill="{COLOURS[side]}"/>'
            )
            parts.append(
                f'<text x="{x + LEFT + width + 5:.1f}" y="{bar + 12}">{escape(panel.text(value))}</text>'
            )
    return parts
