"""Compiled loops over automata as plain arrays: pairs of two, and the canonical minimal form of one.

`moves`, int32[n, C]: the next state by class, -1 = dead. The result is what `table.minimal` says, and does not depend
on the algorithm.
"""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.automata.tables.partition import split_states
from sluicegate.plugins.compiled.kernels import kernel


@kernel(
    "(int32[:, ::1], int32[:, ::1], int32[:, ::1], int64, int64, boolean, boolean, int64, int32[::1], "
    "int32[:, ::1], int32[:, ::1])",
    python=True,
)
def pair_states(  # type: ignore[no-untyped-def]
    left, right, classes, left_start, right_start, need_left, need_right, most, numbers, pairs, moves
):
    """Follow two automata side by side from their starts; a side that died is -1.

    `left` int32[L + 1, A] and `right` int32[R + 1, B] end with a dead row. Class c is `classes[c]`, one of either side,
    -1: dead there. A pair goes on only while every needed side lives. Written to are `pairs` int32[n, 2], `moves`
    int32[n, C], as far as there are states, and `numbers`, all -1, which finds a pair's number by a hash: its size is a
    power of two of at least 2 n. Returns how many states there are, `most` + 1 where they are more, or minus how many
    there were where `pairs` had no room for another.
    """
    mask = numbers.size - 1
    pairs[0, 0] = left_start
    pairs[0, 1] = right_start
    numbers[(left_start * 40503 + right_start * 30011) & mask] = 0
    count = 1
    at = 0
    while at < count:
        a = pairs[at, 0]
        b = pairs[at, 1]
        for c in range(classes.shape[0]):
            after_a = left[a, classes[c, 0]] if classes[c, 0] >= 0 else -1
            after_b = right[b, classes[c, 1]] if classes[c, 1] >= 0 else -1
            moves[at, c] = -1
            if (need_left and after_a < 0) or (need_right and after_b < 0) or (after_a < 0 and after_b < 0):
                continue
            place = (np.int64(after_a) * 40503 + np.int64(after_b) * 30011) & mask
            found = numbers[place]
            while found >= 0 and (pairs[found, 0] != after_a or pairs[found, 1] != after_b):
                place = (place + 1) & mask
                found = numbers[place]
            if found < 0:
                if count == most:
                    return most + 1
                if count == pairs.shape[0]:
                    return -count
                found = count
                numbers[place] = found
                pairs[count, 0] = after_a
                pairs[count, 1] = after_b
                count += 1
            moves[at, c] = found
        at += 1
    return count


@kernel(python=True)
def reachable(moves, start):  # type: ignore[no-untyped-def]
    """Return bool[n], the states that are reached from `start`; and for each state where in the second array the
    states lie that lead to it, int32[n + 1]."""
    size, width = moves.shape
    reached = np.zeros(size, np.bool_)
    stack = np.empty(size + 1, np.int32)
    reached[start] = True
    stack[0] = start
    top = 1
    into = np.zeros(size + 1, np.int32)
    while top:
        top -= 1
        state = stack[top]
        for c in range(width):
            target = moves[state, c]
            if target >= 0:
                into[target + 1] += 1
                if not reached[target]:
                    reached[target] = True
                    stack[top] = target
                    top += 1
    for state in range(size):
        into[state + 1] += into[state]
    coming = np.empty(into[size], np.int32)
    free = into[:size].copy()
    for state in range(size):
        if reached[state]:
            for c in range(width):
                target = moves[state, c]
                if target >= 0:
                    coming[free[target]] = state
                    free[target] += 1
    return reached, into, coming


@kernel(python=True)
def live_states(moves, accepting, start):  # type: ignore[no-untyped-def]
    """Return the states on a way from `start` to acceptance, in order; for each state its number among them, -1 = it is
    none; and how many transitions were looked at."""
    reached, into, coming = reachable(moves, start)
    size = reached.size
    number = np.full(size, -1, np.int32)
    stack = np.empty(size + 1, np.int32)
    top = 0
    for state in range(size):
        if reached[state] and accepting[state]:
            number[state] = 0
            stack[top] = state
            top += 1
    while top:
        top -= 1
        target = stack[top]
        for k in range(into[target], into[target + 1]):
            state = coming[k]
            if number[state] < 0:
                number[state] = 0
                stack[top] = state
                top += 1
    kept = np.empty(size, np.int32)
    live = 0
    for state in range(size):
        if number[state] >= 0:
            number[state] = live
            kept[live] = state
            live += 1
    return kept[:live], number, coming.size


