"""Compiled loops over numbered rules and lexemes: which names may be empty, how many bytes each takes at least, which
terminals may follow which, and which read the same twice in a row as once."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel

_MOST_COMPARED = 50
"""Most pairs of states of a lexeme that `closed_of` compares. Texts of any characters have hundreds of states, and one
or two pairs."""
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
    """Return bool[T, T]: for each terminal the terminals that may follow it, the last one for the end of a text."""
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
    flags = np.zeros((terminals, terminals), np.bool_)
    for terminal in range(terminals):
        for word in range(words):
            bits = found[terminal, word]
            place = word * BITS
            while bits:
                if bits & 1:
                    flags[terminal, place] = True
                bits >>= 1
                place += 1
    return flags


@kernel("(int32[:, ::1], boolean[::1], int32[::1], int32[::1])", python=True)
def closed_of(table, accepting, starts, offsets):  # type: ignore[no-untyped-def]
    """Return bool[T]: whether two texts of a terminal in a row are surely one as well, since whatever it can read at
    its beginning it can read wherever it may end. `starts`: the first state of its lexeme, -1 = it is none; its states
    are `offsets[t]` to `offsets[t + 1]`."""
    found = np.zeros(starts.size, np.bool_)
    pairs = np.empty((_MOST_COMPARED, 2), np.int32)
    for terminal in range(starts.size):
        if starts[terminal] < 0:
            continue
        count = 0
        closed = True
        for state in range(offsets[terminal], offsets[terminal + 1]):
            if accepting[state] and closed:
                closed = count < _MOST_COMPARED and table[state].max() >= 0  # else it ends there for good
                if closed:
                    pairs[count, 0] = starts[terminal]
                    pairs[count, 1] = state
                    count += 1
        closed &= count > 0
        at = 0
        while at < count and closed:
            one = pairs[at, 0]
            other = pairs[at, 1]
            at += 1
            closed &= accepting[other] or not accepting[one]
            for byte_class in range(table.shape[1]):
                after = table[one, byte_class]
                beside = table[other, byte_class]
                if after < 0 or after == beside or not closed:
                    continue
                if beside < 0:
                    closed = False
                    continue
                known = 0
                while known < count and (pairs[known, 0] != after or pairs[known, 1] != beside):
                    known += 1
                if known == count:
                    closed = count < _MOST_COMPARED
                    if closed:
                        pairs[count, 0] = after
                        pairs[count, 1] = beside
                        count += 1
        found[terminal] = closed
    return found


@kernel(python=True)
def _wanted_of(followers, starts, table, classes, ignored, outside, hole, wanted_end):  # type: ignore[no-untyped-def]
    """Return bool[T, 256]: the bytes that may come behind each terminal, see `facts_of`."""
    count = starts.size
    firsts = np.zeros((count, table.shape[1]), np.bool_)
    for terminal in range(count):
        if starts[terminal] >= 0:
            for byte_class in range(table.shape[1]):
                firsts[terminal, byte_class] = table[starts[terminal], byte_class] >= 0
    is_ignored = np.zeros(count, np.bool_)
    for k in range(ignored.size):
        is_ignored[ignored[k]] = True
    found = np.zeros((count, 256), np.bool_)
    behind = np.zeros(table.shape[1], np.bool_)
    for terminal in range(count):
        behind[:] = False
        every = is_ignored[terminal]
        for other in range(count):
            if every or is_ignored[other] or followers[terminal, other]:
                for byte_class in range(table.shape[1]):
                    behind[byte_class] |= firsts[other, byte_class]
        leaves = every or followers[terminal, hole]
        for k in range(outside.size):
            leaves |= followers[terminal, outside[k]]
        for byte in range(256):
            found[terminal, byte] = behind[classes[byte]] or (leaves and wanted_end[byte])
    return found


@kernel(
    "(boolean[:, ::1], int32[::1], int32[::1], int32[:, ::1], boolean[::1], uint8[::1], int32[::1], int32[::1], int64, "
    "boolean[::1])",
    python=True,
)
def facts_of(  # type: ignore[no-untyped-def]
    followers, starts, offsets, table, accepting, classes, ignored, outside, hole, wanted_end
):  # fmt: skip
    """Return what loops over pieces ask of terminals: int32[S], the terminal of each state; bool[T, 256]: the bytes
    that may come behind each; int64[C, W], as bits: those that begin with a byte of each class; int64[W]: those that
    are `ignored`; bool[T]: see `closed_of`.

    `followers`: see `followers_of`; `starts`: the first state of each lexeme, -1 = it is none; its states are
    `offsets[t]` to `offsets[t + 1]`; `outside`: terminals that are read by something else, which, like what follows
    the text (`hole`), can begin with the bytes of `wanted_end` bool[256].
    """
    count = starts.size
    words = (count + BITS - 1) // BITS
    owners = np.zeros(table.shape[0], np.int32)
    class_bits = np.zeros((table.shape[1], words), np.int64)
    ignored_bits = np.zeros(words, np.int64)
    for terminal in range(count):
        bit = np.int64(1) << np.int64(terminal % BITS)
        for state in range(offsets[terminal], offsets[terminal + 1]):
            owners[state] = terminal
        if starts[terminal] >= 0:
            for byte_class in range(table.shape[1]):
                if table[starts[terminal], byte_class] >= 0:
                    class_bits[byte_class, terminal // BITS] |= bit
    for k in range(ignored.size):
        ignored_bits[ignored[k] // BITS] |= np.int64(1) << np.int64(ignored[k] % BITS)
    wanted = _wanted_of(followers, starts, table, classes, ignored, outside, hole, wanted_end)
    return owners, wanted, class_bits, ignored_bits, closed_of(table, accepting, starts, offsets)
