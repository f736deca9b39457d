"""Text up to the first of several literals, read as one lexeme whose outcome tells which literal it was.

One walk of the vocabulary, and one table, instead of one for each.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from hashlib import blake2b

from sluicegate.grammar.automata.byte_level.bytedfa import ByteDfa
from sluicegate.grammar.lexemes.base import DfaLexeme


class FirstOf(DfaLexeme):
    """A general lexeme that cannot go on where it may end."""

    def __init__(self, dfa: ByteDfa, goals: Sequence[int], place: str = "") -> None:
        """Make the lexeme of `dfa`. `goals[n]`: the state in which literal n has come, which leads nowhere."""
        super().__init__(dfa, general=True, place=place)
        self._outcomes = {state: number for number, state in enumerate(goals)}
        digest = blake2b(self.table.tobytes(), digest_size=16)
        digest.update(repr(list(goals)).encode())
        self.digest = digest.digest()

    def outcome(self, state: int) -> int | None:
        return self._outcomes.get(state)

    def key(self, state: int) -> Hashable:
        return "first of", self.digest, state
