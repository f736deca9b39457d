"""Combine canonical tables: union, intersection, difference, concatenation. Only reachable pairs are built."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.automata.tables.dense import pair_states
from sluicegate.grammar.automata.tables.table import Row, Table, minimal, of_moves
from sluicegate.grammar.budget.meter import WorkMeter

_DEAD = -1
_ROOM, _MORE = 64, 4
"""Pairs that there is room for at first, and how many times as many where they are more."""
_Flags = npt.NDArray[np.bool_]
Ranges = tuple[tuple[int, int, int], ...]
"""(first symbol, last symbol, target), sorted, disjoint, merged."""


def ranges_of(table: Table, state: int, limit: int) -> Ranges:
    """Return the `(low, high, target)` of a state, sorted and merged. `limit` is one past the last symbol."""
    return _ranges(table.rows[state], _intervals(table, limit))


def all_ranges(table: Table, limit: int) -> list[Ranges]:
    """Return `ranges_of` of all states."""
    intervals = _intervals(table, limit)
    return [_ranges(row, intervals) for row in table.rows]


def _intervals(table: Table, limit: int) -> list[tuple[int, int, int]]:
    """Return `(low, high, class)` of the intervals of symbols that some state goes on with."""
    ends = [*table.starts[1:], limit]
    return [(low, end - 1, c) for low, end, c in zip(table.starts, ends, table.classes, strict=True) if c >= 0]


def _ranges(row: Row, intervals: list[tuple[int, int, int]]) -> Ranges:
    found: list[tuple[int, int, int]] = []
    last, until = _DEAD, _DEAD
    for low, high, c in intervals:
        target = row.get(c, _DEAD)
        if target == _DEAD:
            continue
        if target == last and low == until:
            found[-1] = (found[-1][0], high, target)
        else:
            found.append((low, high, target))
        last, until = target, high + 1
    return tuple(found)


def joint_alphabet(left: Table, right: Table) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Return the common refinement of both alphabets; each class is a pair of classes, one of either side (-1: dead
    there)."""
    starts = sorted({*left.starts, *right.starts})
    pairs: dict[tuple[int, int], int] = {}
    classes = []
    i = j = -1
    for start in starts:
        if i + 1 < len(left.starts) and left.starts[i + 1] == start:
            i += 1
        if j + 1 < len(right.starts) and right.starts[j + 1] == start:
            j += 1
        pair = (left.classes[i], right.classes[j])
        classes.append(_DEAD if pair == (_DEAD, _DEAD) else pairs.setdefault(pair, len(pairs)))
    return starts, classes, list(pairs)


def union(left: Table, right: Table, meter: WorkMeter) -> Table:
    return _product(left, right, meter, lambda a, b: a | b, need_left=False, need_right=False)


def intersection(left: Table, right: Table, meter: WorkMeter) -> Table:
    return _product(left, right, meter, lambda a, b: a & b, need_left=True, need_right=True)


def difference(left: Table, right: Table, meter: WorkMeter) -> Table:
    """Return the table of the words of `left` that are not in `right`."""
    return _product(left, right, meter, lambda a, b: a & ~b, need_left=True, need_right=False)


def _product(
    left: Table,
    right: Table,
    meter: WorkMeter,
    accept: Callable[[_Flags, _Flags], _Flags],
    *,
    need_left: bool,
    need_right: bool,
) -> Table:
    """Build the table of pairs of states. A dead side is -1; a pair is dead once a needed side is."""
    starts, classes, symbols = joint_alphabet(left, right)
    lefts, rights = left.moves(), right.moves()
    most, room = meter.left + 1, _ROOM + 2 * max(len(left.rows), len(right.rows))
    arguments = np.array(symbols, np.int32).reshape(-1, 2), left.start, right.start, need_left, need_right, most
    while True:
        pairs, moves = np.empty((room, 2), np.int32), np.empty((room, len(symbols)), np.int32)
        numbers = np.full(2 << room.bit_length(), -1, np.int32)
        count = pair_states(lefts, rights, *arguments, numbers, pairs, moves)
        if count > 0:
            break
        room = min(_MORE * room, most + 1)
    meter.edges(len(symbols) * min(count, most))
    meter.states(count - 1)
    pairs = pairs[:count]
    accepting = accept(_with_dead(left)[pairs[:, 0]], _with_dead(right)[pairs[:, 1]])
    return of_moves(starts, classes, moves[:count], accepting, 0, meter)


def _with_dead(table: Table) -> _Flags:
    """Return for each state whether it accepts; the last one, which is -1 as well, is dead."""
    return np.array([*table.accepting, False], np.bool_)


def concat(left: Table, right: Table, meter: WorkMeter) -> Table:
    """Build the table of pairs: a state of `left` (-1 = dead) and the set of active states of `right`."""
    starts, classes, pairs = joint_alphabet(left, right)
    queue = [_begun(left, right, left.start, frozenset())]
    number = {queue[0]: 0}
    rows: list[Row] = []
    for state, begun in queue:
        row: Row = {}
        meter.edges(len(pairs))
        for c, (left_class, right_class) in enumerate(pairs):
            after = left.rows[state].get(left_class, _DEAD) if state >= 0 else _DEAD
            further = frozenset(t for s in begun if (t := right.rows[s].get(right_class, _DEAD)) >= 0)
            target = _begun(left, right, after, further)
            if target == (_DEAD, frozenset()):
                continue
            found = number.setdefault(target, len(queue))
            if found == len(queue):
                meter.states()
                queue.append(target)
            row[c] = found
        rows.append(row)
    accepting = [any(right.accepting[s] for s in begun) for _, begun in queue]
    return minimal(Table(starts, classes, rows, accepting), meter)


def _begun(left: Table, right: Table, state: int, begun: frozenset[int]) -> tuple[int, frozenset[int]]:
    return state, begun | {right.start} if state >= 0 and left.accepting[state] else begun
