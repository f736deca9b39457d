"""Limits of tokens of terminals (`max_tokens`): how many tokens each took so far, and which have ended at their limit.

Counts stand beside a configuration, by lexeme state; of two ways to one state, the one that took less counts. At its
limit a terminal ends as soon as it may, so that a text is never left without an end.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluicegate.grammar.lexemes.token_bound import TokenBoundLexeme
from sluicegate.grammar.parsing.configurations import Configurations, Part
from sluicegate.grammar.parsing.lexer import LexemeTable

_MANY = 1 << 40
TokenCounts = tuple[tuple[int, int], ...]
"""Pairs (lexeme state, tokens)."""


class TokenLimit(NamedTuple):
    """Most tokens of a terminal, and the state in which it has ended and cannot go on."""

    tokens: int
    ended: int


class TokenLimits:
    """The limits of one grammar. `by_state`: of each state of a terminal that has one and may go on there."""

    def __init__(self, lexer: LexemeTable) -> None:
        self._lexer = lexer
        self.by_state: dict[int, TokenLimit] = {}
        for number, lexeme in enumerate(lexer.lexemes):
            if isinstance(lexeme, TokenBoundLexeme):
                begin = lexer.offsets[number]
                limit = TokenLimit(lexeme.most_tokens, begin + lexeme.ended)
                going = (lexer.next[begin : limit.ended] >= 0).any(axis=1)
                self.by_state.update(dict.fromkeys((np.flatnonzero(going) + begin).tolist(), limit))

    def after_byte(
        self, parts: tuple[Part, ...], counts: TokenCounts, byte_class: int, configurations: Configurations
    ) -> TokenCounts:
        """Return the counts behind a byte that is read in `parts`."""
        known, limits, lexer = dict(counts), self.by_state, self._lexer
        found: dict[int, int] = {}
        for state, frame in parts:
            after = lexer.row(state)[byte_class]
            if after in limits:
                found[after] = min(found.get(after, _MANY), known.get(state, 0))
            if lexer.accepts[state]:
                found.update([(each, 0) for each, _ in configurations.starts(frame, byte_class) if each in limits])
        return tuple(sorted(found.items()))

    def after_token(self, parts: tuple[Part, ...], counts: TokenCounts) -> tuple[list[Part], TokenCounts]:
        """Count a token that ends in `parts`; return where the text stands then, and the counts."""
        known, accepts = dict(counts), self._lexer.accepts
        left: list[Part] = []
        found: dict[int, int] = {}
        for state, frame in parts:
            limit = self.by_state.get(state)
            if limit is not None:
                count = min(known.get(state, 0) + 1, limit.tokens)
                if count == limit.tokens and accepts[state]:
                    left.append((limit.ended, frame))
                    continue
                found[state] = count
            left.append((state, frame))
        return left, tuple(sorted(found.items()))
