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


@kernel("(int32[:, ::1], boolean[::1], int64, int32[::1], int32[:, ::1], boolean[::1], int32[::1])", python=True)
def compact(moves, accepting, start, intervals, out, out_accepting, out_intervals):  # type: ignore[no-untyped-def]
    """Write the canonical minimal form of an automaton to `out`, of the shape of `moves`, and `out_accepting`.

    `intervals` int32[K]: the class of each interval of symbols, ascending, -1 = dead; `out_intervals`: its class in the
    result. Returns (states, classes, transitions that were looked at); no states: nothing is accepted.
    """
    size, width = moves.shape
    # States that can be reached, and of those the ones that can reach acceptance.
    reached = np.zeros(size, np.bool_)
    stack = np.empty(size + 1, np.int32)
    reached[start] = True
    stack[0] = start
    top = 1
    edges = 0
    into = np.zeros(size + 1, np.int32)
    while top:
        top -= 1
        state = stack[top]
        for c in range(width):
            target = moves[state, c]
            if target >= 0:
                edges += 1
                into[target + 1] += 1
                if not reached[target]:
                    reached[target] = True
                    stack[top] = target
                    top += 1
    for state in range(size):
        into[state + 1] += into[state]
    coming = np.empty(edges, np.int32)
    free = into[:size].copy()
    for state in range(size):
        if reached[state]:
            for c in range(width):
                target = moves[state, c]
                if target >= 0:
                    coming[free[target]] = state
                    free[target] += 1
    number = np.full(size, -1, np.int32)
    top = 0
    live = 0
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
    if number[start] < 0:
        return 0, 0, edges
    kept = np.empty(size, np.int32)
    for state in range(size):
        if number[state] >= 0:
            number[state] = live
            kept[live] = state
            live += 1
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
    # One state stands for its block.
    count = 0
    chosen = np.full(live, -1, np.int32)
    for k in range(live):
        count = max(count, blocks[k] + 1)
        if chosen[blocks[k]] < 0:
            chosen[blocks[k]] = k
    whole = np.full((count, width), -1, np.int32)
    for k in range(n):
        if chosen[blocks[tails[k]]] == tails[k]:
            whole[blocks[tails[k]], labels[k]] = blocks[heads[k]]
    # Classes that lead to the same places from everywhere are one; they are numbered by their first interval.
    joined = np.full(width, -1, np.int32)  # by class: its number in the result
    first = np.empty(width, np.int32)  # by number in the result: a class
    classes = 0
    for k in range(intervals.size):
        c = intervals[k]
        out_intervals[k] = -1
        if c < 0:
            continue
        if joined[c] == -1:
            joined[c] = -2
            for state in range(count):
                if whole[state, c] >= 0:
                    joined[c] = -3
                    break
            if joined[c] == -3:
                for other in range(classes):
                    same = True
                    for state in range(count):
                        if whole[state, c] != whole[state, first[other]]:
                            same = False
                            break
                    if same:
                        joined[c] = other
                        break
                if joined[c] == -3:
                    joined[c] = classes
                    first[classes] = c
                    classes += 1
        if joined[c] >= 0:
            out_intervals[k] = joined[c]
    # States are numbered breadth first.
    place = np.full(count, -1, np.int32)
    queue = np.empty(count, np.int32)
    queue[0] = blocks[number[start]]
    place[queue[0]] = 0
    found = 1
    at = 0
    while at < found:
        state = queue[at]
        out_accepting[at] = accepts[chosen[state]]
        for c in range(classes):
            target = whole[state, first[c]]
            out[at, c] = -1
            if target >= 0:
                if place[target] < 0:
                    place[target] = found
                    queue[found] = target
                    found += 1
                out[at, c] = place[target]
        at += 1
    return found, classes, edges


def warm() -> None:
    """Load or compile the loops of this file."""
    one, yes, start = np.zeros((1, 1), np.int32), np.ones(1, np.bool_), np.zeros(1, np.int32)
    compact(one, yes, 0, start, one.copy(), yes.copy(), start.copy())
    dead = np.full((2, 1), -1, np.int32)
    numbers = np.full(8, -1, np.int32)
    pairs, moves = np.zeros((2, 2), np.int32), np.zeros((2, 1), np.int32)
    pair_states(dead, dead, np.zeros((1, 2), np.int32), 0, 0, False, False, 2, numbers, pairs, moves)
