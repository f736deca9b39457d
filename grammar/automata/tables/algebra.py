"""Boolean and rational operations on canonical tables. Products explore only the pairs that can be reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from sluicegate.grammar.automata.tables.table import Row, Table, minimal
from sluicegate.grammar.budget.meter import Meter

_DEAD = -1


def ranges_of(table: Table, state: int, limit: int) -> Iterator[tuple[int, int, int]]:
    """`(low, high, target)` of a state, sorted and merged. `limit` is one past the last symbol."""
    row = table.rows[state]
    pending: tuple[int, int, int] | None = None
    ends = [*table.starts[1:], limit]
    for low, end, c in zip(table.starts, ends, table.classes, strict=True):
        target = row.get(c, _DEAD)
        if pending is not None and pending[1] == low - 1 and pending[2] == target:
            pending = (pending[0], end - 1, target)
            continue
        if pending is not None:
            yield pending
        pending = (low, end - 1, target) if target != _DEAD else None
    if pending is not None:
        yield pending


def joint_alphabet(left: Table, right: Table) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Intervals that neither side splits; each class is a pair of classes, one of either side (-1: dead there)."""
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


def union(left: Table, right: Table, meter: Meter) -> Table:
    return _product(left, right, meter, lambda a, b: a or b, need_left=False, need_right=False)


def intersection(left: Table, right: Table, meter: Meter) -> Table:
    return _product(left, right, meter, lambda a, b: a and b, need_left=True, need_right=True)


def difference(left: Table, right: Table, meter: Meter) -> Table:
    """Words of `left` that are not in `right`."""
    return _product(left, right, meter, lambda a, b: a and not b, need_left=True, need_right=False)


def _product(
    left: Table, right: Table, meter: Meter, accept: Callable[[bool, bool], bool], *, need_left: bool, need_right: bool
) -> Table:
    """Pairs of states; a side that has died is -1, and a pair goes on only while every needed side lives."""
    starts, classes, pairs = joint_alphabet(left, right)
    left_rows: list[Row] = [*left.rows, {}]
    right_rows: list[Row] = [*right.rows, {}]
    queue = [(left.start, right.start)]
    number = {queue[0]: 0}
    rows: list[Row] = []
    for a, b in queue:
        row: Row = {}
        left_row, right_row = left_rows[a], right_rows[b]
        for c, (left_class, right_class) in enumerate(pairs):
            target = (left_row.get(left_class, _DEAD), right_row.get(right_class, _DEAD))
            if (need_left and target[0] < 0) or (need_right and target[1] < 0) or target == (_DEAD, _DEAD):
                continue
            found = number.setdefault(target, len(queue))
            if found == len(queue):
                meter.states()
                queue.append(target)
            row[c] = found
        rows.append(row)
    accepts = [bool(accept(a >= 0 and left.accepting[a], b >= 0 and right.accepting[b])) for a, b in queue]
    return minimal(Table(starts, classes, rows, accepts), meter)


def concat(left: Table, right: Table, meter: Meter) -> Table:
    """A state of `left` (-1 once it died) with the set of states of `right` begun so far."""
    starts, classes, pairs = joint_alphabet(left, right)

    def seed(state: int, begun: frozenset[int]) -> tuple[int, frozenset[int]]:
        return state, begun | {right.start} if state >= 0 and left.accepting[state] else begun

    def step(place: tuple[int, frozenset[int]], pair: tuple[int, int]) -> tuple[int, frozenset[int]]:
        state = left.rows[place[0]].get(pair[0], _DEAD) if place[0] >= 0 else _DEAD
        return seed(state, _advance(right, place[1], pair[1]))

    places, rows = _explore(seed(left.start, frozenset()), pairs, step, meter)
    accepting = [any(right.accepting[s] for s in begun) for _, begun in places]
    return minimal(Table(starts, classes, rows, accepting), meter)


def star(table: Table, meter: Meter) -> Table:
    """Sets of states; reaching acceptance begins anew. The first place is marked apart: it accepts the empty word."""
    pairs = [(c, c) for c in range(max(table.classes) + 1)]

    def step(place: tuple[int, frozenset[int]], pair: tuple[int, int]) -> tuple[int, frozenset[int]]:
        states = _advance(table, place[1], pair[1])
        ended = any(table.accepting[s] for s in states)
        return (0 if states else _DEAD), states | {table.start} if ended else states

    places, rows = _explore((1, frozenset([table.start])), pairs, step, meter)
    accepting = [first == 1 or any(table.accepting[s] for s in states) for first, states in places]
    return minimal(Table(table.starts, table.classes, rows, accepting), meter)


def repeat(table: Table, low: int, high: int | None, meter: Meter) -> Table:
    """`low` copies, then a star or optional copies, by doubling: 1,000 copies take about 20 concatenations."""
    whole = power(table, low, meter)
    if high is None:
        return concat(whole, star(table, meter), meter)
    if high < low:
        raise ValueError(f"repeat({low}, {high}): the upper bound is below the lower one")
    return concat(whole, power(union(table, _empty_word(), meter), high - low, meter), meter)


def power(table: Table, count: int, meter: Meter) -> Table:
    """`table`, `count` times."""
    out, base = _empty_word(), table
    while count:
        meter.renew()
        if count & 1:
            out = concat(out, base, meter)
        count >>= 1
        if count:
            base = concat(base, base, meter)
    return out


def _empty_word() -> Table:
    return Table([0], [-1], [{}], [True])


def _advance(table: Table, states: frozenset[int], c: int) -> frozenset[int]:
    return frozenset(target for s in states if (target := table.rows[s].get(c, _DEAD)) >= 0)


_Place = tuple[int, frozenset[int]]


def _explore(
    first: _Place, pairs: list[tuple[int, int]], step: Callable[[_Place, tuple[int, int]], _Place], meter: Meter
) -> tuple[list[_Place], list[Row]]:
    queue = [first]
    number = {first: 0}
    rows: list[Row] = []
    for place in queue:
        row: Row = {}
        for c, pair in enumerate(pairs):
            target = step(place, pair)
            if target[0] < 0 and not target[1]:
                continue
            found = number.setdefault(target, len(queue))
            if found == len(queue):
                meter.states()
                queue.append(target)
            row[c] = found
        rows.append(row)
    return queue, rows
