"""The lexemes of a grammar as one table: bytes in classes that no lexeme tells apart, states numbered through.

State 0 stands for the end of whatever lexeme: one that cannot go on ends there, so that those of one place are one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.pruning import loops_under

OVER = 0
"""The state in which a lexeme has ended and cannot continue."""
Flags = npt.NDArray[np.bool_]


class LexemeTable:
    """`classes` uint8[256]: the class of each byte, `translation` the same for `bytes.translate`; `next` int32[S, C]:
    state after a class, -1 = refused; `accepts`, `accepting` bool[S]: the lexeme may end in this state; `loops`
    int64[S]: kinds of characters that lead back to it, see `vocabulary.pruning`; `firsts` bool[T, C]: classes that a
    terminal can begin with.
    """

    def __init__(self, lexemes: Sequence[DfaLexeme | None]) -> None:
        """Join the tables of `lexemes`, listed by terminal; None for a terminal that is no lexeme."""
        self.lexemes = lexemes
        self.offsets: list[int] = []
        tables = [np.full((1, 256), -1, np.int32)]
        accepts = [np.ones(1, np.bool_)]
        begins = [0]
        size = 1
        for lexeme in lexemes:
            self.offsets.append(size)
            if lexeme is not None:
                begins.append(size)
                tables.append(lexeme.table)
                accepts.append(lexeme.accepting)
                size += len(lexeme.table)
        whole = np.concatenate(tables)
        refused = whole < 0
        whole += np.repeat(np.array(begins, np.int32), [len(table) for table in tables])[:, None]
        whole[refused] = -1
        self.loops: npt.NDArray[np.int64] = loops_under(whole)
        grows = ~refused.all(axis=1)
        whole = np.append(np.where(grows, np.arange(size), OVER), -1).astype(np.int32)[whole]
        self.classes, columns = _classes(whole)
        self.translation = self.classes.tobytes()
        self.next: I32 = np.ascontiguousarray(whole[:, columns])
        self.accepting: Flags = np.concatenate(accepts)
        self.accepts: list[bool] = self.accepting.tolist()
        self.count = len(columns)
        self.firsts = np.zeros((len(lexemes), self.count), np.bool_)
        for terminal, lexeme in enumerate(lexemes):
            if lexeme is not None:
                self.firsts[terminal] = self.next[self.start(terminal)] >= 0
        self._rows: list[list[int] | None] = [None] * size

    def start(self, terminal: int) -> int:
        lexeme = self.lexemes[terminal]
        assert lexeme is not None
        return self.offsets[terminal] + lexeme.start

    def terminal(self, state: int) -> int:
        """Return the terminal that a state other than `OVER` is part of."""
        return bisect_right(self.offsets, state) - 1

    def row(self, state: int) -> list[int]:
        """Return the next state by class."""
        found = self._rows[state]
        if found is None:
            found = self._rows[state] = self.next[state].tolist()
        return found


def _classes(table: I32) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Return the class of each byte, and a byte of each class: bytes whose columns are the same."""
    size = 4 * len(table)
    columns = np.ascontiguousarray(table.T).tobytes()
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    classes = bytearray()
    for byte in range(256):
        column = columns[byte * size : (byte + 1) * size]
        number = numbers.setdefault(column, len(numbers))
        if number == len(first):
            first.append(byte)
        classes.append(number)
    return np.array(classes), first
