"""Lexemes that may take so many tokens."""

from __future__ import annotations

from sluicegate.grammar.automata import ByteDfa
from sluicegate.grammar.lexemes.base import DfaLexeme


class TokenBoundLexeme(DfaLexeme):
    """A lexeme outside JSON that ends as soon as it may when it took `most_tokens`. `ended`: a state that no byte leads
    to, in which it has ended and cannot go on. Who reads it counts."""

    def __init__(self, dfa: ByteDfa, most_tokens: int) -> None:
        super().__init__(ByteDfa([*dfa.segments, ()], [*dfa.accepts_by_state, True]), general=True)
        self.most_tokens = most_tokens
        self.ended = dfa.state_count
