"""Guessing a sequence's next tokens from what it has already seen, so that one forward pass can confirm several.

A guess costs nothing but its place in the step: every position is still drawn from the model's own distribution, with
the number that belongs to that position, and a guess counts only where it is the token that was drawn. So the answer is
the one that would have come without guessing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from sluicegate.plugins import GrammarTooCostly, Matcher, TokenRejected

LONGEST_GRAM = 3
HORIZON = 4096
"""Tokens of a prompt that are indexed, from its end: indexing a longer one would hold up everybody's next step."""


class Drafter(Protocol):
    """One sequence's source of guesses."""

    def propose(self, tokens: list[int], ahead: list[int]) -> int | None:
        """The token that may follow `tokens` + `ahead`; None = no idea. `tokens` only grows from call to call."""


@dataclass(slots=True)
class PromptLookup:
    """Guess that what followed the last one to three tokens earlier follows them again: answers copy from prompts.

    The index is kept up with the sequence: per token one entry for each length.
    """

    _after: dict[tuple[int, ...], int] = field(default_factory=dict)
    """A gram -> the place after its latest occurrence that has a place after it."""
    _indexed: int = 0

    def propose(self, tokens: list[int], ahead: list[int]) -> int | None:
        self._catch_up(tokens)
        tail = (tokens[-LONGEST_GRAM:] + ahead)[-LONGEST_GRAM:]
        for start in range(len(tail)):
            place = self._after.get(tuple(tail[start:]))
            if place is not None:
                return tokens[place]
        return None

    def _catch_up(self, tokens: list[int]) -> None:
        begin = self._indexed or max(1, len(tokens) - HORIZON)
        for place in range(begin, len(tokens)):
            for length in range(1, min(LONGEST_GRAM, place) + 1):
                self._after[tuple(tokens[place - length : place])] = place
        self._indexed = max(self._indexed, len(tokens))


@dataclass(slots=True)
class Pace:
    """How far to guess: as far as it paid lately. After a run of misses, a short try now and then."""

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
class GroupPace:
    """How far a drafter that costs something should guess, by how often it was right."""

    accepted: float = 0.7
    """Share of guesses that came true, of those before which all had."""

    def length(self, longest: int, cost: float) -> int:
        """`cost` of a guess in steps; 0 = it does not pay."""
        return draft_length(self.accepted, cost, longest)

    def promise(self, length: int) -> float:
        """Guesses of `length` that will come true, on average."""
        return sum(self.accepted**place for place in range(1, length + 1))

    def record(self, guessed: int, right: int) -> None:
        if guessed:
            tried = min(guessed, right + 1)
            self.accepted += 0.1 * tried * (right / tried - self.accepted) / (1 + 0.1 * (tried - 1))


def draft_length(accepted: float, cost: float, longest: int) -> int:
    """How many guesses pay best, 0 = none, if each comes true with probability `accepted` after those before it did,
    and one costs `cost` steps (Leviathan et al., 2023): (1 - a^(k+1)) / (1 - a) tokens for 1 + k * cost steps."""
    a = min(accepted, 0.99)
    gains = [(1 - a ** (k + 1)) / (1 - a) / (1 + k * cost) for k in range(longest + 1)]
    return max(range(longest + 1), key=gains.__getitem__)


def draft(
    drafter: Drafter, tokens: list[int], matcher: Matcher | None, longest: int, *, jumped: bool = False
) -> list[int]:
    """At most `longest` guesses that the grammar allows one after another; what it forces comes before any guess.

    `jumped`: the grammar was just asked and forces nothing at the first place. The matcher is left as it was.
    """
    found: list[int] = []
    try:
        while len(found) < longest and (
            guesses := _next(drafter, tokens, found, matcher, ask=bool(found) or not jumped)
        ):
            for guess in guesses[: longest - len(found)]:
                if not _accepts(matcher, guess):
                    return found
                found.append(guess)
    finally:
        if matcher is not None and found:
            matcher.rollback(len(found))
    return found


def _next(drafter: Drafter, tokens: list[int], ahead: list[int], matcher: Matcher | None, *, ask: bool) -> list[int]:
    if matcher is not None:
        if matcher.is_finished:
            return []
        if ask and (forced := matcher.forced_tokens()):
            return forced
    guess = drafter.propose(tokens, ahead)
    return [] if guess is None else [guess]


def _accepts(matcher: Matcher | None, token: int) -> bool:
    if matcher is None:
        return True
    try:
        matcher.accept(token)
    except (TokenRejected, GrammarTooCostly):
        return False
    return True
