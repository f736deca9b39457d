"""The compiled loop that sketches a group of names as one automaton with choices, copies of others put in; see
`networks`, which holds the arrays it reads: rules as in `groups.groups_of`."""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.parsing.rewriting.subsets import SKIP, longer
from sluicegate.grammar.parsing.walks import moved, slot_of
from sluicegate.plugins.compiled.kernels import kernel

NONE, BARE, LOOP = -1, -2, -3
"""In the place of a network's number: a name has none yet; its rules stay unchanged, because its automaton would be too
large; it is a loop, which is sketched where it stands."""
MOST_COPIED = 40
"""Most states of a network that is copied into networks of another kind of text; larger ones are called."""
_READ, _COPY, _LOOP = range(3)
"""What leads from one state to another, in keys of the states behind."""
_NAME, _ROW, _ROWS_END, _PLACE, _END, _SOURCE, _BEGIN, _TARGET = range(8)
"""Of a row of a name that is being spelled: where it stands, and the states before and behind it. Loops are behind
each other's bodies, each with fewer states than the one around it."""


@kernel(python=True)
def is_copied(name, other, at_edge, copies, numbers, sizes, kinds):  # type: ignore[no-untyped-def]
    """Return whether the network, or the loop, of `other` stands in its place in a rule of `name`; else it is
    called."""
    if not copies or numbers[other] == NONE or numbers[other] == BARE:
        return False
    return at_edge if kinds[name] == kinds[other] else sizes[other] <= MOST_COPIED


@kernel(python=True)
def holds(row, code, row_first, symbols):  # type: ignore[no-untyped-def]
    """Return whether `code` stands in a rule."""
    at, end = row_first[row], row_first[row + 1]
    while at < end and symbols[at] != code:
        at += 1
    return at < end


@kernel(python=True)
def next_body(row, end, code, row_first, symbols):  # type: ignore[no-untyped-def]
    """Return the first rule from `row` on that does not hold `code`, `end` if there is none."""
    while row < end and holds(row, code, row_first, symbols):
        row += 1
    return row


@kernel(python=True)
def recurs_right(members, group, way_first, row_first, symbols, places, groups):  # type: ignore[no-untyped-def]
    """Return whether a rule of the group with more than one symbol ends in a name of it."""
    for k in range(members.size):
        for row in range(way_first[members[k]], way_first[members[k] + 1]):
            low, high = row_first[row], row_first[row + 1]
            if high - low > 1 and symbols[high - 1] < 0 and groups[places[~symbols[high - 1]]] == group:
                return True
    return False


@kernel(python=True)
def state_key(source, kind, symbol):  # type: ignore[no-untyped-def]
    return (((np.int64(source) << 2) | kind) << 32) + np.int64(symbol) + (np.int64(1) << 31) + 1


@kernel(python=True, inline="always")
def put_edge(edges, n_edges, source, symbol, target):  # type: ignore[no-untyped-def]
    edges[n_edges] = source
    edges[n_edges + 1] = symbol
    edges[n_edges + 2] = target
    return n_edges + 3


@kernel(python=True)
def twice(keys, values):  # type: ignore[no-untyped-def]
    """Return the table of states with twice the room."""
    more, more_values = np.zeros(2 * keys.size, np.int64), np.empty(2 * keys.size, np.int32)
    moved(keys, values, more, more_values)
    return more, more_values


@kernel(python=True)
def begin_way(frames, member, way, from_right, members, row_first, symbols, places, groups, inside):  # type: ignore[no-untyped-def]
    """Begin to spell a rule of `members[member]`. A name of the group at the rule's edge is no symbol: the rule goes on
    from the name's state, or to it."""
    low, high = row_first[way], row_first[way + 1]
    edge = -1
    if high > low:
        edge = symbols[high - 1] if from_right else symbols[low]
    loops = edge < 0 and high > low and groups[places[~edge]] == groups[members[member]]
    inner = inside[places[~edge]] if loops else members.size
    frames[0, _NAME] = members[member]
    frames[0, _ROW], frames[0, _ROWS_END] = way, way + 1
    frames[0, _PLACE], frames[0, _END] = low, high
    if from_right:
        frames[0, _SOURCE], frames[0, _TARGET] = member, inner
        frames[0, _END] -= loops
    else:
        frames[0, _SOURCE], frames[0, _TARGET] = inner, member
        frames[0, _PLACE] += loops


