"""Choose the length of a sequence's next draft from how many of its draft tokens were accepted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


class Drafter(Protocol):
    """A source of draft tokens for one sequence."""

    def propose(self, tokens: list[int], ahead: list[int]) -> int | None:
        """Propose the token after `tokens` + `ahead`, or None. `tokens` only grows from call to call."""


@dataclass(slots=True)
class LookupAcceptance:
    """Draft length for a drafter without cost: proportional to the recent acceptance rate; after a run of misses, one
    token every eighth step."""

    rate: float = 0.6
    """Share of accepted draft tokens; recent ones weigh more."""
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
    """Draft length for a drafter whose tokens cost time."""

    accepted: float = 0.7
    """Share of accepted draft tokens, counted only where all tokens before them were accepted."""

    def length(self, longest: int, cost: float) -> int:
        """Return the draft length, 0 if none pays; `cost` of a draft token in decode steps."""
        return draft_length(self.accepted, cost, longest)

    def promise(self, length: int) -> float:
        """Return the expected number of accepted tokens in a draft of `length`."""
        return sum(self.accepted**place for place in range(1, length + 1))

    def record(self, guessed: int, right: int) -> None:
        if guessed:
            tried = min(guessed, right + 1)
            self.accepted += 0.1 * tried * (right / tried - self.accepted) / (1 + 0.1 * (tried - 1))


def draft_length(accepted: float, cost: float, longest: int) -> int:
    """Return the draft length k that maximises tokens per time; 0 = do not draft.

    Each token is accepted with probability `accepted` if all before it were, and costs `cost` decode steps: (1 -
    a^(k+1)) / (1 - a) tokens for 1 + k * cost steps (Leviathan et al., 2023).
    """
    a = min(accepted, 0.99)
    gains = [(1 - a ** (k + 1)) / (1 - a) / (1 + k * cost) for k in range(longest + 1)]
    return max(range(longest + 1), key=gains.__getitem__)
