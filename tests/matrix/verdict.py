"""What one cell has shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from matrix.kinds import COUNTS


@dataclass
class Verdict:
    """What a cell has shown."""

    group: str
    name: str
    duplicates: int = 0
    lost_results: int = 0
    orphans: int = 0
    wrong_cancels: int = 0
    known_limitation: str = ""
    story: str = ""

    @property
    def is_kept(self) -> bool:
        """Whether the promise was kept."""
        return not any(getattr(self, count) for count in COUNTS)

    def to_json(self) -> dict[str, Any]:
        """For the way to the process that counts."""
        return asdict(self)
