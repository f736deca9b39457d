"""Compiled loops that add the networks of names to a pool, group by group, and find those that a text can call; see
`networks`, which holds the arrays they read: rules as in `groups.groups_of`."""

from __future__ import annotations

from sluicegate.grammar.parsing.rewriting.sketching import BARE, LOOP, MOST_COPIED, NONE, holds, is_copied, sketched
from sluicegate.grammar.parsing.rewriting.subsets import N_STATES, N_STEPS, NO_ROOM, TOO_MANY, add_network, put_in_order
from sluicegate.plugins.compiled.kernels import kernel

DONE, PAUSED = 0, -3
"""Results of loops, besides `NO_ROOM` for a larger pool."""
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
