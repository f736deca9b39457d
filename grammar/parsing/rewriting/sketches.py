"""Compiled loops that sketch names as automata with choices, copies of others put in, and add these to a pool; see
`networks`, which holds the arrays they read: rules as in `groups.groups_of`."""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.parsing.rewriting.subsets import (
    N_STATES,
    N_STEPS,
    NO_ROOM,
    SKIP,
    TOO_MANY,
    add_network,
    longer,
    put_in_order,
)
from sluicegate.grammar.parsing.walks import moved, slot_of
from sluicegate.plugins.compiled.kernels import kernel

DONE, PAUSED = 0, -3
"""Results of loops, besides `NO_ROOM` for a larger pool."""
NONE, BARE, LOOP = -1, -2, -3
"""In the place of a network's number: a name has none yet; its rules stay unchanged, because its automaton would be too
large; it is a loop, which is sketched where it stands."""
MOST_COPIED = 40
"""Most states of a network that is copied into networks of another kind of text; larger ones are called."""
(
    GROUP,  # the next group to make
    MEMBER,  # how many networks of it are made
    TRY,  # 1: without copies, because the automata would be too large with them
    STEPS,  # since this was set to 0
    N_PENDING,
    N_CALLED,
    N_STATE,
) = range(7)
"""Of `state`."""
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
def is_body_beside(row, other, code, before, row_first, symbols):  # type: ignore[no-untyped-def]
    """Return whether `other` is `row` with `code` before it, or behind it."""
    low, high = row_first[row], row_first[row + 1]
    begin = row_first[other]
    if row_first[other + 1] - begin != high - low + 1:
        return False
    if symbols[begin if before else begin + high - low] != code:
        return False
    begin += 1 if before else 0
    k = 0
    while k < high - low and symbols[begin + k] == symbols[low + k]:
        k += 1
    return k == high - low


@kernel(python=True)
def repeats_bodies(name, code, before, way_first, row_first, symbols):  # type: ignore[no-untyped-def]
    """Return whether the rules are `n: x | n x`, or the same from the right, for all `x` that do not hold `n`."""
    for row in range(way_first[name], way_first[name + 1]):
        if holds(row, code, row_first, symbols):
            continue
        found = False
        for other in range(way_first[name], way_first[name + 1]):
            if is_body_beside(row, other, code, before, row_first, symbols):
                found = True
                break
        if not found:
            return False
    return True


