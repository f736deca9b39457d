"""Compiled loops over automata beside the obvious way: pairs of states in a dictionary, and the steps one by one."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from sluicegate.grammar.automata.tables import algebra, table
from sluicegate.grammar.automata.tables.dense import compact, pair_states
from sluicegate.grammar.automata.tables.table import Row, Table
from sluicegate.grammar.budget.meter import Budget, WorkMeter
from sluicegate.plugins.errors import GrammarLimit

OPERATIONS: dict[str, tuple[Callable[..., Table], Callable[[bool, bool], bool], tuple[bool, bool]]] = {
    "union": (algebra.union, lambda a, b: a or b, (False, False)),
    "intersection": (algebra.intersection, lambda a, b: a and b, (True, True)),
    "difference": (algebra.difference, lambda a, b: a and not b, (True, False)),
}


def drawn(seed: int, size: int = 30) -> Table:
    """Draw a table, neither trimmed nor minimal, whose classes take turns, some of them dead or of no use."""
    pick = random.Random(seed)
    states, width, filled = pick.randint(1, size), pick.randint(1, 6), pick.choice([0.3, 0.7, 1.0])
    rows = [{c: pick.randrange(states) for c in range(width) if pick.random() < filled} for _ in range(states)]
    starts = [0, *sorted(pick.sample(range(1, 60), pick.randint(1, 12)))]
    classes = [pick.randrange(-1, width) for _ in starts]
    for c in range(width):  # a class that no interval has cannot be read
        if c not in classes:
            for row in rows:
                row.pop(c, None)
    return Table(starts, classes, rows, [pick.random() < 0.3 for _ in rows], pick.randrange(states))


def in_steps(made: Table) -> Table:
    """Minimise by the steps that are taken where there are too few or too many places for the loop."""
    before = table.MOST_CELLS
    table.MOST_CELLS = 0
    try:
        return table.minimal(made, WorkMeter())
    finally:
        table.MOST_CELLS = before


def in_pairs(left: Table, right: Table, accept: Callable[[bool, bool], bool], needed: tuple[bool, bool]) -> Table:
    """Make the table of pairs of states, -1 for a side that died."""
    starts, classes, symbols = algebra.joint_alphabet(left, right)
    queue, rows = [(left.start, right.start)], list[Row]()
    for a, b in queue:
        row: Row = {}
        for c, (x, y) in enumerate(symbols):
            after = (left.rows[a].get(x, -1) if a >= 0 else -1, right.rows[b].get(y, -1) if b >= 0 else -1)
            if after == (-1, -1) or any(need and state < 0 for need, state in zip(needed, after, strict=True)):
                continue
            if after not in queue:
                queue.append(after)
            row[c] = queue.index(after)
        rows.append(row)
    accepting = [accept(a >= 0 and left.accepting[a], b >= 0 and right.accepting[b]) for a, b in queue]
    return Table(starts, classes, rows, accepting)


def same(found: Table, expected: Table) -> bool:
    return all(getattr(found, name) == getattr(expected, name) for name in ("starts", "classes", "rows", "accepting"))


@pytest.mark.parametrize("seed", range(400))
def test_the_loop_minimises_as_the_steps_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result is canonical, down to the numbers of states and classes, whichever way it was found."""
    monkeypatch.setattr(table, "_FEW_CELLS", 0)
    made = drawn(seed)
    assert same(table.minimal(made, WorkMeter()), in_steps(made))


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("seed", range(60))
def test_pairs_are_those_of_a_dictionary(name: str, seed: int) -> None:
    operation, accept, needed = OPERATIONS[name]
    left, right = table.minimal(drawn(seed), WorkMeter()), table.minimal(drawn(seed + 1000), WorkMeter())
    assert same(operation(left, right, WorkMeter()), in_steps(in_pairs(left, right, accept, needed)))


def cycle(size: int) -> Table:
    """Return the table of the words whose length is a multiple of `size`."""
    return Table([0, 1], [0, -1], [{0: (k + 1) % size} for k in range(size)], [k == 0 for k in range(size)])


def test_room_grows_with_the_pairs() -> None:
    """Cycles of 40 and 41 states make 1,640 pairs, many more than there is room for at first."""
    assert len(algebra.intersection(cycle(40), cycle(41), WorkMeter()).rows) == 40 * 41


@pytest.mark.parametrize("most", [50, 1638])
def test_a_product_past_its_budget_raises(most: int) -> None:
    """The first pair is free, as it always was; the budget may end within the room or past it."""
    with pytest.raises(GrammarLimit, match=f"more than {most} automaton states"):
        algebra.intersection(cycle(40), cycle(41), WorkMeter(Budget(max_states=most)))
    algebra.intersection(cycle(40), cycle(41), WorkMeter(Budget(max_states=1639)))


@pytest.mark.parametrize("seed", range(20))
def test_the_python_forms_do_the_same(seed: int) -> None:
    left, right = table.minimal(drawn(seed), WorkMeter()), table.minimal(drawn(seed + 1000), WorkMeter())
    _, classes, symbols = algebra.joint_alphabet(left, right)
    wide = np.array(symbols, np.int32).reshape(-1, 2)
    found = []
    for follow, minimise in ((pair_states, compact), (pair_states.python_form, compact.python_form)):
        assert follow is not None
        assert minimise is not None
        pairs, moves = np.zeros((2000, 2), np.int32), np.zeros((2000, len(symbols)), np.int32)
        numbers = np.full(4096, -1, np.int32)
        count = follow(
            left.moves(), right.moves(), wide, left.start, right.start, False, False, 2000, numbers, pairs, moves
        )
        accepting, intervals = np.arange(count) % 3 == 0, np.array(classes, np.int32)
        out, accepts, numbered = np.zeros_like(moves[:count]), np.zeros_like(accepting), np.zeros_like(intervals)
        told = minimise(moves[:count], accepting, 0, intervals, out, accepts, numbered)
        found.append((count, pairs.tolist(), moves.tolist(), told, out.tolist(), accepts.tolist(), numbered.tolist()))
    assert found[0] == found[1]
