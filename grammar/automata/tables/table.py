"""Tables, the working form of every automaton here: states over a small alphabet of symbol classes.

An alphabet maps symbols (code points or bytes) to classes by sorted interval starts; class -1 is always dead. A row
maps a class to the next state, keys in ascending order, missing = dead. Minimal tables are canonical: classes are as
coarse as the language allows and numbered by first symbol, states are numbered breadth first, so equal languages give
equal tables.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata.tables.dense import compact
from sluicegate.grammar.automata.tables.equivalence import equivalence_classes
from sluicegate.grammar.budget.meter import WorkMeter, charge
from sluicegate.grammar.token_ids import I32

Row = dict[int, int]
_FEW_CELLS, MOST_CELLS = 64, 1 << 22
"""Cells (states times classes) from which compiled loops are worth a call, and up to which they are used, since they
read every cell."""
_ENTRIES_A_CHARGE = 20
"""Transitions that are listed, per unit charged."""
_EDGES = 8
"""Transitions that the compiled loop processes in the time of one in Python."""


@dataclass(slots=True, eq=False)
class Table:
    """An automaton: `rows[state][class] -> state`. Shared once built: only its builder mutates it."""

    starts: list[int]
    classes: list[int]
    rows: list[Row]
    accepting: list[bool]
    start: int = 0
    dense: I32 | None = None
    """See `moves`."""

    @property
    def width(self) -> int:
        """Return how many classes there are, one at least."""
        return max(self.classes, default=-1) + 1 or 1

    def moves(self) -> I32:
        """Return int32[states + 1, classes]: the next state, -1 = dead. The last row, of the dead state, is all -1."""
        if self.dense is None:
            self.dense = np.full((len(self.rows) + 1, self.width), -1, np.int32)
            tails, labels, heads = self.transitions()
            self.dense[tails, labels] = heads
        return self.dense

    def transitions(self) -> tuple[npt.NDArray[np.int64], I32, I32]:
        """Return all transitions as three arrays: states, classes and next states."""
        tails = np.repeat(np.arange(len(self.rows)), [len(row) for row in self.rows])
        charge(tails.size / _ENTRIES_A_CHARGE)
        labels = np.fromiter(chain.from_iterable(self.rows), np.int32, tails.size)
        heads = np.fromiter(chain.from_iterable([row.values() for row in self.rows]), np.int32, tails.size)
        return tails, labels, heads

    def class_of(self, symbol: int) -> int:
        return self.classes[bisect_right(self.starts, symbol) - 1]

    def is_empty(self) -> bool:
        """Return whether a trimmed table accepts nothing."""
        return not any(self.accepting)

    def digest(self) -> bytes:
        """Return a digest of a canonical table, 16 bytes."""
        flat = [len(self.starts), len(self.rows), *self.starts, *self.classes, *self.accepting]
        flat.extend(map(len, self.rows))
        _, labels, heads = self.transitions()
        pairs = np.stack((labels, heads), axis=1).astype("<i4")
        return blake2b(np.array(flat, dtype="<i4").tobytes() + pairs.tobytes(), digest_size=16).digest()


def empty_table() -> Table:
    """Return the canonical table of the empty language."""
    return Table([0], [-1], [{}], [False])


def minimal(table: Table, meter: WorkMeter) -> Table:
    """Return the canonical minimal table of the same language."""
    if _FEW_CELLS <= len(table.rows) * table.width <= MOST_CELLS:
        accepting = np.array(table.accepting, np.bool_)
        return of_moves(table.starts, table.classes, table.moves()[:-1], accepting, table.start, meter)
    table = trim(table)
    if table.is_empty():
        return empty_table()
    return canonical(_quotient(table, equivalence_classes(table.rows, table.accepting, meter)))


def of_moves(
    starts: list[int], classes: list[int], moves: I32, accepting: npt.NDArray[np.bool_], start: int, meter: WorkMeter
) -> Table:
    """Return the canonical minimal table of the automaton `moves`, int32[n, classes] with -1 = dead."""
    intervals = np.array(classes, np.int32)
    found, accepts, numbers = np.empty_like(moves), np.empty_like(accepting), np.empty_like(intervals)
    count, width, edges = compact(moves, accepting, start, intervals, found, accepts, numbers)
    meter.edges(int(edges) // _EDGES)  # a number of numpy where the loop runs as Python
    meter.clock()
    if not count:
        return empty_table()
    found = found[:count, :width]
    tails, labels = np.nonzero(found >= 0)
    ends = np.cumsum(np.bincount(tails, minlength=count)).tolist()
    edge_labels, edge_heads = labels.tolist(), found[tails, labels].tolist()
    rows: list[Row] = []
    begin = 0
    for end in ends:
        rows.append(dict(zip(edge_labels[begin:end], edge_heads[begin:end], strict=True)))
        begin = end
    merged_starts, merged_classes = _merged(starts, numbers.tolist())
    return Table(merged_starts, merged_classes, rows, accepts[:count].tolist())


def _merged(starts: list[int], classes: list[int]) -> tuple[list[int], list[int]]:
    """Join neighbouring intervals of one class."""
    kept_starts: list[int] = []
    kept: list[int] = []
    for start, number in zip(starts, classes, strict=True):
        if not kept or kept[-1] != number:
            kept_starts.append(start)
            kept.append(number)
    return kept_starts, kept


def trim(table: Table) -> Table:
    """Keep the states that can be reached and can reach acceptance."""
    reached = _reach([table.start], lambda state: table.rows[state].values(), len(table.rows))
    before: list[list[int]] = [[] for _ in table.rows]
    for state, row in enumerate(table.rows):
        if reached[state]:
            for target in row.values():
                before[target].append(state)
    ends = [state for state, accepts in enumerate(table.accepting) if accepts and reached[state]]
    live = _reach(ends, before.__getitem__, len(table.rows))
    if all(live):
        return table
    if not live[table.start]:
        return empty_table()
    number = {old: new for new, old in enumerate(state for state in range(len(live)) if live[state])}
    rows = [{c: number[t] for c, t in table.rows[old].items() if t in number} for old in number]
    accepting = [table.accepting[old] for old in number]
    return Table(table.starts, table.classes, rows, accepting, number[table.start])


def _reach(roots: list[int], successors: Callable[[int], object], count: int) -> list[bool]:
    seen = [False] * count
    for root in roots:
        seen[root] = True
    stack = list(roots)
    while stack:
        for target in successors(stack.pop()):  # type: ignore[attr-defined]
            if not seen[target]:
                seen[target] = True
                stack.append(target)
    return seen


def _quotient(table: Table, blocks: list[int]) -> Table:
    count = max(blocks) + 1
    if count == len(blocks):
        return table
    rows: list[Row] = [{}] * count
    accepting = [False] * count
    for state, block in enumerate(blocks):
        if not rows[block]:
            rows[block] = {c: blocks[t] for c, t in table.rows[state].items()}
            accepting[block] = table.accepting[state]
    return Table(table.starts, table.classes, rows, accepting, blocks[table.start])


def canonical(table: Table) -> Table:
    """Make classes coarse and number them by first symbol, states breadth first. `table` is trimmed and minimal."""
    merged = _coarsest(table)
    starts, classes, order = _renumber_intervals(table, merged)
    rows = [{order[merged[c]]: t for c, t in row.items()} for row in table.rows]
    number = {table.start: 0}
    queue = [table.start]
    sorted_rows = []
    for state in queue:
        row = dict(sorted(rows[state].items()))
        sorted_rows.append(row)
        for target in row.values():
            if target not in number:
                number[target] = len(queue)
                queue.append(target)
    renumbered = [{c: number[t] for c, t in row.items()} for row in sorted_rows]
    return Table(starts, classes, renumbered, [table.accepting[state] for state in queue])


def _coarsest(table: Table) -> dict[int, int]:
    """Merge classes that lead to the same state from every state."""
    columns: dict[int, list[int]] = {}
    size = len(table.rows)
    for state, row in enumerate(table.rows):
        base = state * size
        for c, target in row.items():
            if c in columns:
                columns[c].append(base + target)
            else:
                columns[c] = [base + target]
    names: dict[tuple[int, ...], int] = {}
    return {c: names.setdefault(tuple(column), len(names)) for c, column in columns.items()}


def _renumber_intervals(table: Table, merged: dict[int, int]) -> tuple[list[int], list[int], dict[int, int]]:
    starts: list[int] = []
    classes: list[int] = []
    order: dict[int, int] = {}
    for start, c in zip(table.starts, table.classes, strict=True):
        name = merged.get(c, -1)
        number = order.setdefault(name, len(order)) if name >= 0 else -1
        if not classes or classes[-1] != number:
            starts.append(start)
            classes.append(number)
    return starts, classes, order
