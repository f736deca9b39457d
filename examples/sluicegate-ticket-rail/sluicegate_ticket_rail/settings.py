"""The table `[stages.moderate.tickets]`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class TicketSettings:
    prefixes: tuple[str, ...]
    """Keys of projects."""
    digits: tuple[int, ...] = (3, 7)
    """The fewest and the most of a number."""
    action: Literal["redact", "block"] = "redact"
    replacement: str = "[TICKET]"

    def __post_init__(self) -> None:
        if not self.prefixes or not all(key.isalnum() and key.isascii() for key in self.prefixes):
            raise ValueError('prefixes must be keys of letters and digits, such as ["OPS"]')
        if len(self.digits) != 2 or not 1 <= self.digits[0] <= self.digits[1] <= 30:
            raise ValueError("digits must be the fewest and the most digits of a number, such as [3, 7]")
