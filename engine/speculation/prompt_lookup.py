"""Draft a sequence's next tokens from its earlier text, so that one forward pass can confirm several.

Draft tokens cost only their places in the step. Every token is still drawn from the model's own distribution, with the
random number of its position, and a draft token is accepted only if it equals the drawn one: drafts change no answer.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sluicegate.engine.sequences.drafting import Drafter
from sluicegate.plugins import GrammarTooCostly, Matcher, TokenRejected

LONGEST_GRAM = 3
HORIZON = 4096
"""Most tokens of a prompt that are indexed, counted from its end: indexing a longer one would delay every sequence's
next step."""


@dataclass(slots=True)
class PromptLookup:
    """Proposes the token that followed an earlier occurrence of the last one to three tokens: answers copy from
    prompts.

    The index grows with the sequence: per token one entry for each length.
    """

    _after: dict[tuple[int, ...], int] = field(default_factory=dict)
    """Last tokens -> the position after their latest occurrence that is followed by a token."""
    _indexed: int = 0

    def propose(self, tokens: list[int], ahead: list[int]) -> int | None:
        self._catch_up(tokens)
        tail = (tokens[-LONGEST_GRAM:] + ahead)[-LONGEST_GRAM:]
        for start in range(len(tail)):
            position = self._after.get(tuple(tail[start:]))
            if position is not None:
                return tokens[position]
        return None

    def _catch_up(self, tokens: list[int]) -> None:
        begin = self._indexed or max(1, len(tokens) - HORIZON)
        for position in range(begin, len(tokens)):
            for length in range(1, min(LONGEST_GRAM, position) + 1):
                self._after[tuple(tokens[position - length : position])] = position
        self._indexed = max(self._indexed, len(tokens))


def draft(
    drafter: Drafter, tokens: list[int], matcher: Matcher | None, longest: int, *, jumped: bool = False
) -> list[int]:
    """Return at most `longest` draft tokens that the grammar allows in order; tokens it forces come before lookups.

    `jumped`: the grammar was just asked and forces nothing at the first position. The matcher is left unchanged.
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