@kernel(python=True)
def one_state_each(moves, accepting, kept, number, edges):  # type: ignore[no-untyped-def]
    """Merge the states `kept` that accept the same. Return the moves of the merged, int32[B, C], which of them accept,
    and the block of each kept state. `edges`: at least how many transitions there are."""
    live, width = kept.size, moves.shape[1]
    tails = np.empty(edges, np.int32)
    labels = np.empty(edges, np.int32)
    heads = np.empty(edges, np.int32)
    accepts = np.empty(live, np.bool_)
    n = 0
    for k in range(live):
        accepts[k] = accepting[kept[k]]
        for c in range(width):
            target = moves[kept[k], c]
            if target >= 0 and number[target] >= 0:
                tails[n] = k
                labels[n] = c
                heads[n] = number[target]
                n += 1
    blocks = np.empty(live, np.int32)
    split_states(tails[:n], labels[:n], heads[:n], accepts, width, blocks)
    count = 0
    chosen = np.full(live, -1, np.int32)  # by block: the state that stands for it
    for k in range(live):
        count = max(count, blocks[k] + 1)
        if chosen[blocks[k]] < 0:
            chosen[blocks[k]] = k
    merged = np.full((count, width), -1, np.int32)
    for k in range(n):
        if chosen[blocks[tails[k]]] == tails[k]:
            merged[blocks[tails[k]], labels[k]] = blocks[heads[k]]
    return merged, accepts[chosen[:count]], blocks


@kernel(python=True)
def is_dead_class(moves, c):  # type: ignore[no-untyped-def]
    """Return whether class `c` leads nowhere from every state."""
    state = 0
    while state < moves.shape[0] and moves[state, c] < 0:
        state += 1
    return state == moves.shape[0]


@kernel(python=True)
def same_class(moves, one, other):  # type: ignore[no-untyped-def]
    """Return whether two classes lead to the same places from every state."""
    state = 0
    while state < moves.shape[0] and moves[state, one] == moves[state, other]:
        state += 1
    return state == moves.shape[0]


@kernel(python=True)
def joined_classes(moves, intervals, out_intervals):  # type: ignore[no-untyped-def]
    """Join classes that lead to the same places from everywhere, and number them by their first interval. Write the
    class of each interval to `out_intervals`, -1 = dead, and return for each class one of those that it joins."""
    width = moves.shape[1]
    joined = np.full(width, -2, np.int32)  # by class: its number in the result; -1: it is dead, -2: not seen yet
    first = np.empty(width, np.int32)
    classes = 0
    for k in range(intervals.size):
        c = intervals[k]
        out_intervals[k] = -1
        if c < 0:
            continue
        if joined[c] == -2:
            joined[c] = -1
            if not is_dead_class(moves, c):
                same = 0
                while same < classes and not same_class(moves, c, first[same]):
                    same += 1
                if same == classes:
                    first[classes] = c
                    classes += 1
                joined[c] = same
        out_intervals[k] = joined[c]
    return first[:classes]


@kernel(python=True)
def number_breadth_first(moves, accepts, start, first, out, out_accepting):  # type: ignore[no-untyped-def]
    """Write an automaton to `out` and `out_accepting` with its states numbered breadth first, and return how many there
    are. `first`: for each class of the result a class of `moves`."""
    place = np.full(moves.shape[0], -1, np.int32)
    queue = np.empty(moves.shape[0], np.int32)
    queue[0] = start
    place[start] = 0
    found = 1
    at = 0
    while at < found:
        state = queue[at]
        out_accepting[at] = accepts[state]
        for c in range(first.size):
            target = moves[state, first[c]]
            out[at, c] = -1
            if target >= 0:
                if place[target] < 0:
                    place[target] = found
                    queue[found] = target
                    found += 1
                out[at, c] = place[target]
        at += 1
    return found


@kernel("(int32[:, ::1], boolean[::1], int64, int32[::1], int32[:, ::1], boolean[::1], int32[::1])", python=True)
def compact(moves, accepting, start, intervals, out, out_accepting, out_intervals):  # type: ignore[no-untyped-def]
    """Write the canonical minimal form of an automaton to `out`, of the shape of `moves`, and `out_accepting`.

    `intervals` int32[K]: the class of each interval of symbols, ascending, -1 = dead; `out_intervals`: its class in the
    result. Returns (states, classes, transitions that were looked at); no states: nothing is accepted.
    """
    kept, number, edges = live_states(moves, accepting, start)
    if number[start] < 0:
        return 0, 0, edges
    merged, accepts, blocks = one_state_each(moves, accepting, kept, number, edges)
    first = joined_classes(merged, intervals, out_intervals)
    found = number_breadth_first(merged, accepts, blocks[number[start]], first, out, out_accepting)
    return found, first.size, edges


def warm() -> None:
    """Load or compile the loops of this file."""
    one, yes, start = np.zeros((1, 1), np.int32), np.ones(1, np.bool_), np.zeros(1, np.int32)
    compact(one, yes, 0, start, one.copy(), yes.copy(), start.copy())
    dead = np.full((2, 1), -1, np.int32)
    numbers = np.full(8, -1, np.int32)
    pairs, moves = np.zeros((2, 2), np.int32), np.zeros((2, 1), np.int32)
    pair_states(dead, dead, np.zeros((1, 2), np.int32), 0, 0, False, False, 2, numbers, pairs, moves)
