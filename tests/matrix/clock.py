"""Time that passes only where somebody waits: an hour of polling takes none.

The time of day is moved with time-machine, which leaves ``time.monotonic`` alone: that is moved here. Whoever
sleeps in a process under test moves both on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import time_machine

_real_monotonic = time.monotonic
_real_sleep = time.sleep
_real_async_sleep = asyncio.sleep


class Clock:
    """
    The clock of this interpreter, for as long as it runs: never set back, as real ones.

    :param sleeping: is told how long somebody in a process under test is about to sleep, and may raise;
        returns False for anybody else, who sleeps for real
    """

    def __init__(self, sleeping: Callable[[float], bool]) -> None:
        self._sleeping = sleeping
        self._travel = time_machine.travel(datetime.now(tz=timezone.utc), tick=True)
        self._traveller = self._travel.start()
        self._ahead = 0.0
        time.monotonic = lambda: _real_monotonic() + self._ahead
        time.sleep = self._sleep  # type: ignore[assignment]
        asyncio.sleep = self._async_sleep  # type: ignore[assignment]

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._ahead += max(0.0, seconds)
        self._traveller.shift(max(0.0, seconds))

    def _sleep(self, seconds: float) -> None:
        if self._sleeping(seconds):
            self.advance(seconds)
        else:
            _real_sleep(seconds)

    async def _async_sleep(self, delay: float, result: Any = None) -> Any:
        if delay > 0 and self._sleeping(delay):
            self.advance(delay)
            delay = 0
        return await _real_async_sleep(delay, result)
