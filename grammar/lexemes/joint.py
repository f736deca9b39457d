"""Strings out of several languages that have none in common, read as one lexeme whose outcome tells which language it
was: one walk of the vocabulary instead of one for each."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata import Budget, CharDfa, string_table
from sluicegate.grammar.automata.tables.joint import joint
from sluicegate.grammar.automata.tables.table import minimal
from sluicegate.grammar.budget.meter import WorkMeter
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.lexemes.base import DfaLexeme, Lexeme
from sluicegate.grammar.lexemes.scalars import string_automaton
from sluicegate.plugins.errors import GrammarLimit

_BUDGET = Budget(max_states=1_000)
"""Limit of the automaton over characters; each of its states becomes about ten over bytes. Larger ones are read
separately."""


class Joint(Lexeme):
    """States are those of `inner`, which reads all the languages; beyond the last comes one for each outcome."""

    is_string = True
    is_blank = False
    general = False

    def __init__(self, inner: DfaLexeme, ends: Sequence[int], whole: DfaLexeme) -> None:
        """Join languages to one lexeme. `ends[s]`: the outcome of a quote in state `s` of the characters. `whole`: the
        minimal lexeme of the same strings."""
        self.inner = inner
        self.ends = np.array(ends, np.int32)
        self.whole = whole
        self.branches: dict[Any, Any] | None = {}
        self.start = inner.start
        self._same: npt.NDArray[np.int32] | None = None
        self.digest = blake2b(inner.table.tobytes() + self.ends.tobytes(), digest_size=16).digest()

    @property
    def same(self) -> npt.NDArray[np.int32]:
        """Return int32[states of `inner`]: the state of `whole` that takes the same texts."""
        if self._same is None:
            mine, other = self.inner.table, self.whole.table
            found = np.full(mine.shape[0], -1, np.int32)
            found[self.start] = self.whole.start
            fresh = np.array([self.start])
            while fresh.size:
                targets, wholes = mine[fresh].ravel(), other[found[fresh]].ravel()
                new = (targets >= 0) & (found[targets] < 0)
                found[targets[new]] = wholes[new]
                fresh = np.unique(targets[new])
            self._same = found
        return self._same

    def next(self, state: int, byte: int) -> int | None:
        after = self.inner.next(state, byte)
        return after if after is None or after != self.inner.final else after + int(self.ends[state])

    def outcome(self, state: int) -> int | None:
        return state - self.inner.final if state >= self.inner.final else None

    def grows(self, state: int) -> bool:
        return state < self.inner.final

    def run(self, state: int, text: bytes) -> int | None:
        return self.inner.run(state, text)

    def next_bytes(self, state: int) -> set[int]:
        return self.inner.next_bytes(state) if self.grows(state) else set()

    def usual_bytes(self, state: int) -> set[int]:
        return self.next_bytes(state)

    def key(self, state: int) -> Hashable:
        return "joint", self.digest, state


@remembered(200)
def joint_lexeme(languages: tuple[CharDfa, ...]) -> Joint | None:
    """Return the lexeme of `languages`, which have no text in common, by their numbers; None where it is too large."""
    meter = WorkMeter(_BUDGET, "automaton of the names of an object")
    try:
        table, ends = joint([texts.table for texts in languages], meter)
    except GrammarLimit:
        meter.clock()
        return None
    # Both with every escape, as a large automaton alone would not be: the states must be those of the same spellings.
    inner = DfaLexeme(string_table(CharDfa(table)))
    return Joint(inner, ends, string_automaton(CharDfa(minimal(table, WorkMeter()))))
