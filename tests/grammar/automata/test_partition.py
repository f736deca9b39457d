"""Which states accept the same words: the compiled loop beside refinement in rounds, and beside its Python form."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluicegate.grammar.automata.tables import equivalence
from sluicegate.grammar.automata.tables.partition import split_states
from sluicegate.grammar.automata.tables.table import Row, Table, trim
from sluicegate.grammar.budget.meter import WorkMeter


def drawn(seed: int) -> tuple[list[Row], list[bool]]:
    """Draw an automaton whose states all reach acceptance; most are cyclic, some have twins."""
    pick = random.Random(seed)
    size, classes, dense = pick.randint(1, 40), pick.randint(1, 6), pick.choice([0.3, 0.8, 1.0])
    rows = [{c: pick.randrange(size) for c in range(classes) if pick.random() < dense} for _ in range(size)]
    accepting = [pick.random() < 0.3 for _ in range(size)]
    for copy in range(pick.randint(0, size // 3)):
        rows[-1 - copy], accepting[-1 - copy] = dict(rows[copy]), accepting[copy]
    table = trim(Table([0], [0], rows, accepting))
    return table.rows, table.accepting


def numbered(blocks: list[int]) -> list[int]:
    """Return the blocks numbered in the order of their first states."""
    order: dict[int, int] = {}
    return [order.setdefault(block, len(order)) for block in blocks]


def rounds(rows: list[Row], accepting: list[bool]) -> list[int]:
    """Tell states apart by where they lead, again and again until nothing changes; -1 stands for what is refused."""
    classes = sorted({c for row in rows for c in row})
    block = numbered([int(accepts) for accepts in accepting])
    while True:
        names: dict[tuple[int, ...], int] = {}
        after = [
            names.setdefault((block[k], *[block[row[c]] if c in row else -1 for c in classes]), len(names))
            for k, row in enumerate(rows)
        ]
        if len(names) == max(block) + 1:
            return block
        block = after


@pytest.mark.parametrize("seed", range(300))
def test_states_share_a_block_where_no_word_tells_them_apart(seed: int) -> None:
    rows, accepting = drawn(seed)
    found = equivalence._by_splitting(rows, accepting, WorkMeter())
    assert sorted(set(found)) == list(range(max(found) + 1))
    assert numbered(found) == rounds(rows, accepting)


@pytest.mark.parametrize("seed", range(20))
def test_the_python_form_splits_alike(seed: int) -> None:
    rows, accepting = drawn(seed)
    edges = [(state, c, target) for state, row in enumerate(rows) for c, target in row.items()]
    tails, labels, heads = np.array(edges, np.int32).reshape(-1, 3).T.copy()
    compiled, plain = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
    most = int(labels.max(initial=-1)) + 1
    split_states(tails, labels, heads, np.array(accepting), most, compiled)
    assert split_states.python_form is not None
    split_states.python_form(tails, labels, heads, np.array(accepting), most, plain)
    assert compiled.tolist() == plain.tolist()
