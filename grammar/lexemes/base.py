"""Lexemes: the regular pieces that a text is made of. A lexeme steps over bytes and says when it may end.

A lexeme that may end and may also go on (`12` of `123`) leaves the choice to what follows; one that cannot go on (a
string after its closing quote) ends at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata import ByteDfa, StringTable, residual_digests
from sluicegate.grammar.automata.byte_level.distances import distances_of
from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.token_ids import I32

QUOTE: Final = 0x22
BACKSLASH: Final = 0x5C
_NAMED = 100
"""Automata with more states share classifications by their whole language only: computing a digest of each residual
language would take longer than it saves."""
_OF_ROW: Final = 2_100
"""Bytes of a row of a table as a list."""
State = Any
"""Small hashable values; each kind of lexeme has its own."""


class Lexeme:
    """What the readings of a grammar ask of a lexeme. A class, and not a protocol, as compiled code calls its methods
    directly."""

    start: State
    is_string: bool
    """Whether it ends with the closing quote of a JSON string."""
    general: bool
    """Whether it is not part of JSON: any byte may then follow it. Its only outcome is 0."""
    is_blank: bool
    """Whether it is whitespace; nothing that begins with a blank follows it."""
    branches: dict[Any, Any] | None
    """Subtrees classified so far, see `classification`; None where classifying again is cheaper than looking up."""
    place: str = ""
    """What an error calls the part of the grammar that this lexeme reads; "" where what follows says it."""

    openings: dict[object, Any] | None = None
    """What it reads of tries of punctuation, by their `identity`, see `classification.openings`. Kept here: what a
    vocabulary kept would outlive the lexeme, whose table may take megabytes."""

    @property
    def learned_bytes(self) -> int:
        """Return about how many bytes it has taken since it was made."""
        return 0

    @abstractmethod
    def next(self, state: State, byte: int) -> State | None: ...

    @abstractmethod
    def outcome(self, state: State) -> int | None:
        """Return which of several words ended, 0 where there is one; None where the lexeme may not end in this
        state."""

    @abstractmethod
    def grows(self, state: State) -> bool:
        """Return whether some byte is possible in this state."""

    @abstractmethod
    def run(self, state: State, text: bytes) -> State | None:
        """Step over all of `text`. None where a byte is refused, or where the lexeme ends for good before the last byte
        or with it; for a general one also where it may end before a byte, which makes two readings."""

    @abstractmethod
    def next_bytes(self, state: State) -> set[int]:
        """Return the bytes that may come next."""

    @abstractmethod
    def usual_bytes(self, state: State) -> set[int]:
        """Return `next_bytes` without escapes of characters that have a plain spelling; may be empty inside an
        escape."""

    @abstractmethod
    def key(self, state: State) -> Hashable | None:
        """Name of the residual language, the same in every schema; None where sharing would not pay."""


class DfaLexeme(Lexeme):
    """A lexeme given by an explicit automaton over bytes; states are its row numbers.

    With `quoted`, and for a `StringTable`, the automaton describes a JSON string's body and the lexeme takes the
    closing quote as well.
    """

    def __init__(
        self,
        dfa: ByteDfa | StringTable,
        *,
        quoted: bool = False,
        general: bool = False,
        is_blank: bool = False,
        place: str = "",
    ) -> None:
        self.general = general
        self.place = place
        self.is_blank = is_blank
        self._learned_bytes = 0
        # what a grammar of many terminals does not ask of each is made when it is asked for
        self._table: I32 | None = None
        self._accepting: npt.NDArray[np.bool_] | None = None
        self._accepts: list[bool] | None = None
        self._grows: list[bool] | None = None
        self._steady: npt.NDArray[np.int64] | None = None
        self._distances: list[int] | None = None
        self.branches: dict[Any, Any] | None = {}
        self.dfa = dfa
        if isinstance(dfa, StringTable):
            quoted, self._table = True, dfa.table
        elif quoted:
            self._table = _closed(dfa)
        elif not general:
            self._table = dfa.dense()  # its own: read-only arrays would make compiled loops compile again
        self.quoted = self.is_string = quoted
        size = len(self.table) if quoted or isinstance(dfa, StringTable) else dfa.state_count
        self.final = size - 1 if quoted else -1 if general else _last_state(dfa)
        """The state in which the lexeme has ended; -1 where it can continue from every state in which it may end."""
        if quoted:
            self._accepting = np.zeros(size, np.bool_)
            self._accepting[-1] = True
            self._grows = [True] * (size - 1) + [False]
        self.start = 0
        self._rows: list[list[int] | None] = [None] * size
        self._keys: dict[int, Hashable] = {}
        self._names: list[bytes] | None = None
        self.taken: dict[int, dict[int, bool]] = {}
        """By slice of the vocabulary and state, see `slices.taken`."""

    @property
    def table(self) -> I32:
        """Return int32[S, 256]: the next state by byte, -1 = refused."""
        if self._table is None:
            assert isinstance(self.dfa, ByteDfa)
            charge(self.dfa.state_count)
            self._table = self.dfa.dense()
            self._learned_bytes += self._table.nbytes
        return self._table

    @property
    def learned_bytes(self) -> int:
        """Return about how many bytes it has taken since it was made: a kilobyte for each state as soon as its table is
        asked for, and two for each state that was stepped from."""
        return self._learned_bytes

    @property
    def accepting(self) -> npt.NDArray[np.bool_]:
        """Return bool[S]: whether the lexeme may end in a state."""
        if self._accepting is None:
            assert isinstance(self.dfa, ByteDfa)
            self._accepting = np.array(self.dfa.accepting)
        return self._accepting

    @property
    def steady(self) -> npt.NDArray[np.int64]:
        """Return what walks found out about the states, see `pruning`; the walks write to it."""
        if self._steady is None:
            self._steady = np.zeros(len(self.table), np.int64)
        return self._steady

    @property
    def distances(self) -> list[int]:
        """Return for each state how many bytes lead to the nearest one in which the lexeme may end."""
        if self._distances is None:
            charge(len(self.table) / 2)
            self._distances = distances_of(self.table, self.accepting).tolist()
        return self._distances

    def _find_accepts(self) -> list[bool]:
        found: list[bool] = self.accepting.tolist()
        self._accepts = found
        return found

    def _find_grows(self) -> list[bool]:
        assert isinstance(self.dfa, ByteDfa)
        self._grows = [bool(row) for row in self.dfa.segments]
        return self._grows

    def row(self, state: int) -> list[int]:
        """Return the next state by byte, -1 = refused."""
        found = self._rows[state]
        if found is None:
            found = self._rows[state] = self.table[state].tolist()
            self._learned_bytes += _OF_ROW
        return found

    def next(self, state: int, byte: int) -> int | None:
        row = self._rows[state] or self.row(state)
        after = row[byte]
        return None if after < 0 else after

    def outcome(self, state: int) -> int | None:
        return 0 if (self._accepts or self._find_accepts())[state] else None

    def grows(self, state: int) -> bool:
        return (self._grows or self._find_grows())[state]

    def run(self, state: int, text: bytes) -> int | None:
        accepts = self._accepts or self._find_accepts()
        general, rows = self.general, self._rows
        for byte in text:
            if general and accepts[state]:
                return None
            row = rows[state] or self.row(state)
            state = row[byte]
            if state < 0:
                return None
        return state if (self._grows or self._find_grows())[state] else None

    def next_bytes(self, state: int) -> set[int]:
        return {byte for byte, after in enumerate(self.row(state)) if after >= 0}

    def usual_bytes(self, state: int) -> set[int]:
        return self.next_bytes(state)

    def key(self, state: int) -> Hashable:
        known = self._keys.get(state)
        if known is None:
            known = self._keys[state] = self._key(state)
        return known

    def _key(self, state: int) -> Hashable:
        if state == self.final:
            return b"closed"
        if isinstance(self.dfa, StringTable):
            name = self.dfa.name(state)
            return (True, self.dfa.digest, state) if name is None else (True, name)
        if self.dfa.state_count > _NAMED:
            return (self.quoted, self.dfa.digest, state)
        if self._names is None:
            self._names = residual_digests(self.dfa)
        return (self.quoted, self._names[state])


def _last_state(dfa: ByteDfa | StringTable) -> int:
    """Return the state of the texts with which `dfa` is over, of which a minimal automaton has one at most; or -1."""
    assert isinstance(dfa, ByteDfa)
    return next((state for state, row in enumerate(dfa.segments) if not row and dfa.accepting[state]), -1)


def _closed(dfa: ByteDfa) -> I32:
    """Return int32[states + 1, 256]: the transitions of `dfa`, and a last state that the quote leads to where it
    accepts."""
    size = dfa.state_count
    table = np.full((size + 1, 256), -1, np.int32)
    table[:size] = dfa.transitions
    table[np.flatnonzero(dfa.accepting), QUOTE] = size
    return table
