"""Compiled loops over numbered rules and lexemes: which names may be empty, how many bytes each takes at least, which
terminals may follow which, and which read the same twice in a row as once."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel

_MOST_STATES = 50
"""Most states of a lexeme, and pairs of its states, that `closed_of` examines."""
BITS = 60
"""Terminals per word of a bitset: fewer than 63, so that a word is never negative."""


@kernel("(int64, int32[::1], int32[::1], int32[::1])", python=True)
def nullable_of(size, origins, first, symbols):  # type: ignore[no-untyped-def]
    """Return bool[size]: whether a symbol derives the empty text. The symbols of rule r are `symbols[first[r] :
    first[r + 1]]`."""
    found = np.zeros(size, np.bool_)
    begins = np.zeros(size + 1, np.int64)
    for k in range(symbols.size):
        begins[symbols[k] + 1] += 1
    for i in range(size):
        begins[i + 1] += begins[i]
    at = begins.copy()
    users = np.empty(symbols.size, np.int32)
    missing = np.empty(origins.size, np.int32)
    pending = np.empty(size, np.int32)
    top = 0
    for rule in range(origins.size):
        missing[rule] = first[rule + 1] - first[rule]
        for k in range(first[rule], first[rule + 1]):
            users[at[symbols[k]]] = rule
            at[symbols[k]] += 1
        if missing[rule] == 0 and not found[origins[rule]]:
            found[origins[rule]] = True
            pending[top] = origins[rule]
            top += 1
    while top:
        top -= 1
        symbol = pending[top]
        for k in range(begins[symbol], begins[symbol + 1]):
            rule = users[k]
            missing[rule] -= 1
            if missing[rule] == 0 and not found[origins[rule]]:
                found[origins[rule]] = True
                pending[top] = origins[rule]
                top += 1
    return found


@kernel(python=True)
def _raised(heap, top, costs, rule):  # type: ignore[no-untyped-def]
    """Put a rule into a heap of `top` rules; return how many there are."""
    place = top + 1
    while place > 1 and costs[heap[place >> 1]] > costs[rule]:
        heap[place] = heap[place >> 1]
        place >>= 1
    heap[place] = rule
    return top + 1


@kernel(python=True)
def _lowered(heap, top, costs):  # type: ignore[no-untyped-def]
    """Take the first rule from a heap of `top` rules; return how many are left."""
    moved = heap[top]
    place = 1
    while 2 * place < top:
        below = 2 * place
        if below + 1 < top and costs[heap[below + 1]] < costs[heap[below]]:
            below += 1
        if costs[heap[below]] >= costs[moved]:
            break
        heap[place] = heap[below]
        place = below
    heap[place] = moved
    return top - 1


@kernel("(int64[::1], int32[::1], int32[::1], int32[::1])", python=True)
def least_sizes(sizes, origins, first, symbols):  # type: ignore[no-untyped-def]
    """Lower `sizes` int64[N], bytes by symbol, to the least that each takes; a size no smaller than `sizes.max()` means
    that it cannot be finished. On entry: those of terminals, the others at that maximum.

    The cheapest are settled first, once all symbols of a rule are known (Knuth, 1977).
    """
    never = sizes.max()
    count = origins.size
    begins = np.zeros(sizes.size + 1, np.int64)
    for k in range(symbols.size):
        begins[symbols[k] + 1] += 1
    for i in range(sizes.size):
        begins[i + 1] += begins[i]
    at = begins.copy()
    users = np.empty(symbols.size, np.int32)
    missing = np.zeros(count, np.int32)
    costs = np.zeros(count, np.int64)
    heap = np.empty(count + 1, np.int32)  # rules by cost, from place 1 on
    top = 0
    for rule in range(count):
        for k in range(first[rule], first[rule + 1]):
            users[at[symbols[k]]] = rule
            at[symbols[k]] += 1
            if sizes[symbols[k]] < never:
                costs[rule] += sizes[symbols[k]]
            else:
                missing[rule] += 1
        if missing[rule] == 0:
            top = _raised(heap, top, costs, rule)
    while top:
        rule = heap[1]
        top = _lowered(heap, top, costs)
        symbol = origins[rule]
        if sizes[symbol] < never or costs[rule] >= never:
            continue
        sizes[symbol] = costs[rule]
        for k in range(begins[symbol], begins[symbol + 1]):
            user = users[k]
            costs[user] = min(costs[user] + sizes[symbol], never)
            missing[user] -= 1
            if missing[user] == 0:
                top = _raised(heap, top, costs, user)


@kernel(python=True)
def spread(found, sources, targets):  # type: ignore[no-untyped-def]
    """Add the bits of each source to those of its target until nothing changes."""
    size = found.shape[0]
    begins = np.zeros(size + 1, np.int64)
    for k in range(sources.size):
        begins[sources[k] + 1] += 1
    for i in range(size):
        begins[i + 1] += begins[i]
    at = begins.copy()
    order = np.empty(sources.size, np.int32)
    for k in range(sources.size):
        order[at[sources[k]]] = targets[k]
        at[sources[k]] += 1
    waits = np.ones(size, np.bool_)
    pending = np.empty(size, np.int32)
    top = 0
    for symbol in range(size):
        pending[top] = size - 1 - symbol
        top += 1
    while top:
        top -= 1
        symbol = pending[top]
        waits[symbol] = False
        for k in range(begins[symbol], begins[symbol + 1]):
            target = order[k]
            grown = False
            for word in range(found.shape[1]):
                both = found[target, word] | found[symbol, word]
                grown |= both != found[target, word]
                found[target, word] = both
            if grown and not waits[target]:
                waits[target] = True
                pending[top] = target
                top += 1


@kernel("(int64, boolean[::1], int32[::1], int32[::1], int32[::1], int64)", python=True)
def followers_of(terminals, nullable, origins, first, symbols, start):  # type: ignore[no-untyped-def]
    """Return int64[N, W]: for each symbol the terminals that may follow it, as bits; that of the last terminal for the
    end of a text."""
    size = nullable.size
    words = (terminals + BITS - 1) // BITS
    firsts = np.zeros((size, words), np.int64)
    found = np.zeros((size, words), np.int64)
    for terminal in range(terminals):
        firsts[terminal, terminal // BITS] = np.int64(1) << np.int64(terminal % BITS)
    sources = np.empty(symbols.size, np.int32)
    targets = np.empty(symbols.size, np.int32)
    count = 0
    for rule in range(origins.size):
        for k in range(first[rule], first[rule + 1]):
            sources[count] = symbols[k]
            targets[count] = origins[rule]
            count += 1
            if not nullable[symbols[k]]:
                break
    spread(firsts, sources[:count], targets[:count])
    last = terminals - 1
    found[start, last // BITS] = np.int64(1) << np.int64(last % BITS)
    behind = np.zeros(words, np.int64)
    count = 0
    for rule in range(origins.size):
        behind[:] = 0
        open_end = True
        for k in range(first[rule + 1] - 1, first[rule] - 1, -1):
            symbol = symbols[k]
            found[symbol] |= behind
            if open_end:
                sources[count] = origins[rule]
                targets[count] = symbol
                count += 1
            if nullable[symbol]:
                behind |= firsts[symbol]
            else:
                behind[:] = firsts[symbol]
                open_end = False
    spread(found, sources[:count], targets[:count])
    return found


@kernel("(int32[:, ::1], boolean[::1], int32[::1], int32[::1])", python=True)
def closed_of(table, accepting, starts, offsets):  # type: ignore[no-untyped-def]
    """Return bool[T]: whether two texts of a terminal in a row are surely one as well, since whatever it can read at
    its beginning it can read wherever it may end. `starts`: the first state of its lexeme, -1 = it is none; its states
    are `offsets[t]` to `offsets[t + 1]`."""
    found = np.zeros(starts.size, np.bool_)
    seen = np.zeros((_MOST_STATES, _MOST_STATES), np.bool_)
    pending = np.empty((_MOST_STATES * _MOST_STATES, 2), np.int32)
    for terminal in range(starts.size):
        low = offsets[terminal]
        size = offsets[terminal + 1] - low
        if starts[terminal] < 0 or size > _MOST_STATES:
            continue
        seen[:] = False
        top = 0
        closed = True
        for state in range(low, low + size):
            if accepting[state]:
                closed &= table[state].max() >= 0  # else it ends there for good
                pending[top, 0] = starts[terminal]
                pending[top, 1] = state
                seen[starts[terminal] - low, state - low] = True
                top += 1
        count = top
        closed &= top > 0
        while top > 0 and closed:
            top -= 1
            one = pending[top, 0]
            other = pending[top, 1]
            closed &= accepting[other] or not accepting[one]
            for byte_class in range(table.shape[1]):
                after = table[one, byte_class]
                beside = table[other, byte_class]
                if after < 0 or after == beside or not closed:
                    continue
                if beside < 0:
                    closed = False
                elif not seen[after - low, beside - low]:
                    closed = count <= _MOST_STATES
                    seen[after - low, beside - low] = True
                    pending[top, 0] = after
                    pending[top, 1] = beside
                    top += 1
                    count += 1
        found[terminal] = closed
    return found