@kernel(python=True)
def loop_size(name, code, way_first, row_first, symbols, places, numbers, sizes, kinds):  # type: ignore[no-untyped-def]
    """Return the most states of the sketch of the loop that a name is, `n: x | n x` or the same from the right; 0 if it
    is none, or is not small."""
    bodies = 0
    size = 0
    for row in range(way_first[name], way_first[name + 1]):
        if holds(row, code, row_first, symbols):
            continue
        low, high = row_first[row], row_first[row + 1]
        bodies += 1
        if low == high:
            return 0
        for at in range(low, high):
            more = 1
            if symbols[at] < 0:
                other = places[~symbols[at]]
                if is_copied(name, other, at == low or at == high - 1, True, numbers, sizes, kinds):
                    more = sizes[other]
            size += more
        if size >= MOST_COPIED - 1:
            return 0
    if bodies == 0 or way_first[name + 1] - way_first[name] != 2 * bodies:
        return 0
    if repeats_bodies(name, code, True, way_first, row_first, symbols) or repeats_bodies(
        name, code, False, way_first, row_first, symbols
    ):
        return size + 2
    return 0


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
    group = groups[members[0]]
    from_right = recurs_right(members, group, way_first, row_first, symbols, places, groups)
    edges = np.empty(192, np.int32)
    copies = np.empty(48, np.int32)
    keys, values = np.zeros(128, np.int64), np.empty(128, np.int32)
    frames = np.empty((MOST_COPIED + 4, 8), np.int32)
    size = members.size + 1
    n_edges = 0
    n_copies = 0
    n_keys = 0
    for member in range(members.size):
        name = members[member]
        for way in range(way_first[name], way_first[name + 1]):
            low, high = row_first[way], row_first[way + 1]
            edge = -1
            if high > low:
                edge = symbols[high - 1] if from_right else symbols[low]
            loops = edge < 0 and high > low and groups[places[~edge]] == group
            frames[0, _NAME] = name
            frames[0, _ROW] = way
            frames[0, _ROWS_END] = way + 1
            frames[0, _PLACE] = low
            frames[0, _END] = high
            inner = inside[places[~edge]] if loops else members.size
            if from_right:
                frames[0, _SOURCE], frames[0, _TARGET] = member, inner
                frames[0, _END] -= loops
            else:
                frames[0, _SOURCE], frames[0, _TARGET] = inner, member
                frames[0, _PLACE] += loops
            depth = 0
            while depth >= 0:
                edges = longer(edges, n_edges + 9)
                if 2 * n_keys >= keys.size:
                    more, more_values = np.zeros(2 * keys.size, np.int64), np.empty(2 * keys.size, np.int32)
                    moved(keys, values, more, more_values)
                    keys, values = more, more_values
                at = frames[depth, _PLACE]
                source = frames[depth, _SOURCE]
                mine = frames[depth, _NAME]
                if at == frames[depth, _END]:
                    if source != frames[depth, _TARGET]:
                        edges[n_edges], edges[n_edges + 1], edges[n_edges + 2] = source, SKIP, frames[depth, _TARGET]
                        n_edges += 3
                    row = next_body(frames[depth, _ROW] + 1, frames[depth, _ROWS_END], codes[mine], row_first, symbols)
                    if row == frames[depth, _ROWS_END]:
                        depth -= 1
                        continue
                    frames[depth, _ROW] = row
                    frames[depth, _PLACE], frames[depth, _END] = row_first[row], row_first[row + 1]
                    frames[depth, _SOURCE] = frames[depth, _BEGIN]
                    continue
                frames[depth, _PLACE] = at + 1
                symbol = symbols[at]
                kind = _READ  # a terminal, or a call
                other = -1
                if symbol < 0:
                    other = places[~symbol]
                    row = frames[depth, _ROW]
                    if groups[other] != groups[mine] and is_copied(
                        mine,
                        other,
                        at == row_first[row] or at == row_first[row + 1] - 1,
                        copies_too,
                        numbers,
                        sizes,
                        kinds,
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
                    values[slot] = size
                    edges[n_edges], edges[n_edges + 1], edges[n_edges + 2] = source, symbol, size
                    n_edges += 3
                    size += 1
                elif kind == _COPY:
                    values[slot] = size
                    copies = longer(copies, n_copies + 3)
                    copies[n_copies], copies[n_copies + 1], copies[n_copies + 2] = numbers[other], size + 1, size
                    n_copies += 3
                    edges[n_edges], edges[n_edges + 1], edges[n_edges + 2] = source, SKIP, size + 1
                    n_edges += 3
                    size += 1 + sizes[other]
                else:
                    begin, end = size, size + 1
                    size += 2
                    values[slot] = end
                    edges[n_edges], edges[n_edges + 1], edges[n_edges + 2] = source, SKIP, begin
                    edges[n_edges + 3], edges[n_edges + 4], edges[n_edges + 5] = end, SKIP, begin
                    n_edges += 6
                    frames[depth, _SOURCE] = end
                    depth += 1
                    rows_end = way_first[other + 1]
                    row = next_body(way_first[other], rows_end, symbol, row_first, symbols)
                    frames[depth, _NAME] = other
                    frames[depth, _ROW], frames[depth, _ROWS_END] = row, rows_end
                    frames[depth, _PLACE], frames[depth, _END] = row_first[row], row_first[row + 1]
                    frames[depth, _SOURCE], frames[depth, _BEGIN], frames[depth, _TARGET] = begin, begin, end
                    continue
                frames[depth, _SOURCE] = values[slot]
    return edges[:n_edges].copy().reshape(-1, 3), copies[:n_copies].copy().reshape(-1, 3), size, from_right


@kernel(python=True)
def made(  # type: ignore[no-untyped-def]
    members, codes, way_first, row_first, symbols, places, numbers, sizes, kinds, groups, inside, state, most_work,
    most_states, most_steps, begins, first, pool_symbols, targets, finals, counts,
):  # fmt: skip
    """Add the networks of a group to the pool, or make its names `BARE`. It goes on where it paused."""
    while True:
        edges, copies, size, from_right = sketched(
            members,
            state[TRY] == 0,
            codes,
            way_first,
            row_first,
            symbols,
            places,
            numbers,
            sizes,
            kinds,
            groups,
            inside,
        )
        too_many = False
        while state[MEMBER] < members.size:
            if state[STEPS] > most_work:
                return PAUSED
            member = state[MEMBER]
            start, final = (member, members.size) if from_right else (members.size, member)
            before = counts[N_STATES]
            number = add_network(
                edges, copies, size, start, final, most_states, most_steps, begins, first, pool_symbols, targets,
                finals, counts,
            )  # fmt: skip
            if number == NO_ROOM:
                return NO_ROOM
            state[STEPS] += counts[N_STEPS] + edges.shape[0]
            if number == TOO_MANY:
                too_many = True
                break
            numbers[members[member]] = number
            sizes[members[member]] = counts[N_STATES] - before
            state[MEMBER] += 1
        state[MEMBER] = 0
        if too_many and state[TRY] == 0:
            state[TRY] = 1
            continue
        if too_many:
            for k in range(members.size):
                numbers[members[k]] = BARE
        state[TRY] = 0
        return DONE


@kernel(
    "(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], "
    "int32[::1], int32[::1], int32[::1], int64[::1], int64, int64, int64, int32[::1], int32[::1], int32[::1], "
    "int32[::1], boolean[::1], int64[::1])",
    python=True,
)
def make_networks(  # type: ignore[no-untyped-def]
    order, group_first, codes, way_first, row_first, symbols, places, numbers, sizes, kinds, groups, inside, state,
    most_work, most_states, most_steps, begins, first, pool_symbols, targets, finals, counts,
):  # fmt: skip
    """Add the networks of all groups from `state[GROUP]` on to the pool, or find that they are loops; return `DONE`, or
    `PAUSED` or `NO_ROOM`, after which it is called again.

    `order`, `group_first`, `kinds`, `groups`, `inside`: see `groups_of`; `codes`: by name. Writes for each name to
    `numbers` that of its network, or one of `BARE` and `LOOP`, to `sizes` how many states it has. Pauses past
    `most_work` steps; the others: see `NetworkPool`.
    """
    while state[GROUP] < group_first.size - 1:
        members = order[group_first[state[GROUP]] : group_first[state[GROUP] + 1]]
        size = 0
        if members.size == 1:
            size = loop_size(
                members[0], codes[members[0]], way_first, row_first, symbols, places, numbers, sizes, kinds
            )
        if size > 0:
            numbers[members[0]] = LOOP
            sizes[members[0]] = size
        else:
            found = made(
                members, codes, way_first, row_first, symbols, places, numbers, sizes, kinds, groups, inside, state,
                most_work, most_states, most_steps, begins, first, pool_symbols, targets, finals, counts,
            )  # fmt: skip
            if found != DONE:
                return found
        state[GROUP] += 1
    return DONE


@kernel(
    "(int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], "
    "int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], boolean[::1], int64[::1], int64, int64, int64, "
    "int32[::1], int32[::1], int32[::1], int32[::1], boolean[::1], int64[::1])",
    python=True,
)
def call_networks(  # type: ignore[no-untyped-def]
    order, group_first, codes, way_first, row_first, symbols, places, numbers, sizes, kinds, groups, inside,
    pending, called, known, state, most_work, most_states, most_steps, begins, first, pool_symbols, targets, finals,
    counts,
):  # fmt: skip
    """Find all names that a text can call, and add the networks of those that are loops. Returns as `make_networks`.

    The first `state[N_PENDING]` names in `pending` wait, the last one first; `called`: the first `state[N_CALLED]` are
    those that are called so far, as `known` bool[N] says, too.
    """
    while state[N_PENDING] > 0:
        name = pending[state[N_PENDING] - 1]
        if numbers[name] == LOOP:
            group = groups[name]
            numbers[name] = NONE
            found = made(
                order[group_first[group] : group_first[group + 1]], codes, way_first, row_first, symbols, places,
                numbers, sizes, kinds, groups, inside, state, most_work, most_states, most_steps, begins, first,
                pool_symbols, targets, finals, counts,
            )  # fmt: skip
            if found != DONE:
                numbers[name] = LOOP
                return found
        state[N_PENDING] -= 1
        if numbers[name] >= 0:
            low, high = first[begins[numbers[name]]], first[begins[numbers[name] + 1]]
            read = pool_symbols[low:high].copy()
        else:
            read = symbols[row_first[way_first[name]] : row_first[way_first[name + 1]]].copy()
        count = 0
        for k in range(read.size):
            if read[k] < 0 and not known[places[~read[k]]]:
                known[places[~read[k]]] = True
                read[count] = read[k]
                count += 1
        if numbers[name] >= 0:
            put_in_order(read, count)
        for k in range(count):
            pending[state[N_PENDING]] = called[state[N_CALLED]] = places[~read[k]]
            state[N_PENDING] += 1
            state[N_CALLED] += 1
    return DONE
