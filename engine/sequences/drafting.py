"""Decide how far to guess ahead of a sequence, from how many of its guesses came true."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Drafter(Protocol):
    """One sequence's source of guesses."""

    def propose(self, tokens: list[int], ahead: list[int]) -> int | None:
        """Guess the token after `tokens` + `ahead`; None = no idea. `tokens` only grows from call to call."""


@dataclass(slots=True)
class LookupAcceptance:
    """For guesses that cost nothing: guess as far as it paid lately; after a run of misses, a short try now and
    again."""

    rate: float = 0.6
    """Share of guesses that came true, recent ones weighing more."""
    _idle: int = 0

    def length(self, longest: int) -> int:
        if self.rate >= 0.25:
            return max(1, round(self.rate * longest))
        self._idle = (self._idle + 1) % 8
        return 1 if self._idle == 0 else 0

    def record(self, guessed: int, right: int) -> None:
        if guessed:
            self.rate += 0.3 * (right / guessed - self.rate)


@dataclass(slots=True)
class DraftAcceptance:
    """For a drafter whose guesses cost time."""

    accepted: float = 0.7
    """Share of guesses that came true, of those before which all had."""

    def length(self, longest: int, cost: float) -> int:
        """Return how far to guess; `cost` is that of a guess in steps; 0 = it does not pay."""
        return draft_length(self.accepted, cost, longest)

    def promise(self, length: int) -> float:
        """Return how many of `length` guesses will come true, on average."""
        return sum(self.accepted**place for place in range(1, length + 1))

    def record(self, guessed: int, right: int) -> None:
        if guessed:
            tried = min(guessed, right + 1)
            self.accepted += 0.1 * tried * (right / tried - self.accepted) / (1 + 0.1 * (tried - 1))


def draft_length(accepted: float, cost: float, longest: int) -> int:
    """Return how many guesses pay best, 0 = none, if each comes true with probability `accepted` after those before it
    did, and one costs `cost` steps (Leviathan et al., 2023): (1 - a^(k+1)) / (1 - a) tokens for 1 + k * cost steps."""
    a = min(accepted, 0.99)
    gains = [(1 - a ** (k + 1)) / (1 - a) / (1 + k * cost) for k in range(longest + 1)]
    return max(range(longest + 1), key=gains.__getitem__)
