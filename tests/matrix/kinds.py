"""The words for a row's columns."""

from __future__ import annotations

from typing import Literal

Side = Literal["ours", "upstream"]
Way = Literal["poke", "reschedule", "defer"]
WAYS: tuple[Way, ...] = ("poke", "reschedule", "defer")
SIDES: tuple[Side, ...] = ("ours", "upstream")
COUNTS = ("duplicates", "lost_results", "orphans", "wrong_cancels")