@kernel(python=True)
def enter_loop(frames, depth, name, code, begin, way_first, row_first, symbols):  # type: ignore[no-untyped-def]
    """Begin to spell the bodies of a loop, from the state `begin` to the one behind it."""
    rows_end = way_first[name + 1]
    row = next_body(way_first[name], rows_end, code, row_first, symbols)
    frames[depth, _NAME] = name
    frames[depth, _ROW], frames[depth, _ROWS_END] = row, rows_end
    frames[depth, _PLACE], frames[depth, _END] = row_first[row], row_first[row + 1]
    frames[depth, _SOURCE], frames[depth, _BEGIN], frames[depth, _TARGET] = begin, begin, begin + 1


@kernel(python=True)
def goes_on(frames, depth, codes, row_first, symbols):  # type: ignore[no-untyped-def]
    """Turn to the loop's next body; return False where there is none."""
    end = frames[depth, _ROWS_END]
    row = next_body(frames[depth, _ROW] + 1, end, codes[frames[depth, _NAME]], row_first, symbols)
    if row == end:
        return False
    frames[depth, _ROW] = row
    frames[depth, _PLACE], frames[depth, _END] = row_first[row], row_first[row + 1]
    frames[depth, _SOURCE] = frames[depth, _BEGIN]
    return True


@kernel(python=True)
def sketched(  # type: ignore[no-untyped-def]
    members, copies_too, codes, way_first, row_first, symbols, places, numbers, sizes, kinds, groups, inside
):  # fmt: skip
    """Return the sketch of a group of names, which is linear but for calls: edges (source, symbol or `SKIP`, target),
    copies (number of a network, the first state of its copy, the state behind it), how many states there are, and
    whether texts are read from each name's state on (else up to it): that of `members[k]` is k, behind all of them
    comes the one at the other end.

    What is read from one state by one symbol leads to one state, so that ways which begin alike are one up to where
    they part.
    """
    from_right = recurs_right(members, groups[members[0]], way_first, row_first, symbols, places, groups)
    edges = np.empty(192, np.int32)
    copies = np.empty(48, np.int32)
    keys, values = np.zeros(128, np.int64), np.empty(128, np.int32)
    frames = np.empty((MOST_COPIED + 4, 8), np.int32)
    size = members.size + 1
    n_edges = 0
    n_copies = 0
    n_keys = 0
    for member in range(members.size):
        for way in range(way_first[members[member]], way_first[members[member] + 1]):
            begin_way(frames, member, way, from_right, members, row_first, symbols, places, groups, inside)
            depth = 0
            while depth >= 0:
                edges = longer(edges, n_edges + 9)
                if 2 * n_keys >= keys.size:
                    keys, values = twice(keys, values)
                at, source, mine = frames[depth, _PLACE], frames[depth, _SOURCE], frames[depth, _NAME]
                if at == frames[depth, _END]:
                    if source != frames[depth, _TARGET]:
                        n_edges = put_edge(edges, n_edges, source, SKIP, frames[depth, _TARGET])
                    if not goes_on(frames, depth, codes, row_first, symbols):
                        depth -= 1
                    continue
                frames[depth, _PLACE] = at + 1
                symbol = symbols[at]
                kind = _READ  # a terminal, or a call
                other = -1
                if symbol < 0:
                    other = places[~symbol]
                    row = frames[depth, _ROW]
                    at_edge = at == row_first[row] or at == row_first[row + 1] - 1
                    if groups[other] != groups[mine] and is_copied(
                        mine, other, at_edge, copies_too, numbers, sizes, kinds
                    ):
                        kind = _LOOP if numbers[other] == LOOP else _COPY
                key = state_key(source, kind, symbol)
                slot = slot_of(keys, key)
                if keys[slot] == key:
                    frames[depth, _SOURCE] = values[slot]
                    continue
                keys[slot] = key
                n_keys += 1
                if kind == _READ:
                    behind = size
                    n_edges = put_edge(edges, n_edges, source, symbol, behind)
                    size += 1
                elif kind == _COPY:
                    behind = size
                    copies = longer(copies, n_copies + 3)
                    n_copies = put_edge(copies, n_copies, numbers[other], size + 1, behind)
                    n_edges = put_edge(edges, n_edges, source, SKIP, size + 1)
                    size += 1 + sizes[other]
                else:
                    behind = size + 1
                    n_edges = put_edge(edges, n_edges, source, SKIP, size)
                    n_edges = put_edge(edges, n_edges, behind, SKIP, size)
                    size += 2
                values[slot] = behind
                frames[depth, _SOURCE] = behind
                if kind == _LOOP:
                    depth += 1
                    enter_loop(frames, depth, other, symbol, behind - 1, way_first, row_first, symbols)
    return edges[:n_edges].copy().reshape(-1, 3), copies[:n_copies].copy().reshape(-1, 3), size, from_right
