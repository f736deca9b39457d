"""Build the dense table of JSON string bodies by compiled loops.

How bytes spell the characters of an alphabet does not depend on the automaton, so it is computed once per alphabet: a
*decoder*, whose rows over bytes lead to further rows and finally to a class of characters. For each state of the
automaton the decoder's rows are filled in from the last to the first, with that state's targets for the classes; equal
rows become one state of the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata.byte_level.json_strings import STRING_BUDGET, Way, fragment
from sluicegate.grammar.automata.byte_level.residual import names_of
from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.automata.tables.algebra import all_ranges
from sluicegate.grammar.budget.meter import Budget, WorkMeter, charge, left
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.plugins.compiled.kernels import kernel
from sluicegate.plugins.concurrency.unlocked import cached_property

_OF_STATE, _OF_RANGE = 3.0, 0.25
_QUOTE = 0x22
_NAMED, _NAMED_RANGES = 100, 20_000
"""States, and ranges of characters of all of them together, up to which each gets a name; beyond, naming them would
take longer than it saves."""

I32 = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class StringTable:
    """`table` int32[S + 1, 256]: next state by byte, -1 = refused. State k of `texts` is state k here; then come those
    inside a character; the last one is entered by the closing quote, and nothing follows it."""

    texts: CharDfa
    way: Way
    table: I32

    def name(self, state: int) -> bytes | None:
        """Return 16 bytes that name what `state` still accepts, the same in every table of this way; None: no name."""
        size = self.texts.state_count
        if size > _NAMED or size * len(self.texts.table.starts) > _NAMED_RANGES:
            return None
        if state < size:
            return self._names[state]
        if state not in self._inside:
            row = self.table[state]
            until = _turns(row)
            said = [
                (low, self.name(after)) for low, after in zip(until, row[until].tolist(), strict=True) if after >= 0
            ]
            self._inside[state] = _hash(repr((self.way, "inside", said, until)).encode())
        return self._inside[state]

    @cached_property
    def _inside(self) -> dict[int, bytes]:
        """Return the names of states inside a character; they are few."""
        return {}

    @cached_property
    def digest(self) -> bytes:
        """Return 16 bytes that name the language."""
        return _hash(self.way.encode() + self.texts.digest)

    @cached_property
    def _names(self) -> list[bytes]:
        table = self.texts.table
        charge(_OF_RANGE * len(table.rows) * len(table.starts))
        rows = all_ranges(table, 0x110000)
        return [_hash(self.way.encode() + name) for name in names_of(rows, table.accepting)]


def _turns(row: I32) -> list[int]:
    """Return the bytes at which another target begins."""
    return [0, *(np.flatnonzero(row[1:] != row[:-1]) + 1).tolist()]


def _hash(said: bytes) -> bytes:
    return blake2b(said, digest_size=16).digest()


def string_table(texts: CharDfa, *, escapes: bool = True, budget: Budget = STRING_BUDGET) -> StringTable:
    """Make the table of every spelling of the texts, or with `escapes` False only that of `json.dumps(...,
    ensure_ascii=False)`.

    Raises `GrammarLimit` past `budget`.
    """
    way: Way = "every" if escapes else "one"
    table, meter = texts.table, WorkMeter(budget, "string automaton", charged=_OF_STATE)
    size, classes = texts.state_count, max(table.classes) + 1
    meter.states(size)
    decoder, columns = _decoder(way, tuple(table.starts), tuple(table.classes))
    edges = np.full((size, classes), -1, np.int32)
    tails, labels, heads = table.transitions()
    edges[tails, labels] = heads
    room = int(min(budget.max_states, size * decoder.shape[0], size + left() / _OF_STATE)) + 1
    rows = np.empty((room, decoder.shape[1]), np.int32)
    count = _fill_in(decoder, edges, rows)
    meter.states(count - size)
    return StringTable(texts, way, _dense(rows, count, columns, np.array(table.accepting, np.bool_)))


@remembered(512)
def _decoder(way: Way, starts: tuple[int, ...], classes: tuple[int, ...]) -> tuple[I32, I32]:
    """Return the decoder of one character and the column of each byte.

    int32[D, C]: rows, each after those it leads to, the last one between characters. A number below the count of
    classes is a class, a larger one a row before, -1 = refused. int32[256]: the column of each byte.
    """
    spans = [(low, end - 1, c) for low, end, c in zip(starts, (*starts[1:], 0x110000), classes, strict=True) if c >= 0]
    rows = fragment(way, tuple(spans), max(classes) + 1)
    dense = np.full((len(rows), 256), -1, np.int32)
    for number, row in enumerate(rows):
        for low, high, target in row:
            dense[number, low : high + 1] = target
    numbers: dict[bytes, int] = {}
    columns = np.array([numbers.setdefault(column.tobytes(), len(numbers)) for column in dense.T.copy()], np.int32)
    firsts = np.unique(columns, return_index=True)[1]
    return np.ascontiguousarray(dense[:, firsts]), columns


@kernel("(int32[:, ::1], int32[:, ::1], int32[:, ::1])", python=True)
def _fill_in(decoder, edges, rows):  # type: ignore[no-untyped-def]
    """Write the row of every state to `rows`; returns how many there are, or one more than fit.

    Rows are copied by loops: assignments of slices take numba more than a second to compile.
    """
    states, classes = edges.shape
    depth, width = decoder.shape
    slots = 64
    while slots < 2 * rows.shape[0] and slots < 1 << 12:
        slots *= 2
    table = np.full(slots, -1, np.int32)
    hashes = np.empty(rows.shape[0], np.int64)
    places = np.empty(classes + depth, np.int32)
    row = np.empty(width, np.int32)
    count = states
    for state in range(states):
        for c in range(classes):
            places[c] = edges[state, c]
        for number in range(depth):
            said = np.int64(1469598103934665603)
            alive = False
            for c in range(width):
                ref = decoder[number, c]
                target = places[ref] if ref >= 0 else -1
                row[c] = target
                alive = alive or target >= 0
                said = (said ^ target) * np.int64(1099511628211)
            if number == depth - 1:
                for c in range(width):
                    rows[state, c] = row[c]
                break
            if not alive:
                places[classes + number] = -1
                continue
            said ^= said >> 29
            slot = said & (slots - 1)
            while table[slot] >= 0:
                other = table[slot]
                if hashes[other] == said:
                    equal = True
                    for c in range(width):
                        if rows[other, c] != row[c]:
                            equal = False
                            break
                    if equal:
                        break
                slot = (slot + 1) & (slots - 1)
            if table[slot] < 0:
                if count == rows.shape[0]:
                    return count + 1
                table[slot] = count
                hashes[count] = said
                for c in range(width):
                    rows[count, c] = row[c]
                count += 1
                if 2 * (count - states) > slots:
                    slots *= 2
                    table = np.full(slots, -1, np.int32)
                    for k in range(states, count):
                        again = hashes[k] & (slots - 1)
                        while table[again] >= 0:
                            again = (again + 1) & (slots - 1)
                        table[again] = k
                places[classes + number] = count - 1
            else:
                places[classes + number] = table[slot]
    return count


def _dense_by_numpy(rows: I32, count: int, columns: I32, accepting: npt.NDArray[np.bool_]) -> I32:
    table = np.full((count + 1, 256), -1, np.int32)
    table[:count] = rows[:count, columns]
    table[np.flatnonzero(accepting), _QUOTE] = count
    return table


@kernel("(int32[:, ::1], int64, int32[::1], boolean[::1])", python=_dense_by_numpy)
def _dense(rows, count, columns, accepting):  # type: ignore[no-untyped-def]
    """Return int32[count + 1, 256]: `rows` by byte, and one row that the quote leads to from where a text may end."""
    table = np.empty((count + 1, 256), np.int32)
    for state in range(count):
        for byte in range(256):
            table[state, byte] = rows[state, columns[byte]]
    for state in range(accepting.size):
        if accepting[state]:
            table[state, _QUOTE] = count
    for byte in range(256):
        table[count, byte] = -1
    return table


def warm() -> None:
    """Load or compile the loops of this file."""
    string_table(CharDfa.any_string())


STRING_KERNELS = [_fill_in, _dense]
