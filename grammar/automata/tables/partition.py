"""Compiled loops that refine a partition of an automaton's states until the states of a block accept the same words.

Transitions are partitioned together with the states (Valmari and Lehtinen, "Efficient minimization of DFAs with partial
transition functions", 2008), which takes O(m log n) for m transitions and ignores missing ones.
"""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel

_ITEM, _PLACE, _BLOCK, _FIRST, _PAST, _MARKED, _TOUCHED = range(7)
"""Rows of a partition, an int32[7, size + 1]: the items in order of their blocks; by item: its place there, its block;
by block: its first place, the one behind its last, and how many of its items are marked, which stand in front. The last
row lists the blocks with marked items."""


@kernel(python=True)
def _mark(part, item, touched):  # type: ignore[no-untyped-def]
    """Mark an item that is not marked yet; returns how many blocks have some, `touched` before."""
    block = part[_BLOCK, item]
    at = part[_PLACE, item]
    to = part[_FIRST, block] + part[_MARKED, block]
    other = part[_ITEM, to]
    part[_ITEM, at] = other
    part[_PLACE, other] = at
    part[_ITEM, to] = item
    part[_PLACE, item] = to
    if part[_MARKED, block] == 0:
        part[_TOUCHED, touched] = block
        touched += 1
    part[_MARKED, block] += 1
    return touched


@kernel(python=True)
def _split(part, touched, count):  # type: ignore[no-untyped-def]
    """Split the marked items of each touched block from the others, of `count` blocks; returns how many there are
    then. The larger half keeps the number."""
    for k in range(touched - 1, -1, -1):
        block = part[_TOUCHED, k]
        border = part[_FIRST, block] + part[_MARKED, block]
        if border == part[_PAST, block]:
            part[_MARKED, block] = 0
            continue
        if part[_MARKED, block] <= part[_PAST, block] - border:
            part[_FIRST, count] = part[_FIRST, block]
            part[_PAST, count] = border
            part[_FIRST, block] = border
        else:
            part[_FIRST, count] = border
            part[_PAST, count] = part[_PAST, block]
            part[_PAST, block] = border
        for at in range(part[_FIRST, count], part[_PAST, count]):
            part[_BLOCK, part[_ITEM, at]] = count
        part[_MARKED, block] = 0
        part[_MARKED, count] = 0
        count += 1
    return count


@kernel("(int32[::1], int32[::1], int32[::1], boolean[::1], int64, int32[::1])", python=True)
def split_states(tails, labels, heads, accepting, label_count, blocks):  # type: ignore[no-untyped-def]
    """Write to `blocks`, int32[n], the number of each state's block, dense from 0.

    Transition k leads from `tails[k]` by the class `labels[k]`, below `label_count`, to `heads[k]`; each state has one
    of a class at most, and can reach acceptance.
    """
    size, edges = accepting.size, tails.size
    states = np.zeros((7, size + 1), np.int32)
    for state in range(size):
        states[_ITEM, state] = state
        states[_PLACE, state] = state
    states[_PAST, 0] = size
    n_states = 1
    touched = 0
    for state in range(size):
        if accepting[state]:
            touched = _mark(states, state, touched)
    n_states = _split(states, touched, n_states)

    moves = np.zeros((7, edges + 1), np.int32)
    ends = np.zeros(label_count + 1, np.int32)
    for k in range(edges):
        ends[labels[k] + 1] += 1
    n_moves = 0
    for label in range(label_count):
        ends[label + 1] += ends[label]
        if ends[label + 1] > ends[label]:
            moves[_FIRST, n_moves] = ends[label]
            moves[_PAST, n_moves] = ends[label + 1]
            for at in range(ends[label], ends[label + 1]):
                moves[_TOUCHED, at] = n_moves  # for a moment: the block of what is put there
            n_moves += 1
    for k in range(edges):
        at = ends[labels[k]]
        ends[labels[k]] += 1
        moves[_ITEM, at] = k
        moves[_PLACE, k] = at
        moves[_BLOCK, k] = moves[_TOUCHED, at]

    into = np.zeros(size + 1, np.int32)  # transitions by where they lead: `coming[into[s]:into[s + 1]]`
    for k in range(edges):
        into[heads[k] + 1] += 1
    for state in range(size):
        into[state + 1] += into[state]
    coming = np.empty(edges, np.int32)
    free = into[:size].copy()
    for k in range(edges):
        coming[free[heads[k]]] = k
        free[heads[k]] += 1

    next_state = 1
    next_move = 0
    while next_move < n_moves:
        touched = 0
        for at in range(moves[_FIRST, next_move], moves[_PAST, next_move]):
            touched = _mark(states, tails[moves[_ITEM, at]], touched)
        n_states = _split(states, touched, n_states)
        next_move += 1
        while next_state < n_states:
            touched = 0
            for at in range(states[_FIRST, next_state], states[_PAST, next_state]):
                state = states[_ITEM, at]
                for k in range(into[state], into[state + 1]):
                    touched = _mark(moves, coming[k], touched)
            n_moves = _split(moves, touched, n_moves)
            next_state += 1
    for state in range(size):
        blocks[state] = states[_BLOCK, state]


def warm() -> None:
    """Load or compile the loop of this file."""
    none = np.empty(0, np.int32)
    split_states(none, none, none, np.ones(1, np.bool_), 0, np.empty(1, np.int32))
