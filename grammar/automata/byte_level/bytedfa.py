"""`ByteDfa`: an immutable, canonical automaton over bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, pairwise

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata.tables import algebra
from sluicegate.grammar.automata.tables.table import Row, Table
from sluicegate.grammar.budget.meter import DEFAULT_BUDGET, Budget, WorkMeter

Segments = tuple[tuple[int, int, int], ...]  # (first byte, last byte, target), sorted, disjoint, merged
_SYMBOLS = 256
_FEW_EDGES = 32


class ByteDfa:
    """A regular language of byte strings; minimal, states numbered breadth first in byte order from 0, the start.

    Every state can reach acceptance, but for the one state of the empty language. Equal languages have equal `digest`.
    """

    def __init__(self, segments: Sequence[Segments], accepting: Sequence[bool]) -> None:
        """Keep both arguments; they must already be canonical (`ByteDfa.of_table`, `canonical_bytes`)."""
        self.segments = segments
        self._accepts = accepting
        self._table: Table | None = None
        self._accepting: npt.NDArray[np.bool_] | None = None
        self._transitions: npt.NDArray[np.int32] | None = None
        self._digest: bytes | None = None
        self._flat_edges: list[int] | None = None

    @classmethod
    def of_table(cls, table: Table) -> ByteDfa:
        """Make the automaton of a canonical table over 0..255."""
        return cls(algebra.all_ranges(table, _SYMBOLS), table.accepting)

    @classmethod
    def of_text(cls, text: bytes) -> ByteDfa:
        """Accept `text` alone."""
        return cls([*[((byte, byte, place + 1),) for place, byte in enumerate(text)], ()], [False] * len(text) + [True])

    def repeated(self) -> ByteDfa:
        """Return the automaton of one or more texts in a row; itself where a text goes on to another one."""
        own = self.segments[0]
        if not own or any(row and accepts for row, accepts in zip(self.segments, self._accepts, strict=True)):
            return self
        rows = [own if accepts else row for row, accepts in zip(self.segments, self._accepts, strict=True)]
        return ByteDfa(rows, self._accepts)

    @property
    def start(self) -> int:
        return 0

    @property
    def state_count(self) -> int:
        return len(self.segments)

    @property
    def accepting(self) -> npt.NDArray[np.bool_]:
        """Return bool [S]: whether each state accepts."""
        if self._accepting is None:
            self._accepting = _frozen(np.array(self._accepts, dtype=np.bool_))
        return self._accepting

    @property
    def transitions(self) -> npt.NDArray[np.int32]:
        """Return int32 [S, 256]: the next state, -1 = dead. The table is built on first use: 1 KiB a state."""
        if self._transitions is None:
            self._transitions = _frozen(self.dense())
        return self._transitions

    def dense(self) -> npt.NDArray[np.int32]:
        """Build `transitions` anew, to be written to."""
        dense = np.full(self.state_count * _SYMBOLS, -1, dtype=np.int32)
        flat = self.flat_edges
        if len(flat) <= 3 * _FEW_EDGES:  # of a keyword or a sign: half of what a grammar of a language has
            for first, length, target in zip(flat[::3], flat[1::3], flat[2::3], strict=True):
                dense[first : first + length] = target
        else:
            firsts, lengths, targets = np.array(flat, dtype=np.int64).reshape(-1, 3).T
            before = np.cumsum(lengths) - lengths
            cells = np.repeat(firsts - before, lengths) + np.arange(int(lengths.sum()))
            dense[cells] = np.repeat(targets, lengths)
        return dense.reshape(self.state_count, _SYMBOLS)

    @property
    def accepts_by_state(self) -> Sequence[bool]:
        return self._accepts

    @property
    def flat_edges(self) -> list[int]:
        """Return first place in a dense table, how many bytes side by side, and target, of all edges in a row."""
        if self._flat_edges is None:
            self._flat_edges = []
            for state, row in enumerate(self.segments):
                for low, high, target in row:
                    self._flat_edges += (state * _SYMBOLS + low, high - low + 1, target)
        return self._flat_edges

    @property
    def digest(self) -> bytes:
        """Return a digest of the language, 16 bytes."""
        if self._digest is None:
            self._digest = self._found_digest()
        return self._digest

    def _found_digest(self) -> bytes:
        flat = [self.state_count, *self._accepts, *map(len, self.segments)]
        flat.extend(chain.from_iterable(chain.from_iterable(self.segments)))
        return blake2b(np.array(flat, dtype="<i4").tobytes(), digest_size=16).digest()

    def accepts(self, data: bytes) -> bool:
        state = 0
        for byte in data:
            state = self.step(state, byte)
            if state < 0:
                return False
        return bool(self._accepts[state])

    def step(self, state: int, byte: int) -> int:
        """Return the next state, -1 if there is none."""
        for low, high, target in self.segments[state] if state >= 0 else ():
            if low <= byte <= high:
                return target
        return -1

    def is_empty(self) -> bool:
        return not any(self._accepts)

    def table(self) -> Table:
        """Return the same automaton as a `Table` over byte classes."""
        return self._as_table() if self._table is None else self._table

    def with_table(self) -> ByteDfa:
        """Keep its table: for one that many others are put together with. Return itself."""
        self._table = self._as_table()
        return self

    def _as_table(self) -> Table:
        cuts = sorted({0, *(cut for _, low, high, _ in self._edges() for cut in (low, high + 1) if cut < _SYMBOLS)})
        number = {cut: c for c, cut in enumerate(cuts)}
        number[_SYMBOLS] = len(cuts)
        rows: list[Row] = []
        for segments in self.segments:
            rows.append({c: t for low, high, t in segments for c in range(number[low], number[high + 1])})
        return Table(cuts, list(range(len(cuts))), rows, list(self._accepts))

    def _edges(self) -> Iterator[tuple[int, int, int, int]]:
        for state, segments in enumerate(self.segments):
            for low, high, target in segments:
                yield state, low, high, target

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByteDfa) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"ByteDfa({self.state_count} states)"


def canonical_bytes(rows: Sequence[Segments], accepting: Sequence[bool]) -> ByteDfa:
    """Put the states of trimmed, minimal rows into canonical order. The rows have merged segments, and start at 0."""
    number = {0: 0}
    queue = [0]
    for state in queue:
        for _, _, target in rows[state]:
            if target not in number:
                number[target] = len(queue)
                queue.append(target)
    renumbered = [tuple([(low, high, number[t]) for low, high, t in rows[state]]) for state in queue]
    return ByteDfa(renumbered, [accepting[state] for state in queue])


def _frozen(array: npt.NDArray) -> npt.NDArray:  # type: ignore[type-arg]
    array.flags.writeable = False
    return array


# Operations


def byte_union(left: ByteDfa, right: ByteDfa, *, budget: Budget = DEFAULT_BUDGET) -> ByteDfa:
    """Accept what either accepts."""
    return ByteDfa.of_table(algebra.union(left.table(), right.table(), WorkMeter(budget, "union")))


def byte_intersection(left: ByteDfa, right: ByteDfa, *, budget: Budget = DEFAULT_BUDGET) -> ByteDfa:
    """Accept what both accept."""
    return ByteDfa.of_table(algebra.intersection(left.table(), right.table(), WorkMeter(budget, "intersection")))


def byte_difference(left: ByteDfa, right: ByteDfa, *, budget: Budget = DEFAULT_BUDGET) -> ByteDfa:
    """Accept what `left` accepts and `right` does not."""
    return ByteDfa.of_table(algebra.difference(left.table(), right.table(), WorkMeter(budget, "difference")))


def merged(segments: Iterable[tuple[int, int, int]]) -> Segments:
    """Sort, and join neighbours that go to the same target."""
    out: list[tuple[int, int, int]] = []
    for low, high, target in sorted(segments):
        if out and out[-1][1] == low - 1 and out[-1][2] == target:
            out[-1] = (out[-1][0], high, target)
        else:
            out.append((low, high, target))
    assert all(a[1] < b[0] for a, b in pairwise(out)), "segments overlap"
    return tuple(out)
