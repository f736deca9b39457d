"""Compiled loops over small automata in flat tables: made deterministic by sets of states, and states that go on alike
found."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel

SKIP = 0x7FFFFFFF
"""The symbol of an edge that reads nothing."""
TOO_MANY, NO_ROOM = -1, -2
_FEW = 40
N_NETWORKS, N_STATES, N_EDGES, N_STEPS = range(4)
"""Indices of `counts`: how many there are of each, and the steps that the last network took."""


@kernel(python=True)
def by_source(sources, symbols, size, skips):  # type: ignore[no-untyped-def]
    """Return where the edges of each state begin, and their numbers: those that read nothing, or the others."""
    begins = np.zeros(size + 1, np.int32)
    for e in range(sources.size):
        if (symbols[e] == SKIP) == skips:
            begins[sources[e] + 1] += 1
    for i in range(size):
        begins[i + 1] += begins[i]
    at = begins.copy()
    order = np.empty(begins[size], np.int32)
    for e in range(sources.size):
        if (symbols[e] == SKIP) == skips:
            order[at[sources[e]]] = e
            at[sources[e]] += 1
    return begins, order


@kernel(python=True, inline="always")
def longer(array, size):  # type: ignore[no-untyped-def]
    """Return `array` with room for `size` numbers and more."""
    if size <= array.size:
        return array
    found = np.empty(2 * size, np.int32)
    found[: array.size] = array
    return found


@kernel(python=True, inline="always")
def put_in_order(numbers, count):  # type: ignore[no-untyped-def]
    """Sort the first `count` numbers in place. Most sets are so small that the general sort takes several times as
    long."""
    if count > _FEW:
        numbers[:count].sort()
        return
    for k in range(1, count):
        number = numbers[k]
        place = k
        while place > 0 and numbers[place - 1] > number:
            numbers[place] = numbers[place - 1]
            place -= 1
        numbers[place] = number


@kernel(python=True, inline="always")
def number_of(found, count, pool, lows, n_sets, slots):  # type: ignore[no-untyped-def]
    """Return the number of the set `found[:count]`, which is sorted, and the slot where a new one belongs."""
    digest = np.int64(count)
    for k in range(count):
        digest = (digest * 131 + np.int64(found[k]) + 1) & 0x7FFFFFFF
    mask = slots.size - 1
    slot = (digest ^ (digest >> 15)) & mask
    while slots[slot] != 0:
        known = slots[slot] - 1
        low = lows[known]
        if lows[known + 1] - low == count:
            same = True
            for k in range(count):
                if pool[low + k] != found[k]:
                    same = False
                    break
            if same:
                return known, slot
        slot = (slot + 1) & mask
    return np.int64(-1), slot


@kernel(python=True)
def determinised(sources, symbols, targets, size, start, final, most_states, most_steps):  # type: ignore[no-untyped-def]
    """Return a deterministic automaton for the texts from `start` to `final`: where the edges of each state begin,
    their symbols in order, their targets, and which states are final; and the steps that it took. No state at all: it
    has more than `most_states`, or took more than `most_steps`.

    A set of states leaves out those that nothing is read from, `final` apart.
    """
    # One loop on purpose: as functions, which are handed a dozen arrays for each set, it took a seventh longer.
    begins, order = by_source(sources, symbols, size, False)
    skip_begins, skip_order = by_source(sources, symbols, size, True)
    none = np.empty(0, np.int32)
    refused = (none, none, none, np.empty(0, np.bool_))
    stamps = np.zeros(size, np.int64)
    stamp = np.int64(0)
    stack = np.empty(size + 1, np.int32)
    found = np.empty(size + 1, np.int32)
    pool = np.empty(4 * size + 16, np.int32)
    lows = np.zeros(most_states + 2, np.int32)
    slots_size = 64
    while slots_size < 4 * most_states:
        slots_size *= 2
    slots = np.zeros(slots_size, np.int64)
    out_begins = np.zeros(most_states + 2, np.int32)
    out_symbols = np.empty(256, np.int32)
    out_targets = np.empty(256, np.int32)
    lowest = np.int64(0)
    highest = np.int64(0)
    for e in range(symbols.size):
        if symbols[e] != SKIP:
            lowest = min(lowest, np.int64(symbols[e]))
            highest = max(highest, np.int64(symbols[e]))
    heads = np.full(highest - lowest + 1, -1, np.int32)  # by symbol: the last of the places it leads to, see `nexts`
    read = np.empty(highest - lowest + 1, np.int32)
    keys = np.empty(symbols.size + 1, np.int32)
    nexts = np.empty(symbols.size + 1, np.int32)
    n_sets = 0
    n_edges = 0
    steps = np.int64(0)
    behind = np.full(size, -1, np.int32)  # by state: the number of the set that it alone leads to
    state = -1
    while True:
        if state >= 0:
            low, high = lows[state], lows[state + 1]
            n_keys = 0
            n_read = 0
            for k in range(low, high):
                for e in range(begins[pool[k]], begins[pool[k] + 1]):
                    edge = order[e]
                    place = symbols[edge] - lowest
                    keys[n_keys] = targets[edge]
                    nexts[n_keys] = heads[place]
                    if heads[place] < 0:
                        read[n_read] = place
                        n_read += 1
                    heads[place] = n_keys
                    n_keys += 1
            steps += n_keys
            put_in_order(read, n_read)
            if n_edges + n_read > out_symbols.size:
                out_symbols = longer(out_symbols, n_edges + n_read)
                out_targets = longer(out_targets, n_edges + n_read)
        else:
            n_read = 1
            read[0] = 0
            heads[0] = 0
            keys[0] = start
            nexts[0] = -1
        for r in range(n_read):
            symbol = read[r] + lowest
            k = heads[read[r]]
            heads[read[r]] = -1
            only = keys[k] if nexts[k] < 0 else np.int32(-1)
            if only >= 0 and behind[only] >= 0:
                out_symbols[n_edges] = symbol
                out_targets[n_edges] = behind[only]
                n_edges += 1
                continue
            stamp += 1
            count = 0
            while k >= 0:
                target = keys[k]
                k = nexts[k]
                if stamps[target] == stamp:
                    continue
                stamps[target] = stamp
                stack[0] = target
                top = 1
                while top:
                    top -= 1
                    at = stack[top]
                    steps += 1
                    if begins[at + 1] > begins[at] or at == final:
                        found[count] = at
                        count += 1
                    for e in range(skip_begins[at], skip_begins[at + 1]):
                        after = targets[skip_order[e]]
                        if stamps[after] != stamp:
                            stamps[after] = stamp
                            stack[top] = after
                            top += 1
            put_in_order(found, count)
            number, slot = number_of(found, count, pool, lows, n_sets, slots)
            if number < 0:
                if n_sets >= most_states or steps > most_steps:
                    return refused[0], refused[1], refused[2], refused[3], steps
                number = np.int64(n_sets)
                pool = longer(pool, lows[n_sets] + count)
                pool[lows[n_sets] : lows[n_sets] + count] = found[:count]
                lows[n_sets + 1] = lows[n_sets] + count
                slots[slot] = n_sets + 1
                n_sets += 1
            if only >= 0:
                behind[only] = number
            if state >= 0:
                out_symbols[n_edges] = symbol
                out_targets[n_edges] = number
                n_edges += 1
        state += 1
        out_begins[state] = n_edges
        if state == n_sets:
            break
    finals = np.zeros(n_sets, np.bool_)
    for number in range(n_sets):
        for k in range(lows[number], lows[number + 1]):
            if pool[k] == final:
                finals[number] = True
    return (
        out_begins[: n_sets + 1].copy(), out_symbols[:n_edges].copy(), out_targets[:n_edges].copy(), finals, steps,
    )  # fmt: skip


@kernel("(int32[::1], int32[::1], int32[::1], boolean[::1])", python=True)
def group_alike(first, symbols, targets, finals):  # type: ignore[no-untyped-def]
    """Return a number for each state, the same for those that go on alike, in the order of their first members; and how
    many there are. `first`: where the edges of each state begin, in the order of their symbols."""
    size = finals.size
    slots_size = 64
    while slots_size < 2 * size:
        slots_size *= 2
    slots = np.zeros(slots_size, np.int32)
    mask = slots_size - 1
    blocks = np.zeros(size, np.int32)
    after = np.zeros(size, np.int32)
    members = np.zeros(size, np.int32)  # the first of each block
    count = 0
    by_symbol = True
    while True:
        slots[:] = 0
        found = 0
        for state in range(size):
            low, high = first[state], first[state + 1]
            digest = np.int64(blocks[state]) * 131 + np.int64(finals[state])
            for e in range(low, high):
                own = np.int64(symbols[e]) if by_symbol else np.int64(blocks[targets[e]])
                digest = (digest * 131 + own + 7) & 0x7FFFFFFF
            slot = (digest ^ (digest >> 15)) & mask
            block = -1
            while slots[slot] != 0:
                known = slots[slot] - 1
                other = members[known]
                low_other = first[other]
                same = (
                    finals[other] == finals[state]
                    and blocks[other] == blocks[state]
                    and first[other + 1] - low_other == high - low
                )
                if same:
                    for e in range(high - low):
                        if by_symbol:
                            same = symbols[low + e] == symbols[low_other + e]
                        else:
                            same = blocks[targets[low + e]] == blocks[targets[low_other + e]]
                        if not same:
                            break
                if same:
                    block = known
                    break
                slot = (slot + 1) & mask
            if block < 0:
                block = found
                members[found] = state
                found += 1
                slots[slot] = found
            after[state] = block
        blocks, after = after, blocks
        if found in (count, size):
            return blocks, found
        count = found
        by_symbol = False


@kernel(
    "(int32[:, ::1], int32[:, ::1], int64, int64, int64, int64, int64, int32[::1], int32[::1], int32[::1], int32[::1], "
    "boolean[::1], int64[::1])",
    python=True,
)
def add_network(  # type: ignore[no-untyped-def]
    edges, copies, size, start, final, most_states, most_steps, pool_begins, pool_first, pool_symbols, pool_targets,
    pool_finals, counts,
):  # fmt: skip
    """Add the smallest deterministic automaton of a sketch to the pool (see `NetworkPool`), and return its number, or
    `TOO_MANY` or `NO_ROOM`. `edges`, `copies`: see `Sketch`."""
    total = edges.shape[0]
    for c in range(copies.shape[0]):
        low, high = pool_begins[copies[c, 0]], pool_begins[copies[c, 0] + 1]
        total += pool_first[high] - pool_first[low] + high - low
    sources = np.empty(total, np.int32)
    symbols = np.empty(total, np.int32)
    targets = np.empty(total, np.int32)
    count = edges.shape[0]
    for e in range(count):
        sources[e] = edges[e, 0]
        symbols[e] = edges[e, 1]
        targets[e] = edges[e, 2]
    for c in range(copies.shape[0]):
        low = pool_begins[copies[c, 0]]
        for state in range(low, pool_begins[copies[c, 0] + 1]):
            at = copies[c, 1] + state - low
            for e in range(pool_first[state], pool_first[state + 1]):
                sources[count] = at
                symbols[count] = pool_symbols[e]
                targets[count] = copies[c, 1] + pool_targets[e]
                count += 1
            if pool_finals[state]:
                sources[count] = at
                symbols[count] = SKIP
                targets[count] = copies[c, 2]
                count += 1
    begins, out_symbols, out_targets, finals, steps = determinised(
        sources[:count], symbols[:count], targets[:count], size, start, final, most_states, most_steps
    )
    counts[N_STEPS] = steps
    if finals.size == 0:
        return TOO_MANY
    blocks, n_blocks = group_alike(begins, out_symbols, out_targets, finals)
    number = counts[N_NETWORKS]
    base = counts[N_STATES]
    n_edges = counts[N_EDGES]
    if number + 2 > pool_begins.size or base + n_blocks + 1 > pool_first.size or base + n_blocks > pool_finals.size:
        return NO_ROOM
    if n_edges + out_symbols.size > pool_symbols.size:
        return NO_ROOM
    made = 0
    for state in range(finals.size):
        if blocks[state] == made:  # the first of its block
            pool_first[base + made] = n_edges
            pool_finals[base + made] = finals[state]
            for e in range(begins[state], begins[state + 1]):
                pool_symbols[n_edges] = out_symbols[e]
                pool_targets[n_edges] = blocks[out_targets[e]]
                n_edges += 1
            made += 1
    pool_first[base + made] = n_edges
    pool_begins[number] = base
    pool_begins[number + 1] = base + made
    counts[N_NETWORKS] += 1
    counts[N_STATES] += made
    counts[N_EDGES] = n_edges
    return number
