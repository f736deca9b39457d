"""The lexemes of a grammar as one table: bytes in classes that no lexeme tells apart, states numbered through.

State 0, `OVER`, stands for the end of whatever lexeme: one that cannot go on ends there, so that those of one place are
one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata import ByteDfa
from sluicegate.grammar.automata.byte_level.distances import distances_of
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.parsing.lexer_tables import fill_in, in_classes
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.pruning import loops_under

Flags = npt.NDArray[np.bool_]


class LexemeTable:
    """`classes` uint8[256]: the class of each byte, `translation` the same for `bytes.translate`; `next` int32[S, C]:
    state after a class, -1 = refused; `accepts`, `accepting` bool[S]: the lexeme may end in this state; `loops`
    int64[S]: kinds of characters that lead back to it, see `vocabulary.pruning`; `starts`: the first state of each
    terminal, -1 = it is no lexeme; `firsts` bool[T, C]: classes that a terminal can begin with; `distances`: how many
    bytes lead from each state to the nearest one in which its lexeme may end, -1 = none.
    """

    def __init__(self, lexemes: Sequence[DfaLexeme | None]) -> None:
        """Join the tables of `lexemes`, listed by terminal; None for a terminal that is no lexeme."""
        self.lexemes = lexemes
        self.offsets: list[int] = []
        self.starts: list[int] = []
        whole, self.accepting = self._joined(lexemes)
        self.accepts: list[bool] = self.accepting.tolist()
        self.loops: npt.NDArray[np.int64] = loops_under(whole)
        self.classes, self.next = in_classes(whole)
        self.translation = self.classes.tobytes()
        self.count: int = self.next.shape[1]
        self.distances: list[int] = distances_of(self.next, self.accepting).tolist()
        self.firsts: Flags = self.next[self.starts] >= 0
        for terminal, lexeme in enumerate(lexemes):
            if lexeme is None:
                self.firsts[terminal] = False
        self._rows: list[list[int] | None] = [None] * len(whole)

    def _joined(self, lexemes: Sequence[DfaLexeme | None]) -> tuple[I32, Flags]:
        """Return int32[S, 256] and bool[S]: the states of all lexemes behind each other, -1 = refused."""
        accepts: list[bool] = [True]
        edges: list[int] = []
        begins: list[int] = []
        tables: list[tuple[int, I32]] = []
        for lexeme in lexemes:
            begin = len(accepts)
            self.offsets.append(begin)
            self.starts.append(-1 if lexeme is None else begin + lexeme.start)
            if lexeme is None:
                continue
            if lexeme.general and isinstance(lexeme.dfa, ByteDfa):
                accepts += lexeme.dfa.accepts_by_state
                edges += lexeme.dfa.flat_edges
                begins += (len(edges) // 3, begin)
            else:
                accepts += lexeme.accepting.tolist()
                tables.append((begin, lexeme.table))
        whole = np.full((len(accepts), 256), -1, np.int32)
        fill_in(whole, np.array(edges, np.int32).reshape(-1, 3), np.array(begins, np.int32).reshape(-1, 2))
        for begin, table in tables:
            whole[begin : begin + len(table)] = np.where(table < 0, -1, table + begin)
        return whole, np.array(accepts, np.bool_)

    def start(self, terminal: int) -> int:
        return self.starts[terminal]

    def terminal(self, state: int) -> int:
        """Return the terminal that a state other than `OVER` is part of."""
        return bisect_right(self.offsets, state) - 1

    def row(self, state: int) -> list[int]:
        """Return the next state by class."""
        found = self._rows[state]
        if found is None:
            found = self._rows[state] = self.next[state].tolist()
        return found
