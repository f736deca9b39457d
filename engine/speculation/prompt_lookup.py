"""Guess a sequence's next tokens from what it has already seen, so that one forward pass can confirm several.

A guess costs nothing but its place in the step: every position is still drawn from the model's own distribution, with
the random number of that position, and a guess counts only where it is the token that was drawn. So guessing changes no
answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluicegate.engine.sequences.drafting import Drafter
from sluicegate.plugins import GrammarTooCostly, Matcher, TokenRejected

LONGEST_GRAM = 3
HORIZON = 4096
"""Tokens of a prompt that are indexed, from its end: indexing a longer one would hold up everybody's next step."""


@dataclass(slots=True)
class PromptLookup:
    """Guesses that what followed the last one to three tokens earlier follows them again: answers copy from prompts.

    The index grows with the sequence: per token one entry for each length.
    """

    _after: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Last tokens -> the place after their latest occurrence that has a place after it."""
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


def draft(
    drafter: Drafter, tokens: list[int], matcher: Matcher | None, longest: int, *, jumped: bool = False
) -> list[int]:
    """Return at most `longest` guesses that the grammar allows one after another; what it forces comes before any
    guess.

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
