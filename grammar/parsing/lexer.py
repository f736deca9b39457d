"""The lexemes of a grammar as one table: bytes in classes that no lexeme tells apart, states numbered through.

State 0 stands for the end of whatever lexeme: one that cannot go on ends there, so that those of one place are one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.pruning import kinds_by_byte, loops_under

_MOST_STATES = 50
OVER = 0
"""The state in which a lexeme has ended for good."""
Flags = npt.NDArray[np.bool_]


class LexemeTable:
    """`classes` uint8[256]: the class of each byte, `translation` the same for `bytes.translate`; `next` int32[S, C]:
    state after a class, -1 = refused; `accepts`, `accepting` bool[S]: the lexeme may end in this state; `loops`
    int64[S]: kinds of characters that lead back to it, see `vocabulary.pruning`; `firsts` bool[T, C]: classes that a
    terminal can begin with.
    """

    def __init__(self, lexemes: Sequence[DfaLexeme | None]) -> None:
        """By terminal; None for one that is no lexeme."""
        self.lexemes = lexemes
        self.offsets: list[int] = []
        rows = [np.full((1, 256), -1, np.int32)]
        accepts = [np.ones(1, np.bool_)]
        loops = [np.zeros(1, np.int64)]
        size = 1
        for lexeme in lexemes:
            self.offsets.append(size)
            if lexeme is not None:
                rows.append(_shifted(lexeme, size))
                accepts.append(lexeme.accepting)
                loops.append(loops_under(lexeme.table))
                size += len(lexeme.table)
        whole = np.concatenate(rows)
        self.classes, columns = _classes(whole)
        self.translation = self.classes.tobytes()
        self.next: I32 = np.ascontiguousarray(whole[:, columns])
        self.accepting: Flags = np.concatenate(accepts)
        self.accepts: list[bool] = self.accepting.tolist()
        self.loops: npt.NDArray[np.int64] = np.concatenate(loops)
        self.count = len(columns)
        self.firsts = np.zeros((len(lexemes), self.count), np.bool_)
        for terminal, lexeme in enumerate(lexemes):
            if lexeme is not None:
                self.firsts[terminal] = self.next[self.start(terminal)] >= 0
        self._rows: list[list[int] | None] = [None] * size
        self.kinds_of_bytes = kinds_by_byte()

    def start(self, terminal: int) -> int:
        lexeme = self.lexemes[terminal]
        assert lexeme is not None
        return self.offsets[terminal] + lexeme.start

    def terminal(self, state: int) -> int:
        """Return the terminal that a state other than `OVER` is part of."""
        return int(np.searchsorted(self.offsets, state, side="right")) - 1

    def row(self, state: int) -> list[int]:
        """Return the next state by class."""
        found = self._rows[state]
        if found is None:
            found = self._rows[state] = self.next[state].tolist()
        return found

    def is_closed(self, terminal: int) -> bool:
        """Whether two texts of `terminal` in a row are surely one as well: whatever it can read at its beginning it can
        read wherever it may end."""
        start = self.start(terminal)
        size = len(self.lexemes[terminal].table)  # type: ignore[union-attr]
        first = self.offsets[terminal]
        ends = (np.flatnonzero(self.accepting[first : first + size]) + first).tolist() if size <= _MOST_STATES else []
        pending = [(start, end) for end in ends if self.next[end].max() >= 0]
        if len(pending) < len(ends) or not pending:  # one that ends for good
            return False
        seen = set(pending)
        while pending:
            tick()
            one, other = pending.pop()
            if self.accepts[one] and not self.accepts[other]:
                return False
            for after, beside in zip(self.row(one), self.row(other), strict=True):
                if after >= 0 and after != beside and (after, beside) not in seen:
                    if beside < 0 or len(seen) > _MOST_STATES:
                        return False
                    seen.add((after, beside))
                    pending.append((after, beside))
        return True

    def kinds(self, classes: Flags) -> int:
        """Return the kinds that have a character whose first byte is of one of `classes`."""
        return int(np.bitwise_or.reduce(self.kinds_of_bytes[classes[self.classes]], initial=0))


def _shifted(lexeme: DfaLexeme, offset: int) -> I32:
    table = lexeme.table
    grows = (table >= 0).any(axis=1)
    targets = np.where(grows, np.arange(len(table)) + offset, OVER).astype(np.int32)
    return np.where(table >= 0, targets[table], -1).astype(np.int32)


def _classes(table: I32) -> tuple[npt.NDArray[np.uint8], list[int]]:
    """Return the class of each byte, and a byte of each class: bytes whose columns are the same."""
    columns = np.ascontiguousarray(table.T)
    numbers: dict[bytes, int] = {}
    classes = np.array([numbers.setdefault(column.tobytes(), len(numbers)) for column in columns], np.int64)
    first = [int(np.flatnonzero(classes == number)[0]) for number in range(len(numbers))]
    return classes.astype(np.uint8), first
