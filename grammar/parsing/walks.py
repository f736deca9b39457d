"""The compiled loops that make pieces: what one lexeme reads of a vocabulary from a set of places inside tokens on.

Keys of hash tables are 1 + what they stand for, 0 = empty; collisions go to the next slot.
"""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel

N_NODES, N_PLACES, N_PIECES, N_IDS, N_ROWS, N_INDEXED, N_VISITED = range(7)
"""Indices of `counts` int64[7]: used sizes of the pool of nodes, the sets of places, the pieces, the pool of tokens,
the bitmasks and the pool of indexes; and the work, in visited nodes."""
SPARSE = 1_500
"""A larger set of tokens is kept as a bitmask."""
_INDEXED = 200
"""Larger sets of places have an index by the byte that comes next."""
_SPANS_A_NODE, _PLACES_A_NODE = 2, 4
"""Spans that are begun, and places that are found and sorted, in the time of visiting a node."""
INDEX = 258
"""Most numbers of an index besides its nodes."""


@kernel("(int64[::1], int64)", python=True)
def slot_of(keys, key):  # type: ignore[no-untyped-def]
    """Return the slot of `key`, or the empty one where it belongs."""
    mask = keys.size - 1
    slot = (key ^ (key >> 13) ^ (key >> 29)) & mask
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@kernel("(int64[::1], int32[::1], int64[::1], int32[::1])", python=True)
def moved(keys, values, new_keys, new_values):  # type: ignore[no-untyped-def]
    """Put all entries into larger tables."""
    for old in range(keys.size):
        if keys[old] != 0:
            slot = slot_of(new_keys, keys[old])
            new_keys[slot] = keys[old]
            new_values[slot] = values[old]


@kernel(
    "(int32[::1], int64, uint8[::1], int32[:, ::1], uint8[::1], int64[:, ::1], int32[::1], int64[:, ::1], "
    "int64[:, ::1], int64[::1], int64[::1], int32[::1])",
    python=True,
)
def settle(found, size, letters, nodes, classes, class_bits, pool, places, bits, slots, counts, begun):  # type: ignore[no-untyped-def]
    """Return the number of the set of places `found[:size]`, which are distinct; -1 where there is no room for it.

    `pool` int32: the nodes of all sets; `places` int64[P, 4]: from, to, digest, where in `indexed`, 0 = nowhere yet;
    `bits` int64[P, W]: terminals that can begin with a byte that comes next; `slots` int64: number + 1 by digest;
    `begun` int32[256]: by byte class, the last set that was seen to begin with it, + 1.
    """
    digest = np.int64(size)
    for k in range(size):
        digest = (digest * 131 + np.int64(found[k]) + 1) & 0x7FFFFFFF
    mask = slots.size - 1
    slot = (digest ^ (digest >> 15)) & mask
    while slots[slot] != 0:
        known = slots[slot] - 1
        low = places[known, 0]
        if places[known, 2] == digest and places[known, 1] - low == size:
            same = True
            for k in range(size):
                if pool[low + k] != found[k]:
                    same = False
                    break
            if same:
                return known
        slot = (slot + 1) & mask
    number = counts[N_PLACES]
    low = counts[N_NODES]
    if number >= places.shape[0] or 2 * number >= slots.size or low + size > pool.size:
        return -1
    seen = 0
    for word in range(bits.shape[1]):
        bits[number, word] = 0
    for k in range(size):
        pool[low + k] = found[k]
        for child in range(nodes[found[k], 0], nodes[found[k], 1]):
            byte_class = classes[letters[child]]
            if begun[byte_class] != number + 1:
                begun[byte_class] = number + 1
                seen += 1
                for word in range(bits.shape[1]):
                    bits[number, word] |= class_bits[byte_class, word]
        if seen == class_bits.shape[0]:
            for j in range(k + 1, size):
                pool[low + j] = found[j]
            break
    places[number, 0] = low
    places[number, 1] = low + size
    places[number, 2] = digest
    places[number, 3] = 0
    slots[slot] = number + 1
    counts[N_PLACES] += 1
    counts[N_NODES] += size
    return number


@kernel(python=True)
def index_of(at, letters, nodes, pool, places, indexed, counts):  # type: ignore[no-untyped-def]
    """Return where in `indexed` the index of the places `at` is, -1: no room.

    257 numbers say where in `indexed` the nodes below with each byte are, from and to.
    """
    if places[at, 3]:
        return places[at, 3]
    base = counts[N_INDEXED] + 1
    by_letter = np.zeros(257, np.int32)
    for e in range(places[at, 0], places[at, 1]):
        for child in range(nodes[pool[e], 0], nodes[pool[e], 1]):
            by_letter[letters[child] + 1] += 1
    at_next = base + 257
    for letter in range(257):
        at_next += by_letter[letter]
        by_letter[letter] = at_next
    if at_next > indexed.size:
        return -1
    indexed[base : base + 257] = by_letter
    for e in range(places[at, 0], places[at, 1]):
        for child in range(nodes[pool[e], 0], nodes[pool[e], 1]):
            letter = letters[child]
            indexed[by_letter[letter]] = child
            by_letter[letter] += 1
    counts[N_INDEXED] = at_next
    counts[N_VISITED] += (at_next - base) // _SPANS_A_NODE
    places[at, 3] = base
    return base


@kernel(python=True)
def openings(at, start, table, classes, letters, nodes, pool, places, indexed, counts, spans):  # type: ignore[no-untyped-def]
    """Write to `spans` ranges of nodes below the places `at` that `start` may read; return how many, -1: no room."""
    count = 0
    if places[at, 1] - places[at, 0] < _INDEXED:
        for e in range(places[at, 0], places[at, 1]):
            spans[count, 0] = nodes[pool[e], 0]
            spans[count, 1] = nodes[pool[e], 1]
            count += 1
        return count
    base = index_of(at, letters, nodes, pool, places, indexed, counts)
    if base < 0:
        return -1
    for letter in range(256):
        if table[start, classes[letter]] >= 0:
            for k in range(indexed[base + letter], indexed[base + letter + 1]):
                spans[count, 0] = indexed[k]
                spans[count, 1] = indexed[k] + 1
                count += 1
    return count


@kernel(python=True)
def may_end(node, below, end, letters, wanted, left, n_left):  # type: ignore[no-untyped-def]
    """Add `node` to `left` if one of its children, `below` to `end`, begins with a wanted byte. Return how many places
    are left."""
    for k in range(below, end):
        if wanted[letters[k]]:
            left[n_left] = node
            return n_left + 1
    return n_left


@kernel(python=True)
def read_below(  # type: ignore[no-untyped-def]
    spans, n_spans, start, most, n_left, letters, nodes, ids, table, classes, loops, accepting, wanted, left, few, row,
    path,
):  # fmt: skip
    """Read what a lexeme in state `start` reads of the nodes in the spans, and below them.

    Add the tokens to `row`, and to `few` as long as they fit; and to `left`, where `n_left` are already, the places
    where the lexeme may end. Return how many tokens and places there are, and how many nodes were seen, where it stops
    when these are more than `most` or the places have no more room. For the others see `piece_of`.
    """
    where = path[0]
    to = path[1]
    on = path[2]
    left_before = path[3]  # by depth: how many places were left before the node
    reads_all = path[4]  # 1: of the node's children, as far as they were seen, all are read
    n_tokens = 0
    seen = 0
    for e in range(n_spans):
        d = 0
        on[0] = start
        where[0] = spans[e, 0]
        to[0] = spans[e, 1]
        left_before[0] = n_left
        reads_all[0] = 0
        while d >= 0:
            i = where[d]
            if i == to[d]:
                if reads_all[d] == 1:
                    n_left = left_before[d]
                elif d > 0:
                    reads_all[d - 1] = 0
                d -= 1
                continue
            where[d] = i + 1
            seen += 1
            after = table[on[d], classes[letters[i]]]
            if after < 0:
                reads_all[d] = 0
                continue
            below = nodes[i, 0]
            end = nodes[i, 1]
            whole = below < end and not nodes[i, 5] & ~loops[after]
            for k in range(nodes[i, 2], nodes[i, 4] if whole else nodes[i, 3]):
                token = ids[k]
                row[token >> 5] |= np.int32(1) << np.int32(token & 31)
                if n_tokens < few.size:
                    few[n_tokens] = token
                n_tokens += 1
            if below == end or whole:
                continue
            left_before[d + 1] = n_left
            reads_all[d + 1] = 1
            if accepting[after]:
                n_left = may_end(i, below, end, letters, wanted, left, n_left)
            d += 1
            where[d] = below
            to[d] = end
            on[d] = after
        if seen > most or n_left + nodes.shape[0] > left.size // 2:
            break
    return n_tokens, n_left, seen


@kernel(python=True)
def distinct(numbers, size):  # type: ignore[no-untyped-def]
    """Sort the first `size` numbers and drop those that come again; return how many are left."""
    numbers[:size].sort()
    kept = 0
    for k in range(size):
        if k == 0 or numbers[k] != numbers[k - 1]:
            numbers[kept] = numbers[k]
            kept += 1
    return kept


@kernel(python=True)
def piece_of(  # type: ignore[no-untyped-def]
    at, start, most, letters, nodes, ids, table, classes, loops, accepting, wanted, class_bits,
    pool, places, bits, slots, keys, values, pieces, id_pool, rows, counts, indexed, left, few, begun, path,
):  # fmt: skip
    """Return the number of the piece that a lexeme in state `start` reads from the places `at` on; -1: no room.

    `letters`, `nodes`, `ids`: see `pruning.describe`; `table`, `classes`, `loops`, `accepting`: see `LexemeTable`;
    `wanted` bool[256]: bytes that may come behind the lexeme. `pieces` int32[Q, 5]: tokens from, to; row of `rows`,
    -1 = none, -2: the lexeme sees more than `most` nodes; number of the places where it may end; the last part that has
    it. Places below which the lexeme itself reads all tokens are left out: nothing that begins there adds any. `path`
    int32[5, 1024]: room for the way down.
    """
    key = np.int64(at) * table.shape[0] + start + 1
    slot = slot_of(keys, key)
    if keys[slot] == key:
        return values[slot]
    number = counts[N_PIECES]
    if number >= pieces.shape[0] or 2 * number >= keys.size or counts[N_IDS] + SPARSE > id_pool.size:
        return -1
    if counts[N_ROWS] >= rows.shape[0]:
        return -1
    row = rows[counts[N_ROWS]]
    spans = left[left.size // 2 :].reshape(-1, 2)
    n_spans = openings(at, start, table, classes, letters, nodes, pool, places, indexed, counts, spans)
    if n_spans < 0:
        return -1
    n_left = 0
    if accepting[start]:
        for e in range(places[at, 0], places[at, 1]):
            node = pool[e]
            n_left = may_end(node, nodes[node, 0], nodes[node, 1], letters, wanted, left, n_left)
    n_tokens, n_left, seen = read_below(
        spans, n_spans, start, most, n_left, letters, nodes, ids, table, classes, loops, accepting, wanted, left, few,
        row, path,
    )  # fmt: skip
    counts[N_VISITED] += seen + n_spans // _SPANS_A_NODE + n_left // _PLACES_A_NODE
    too_many = seen > most or n_left + nodes.shape[0] > left.size // 2
    behind = 0
    if not too_many:
        if n_spans > 1:
            n_left = distinct(left, n_left)
        behind = settle(left, n_left, letters, nodes, classes, class_bits, pool, places, bits, slots, counts, begun)
    dense = n_tokens > SPARSE and not too_many and behind >= 0
    if not dense:
        if n_tokens > few.size:
            row[:] = 0
        else:
            for k in range(n_tokens):
                row[few[k] >> 5] = 0
    if behind < 0:
        return -1
    first = counts[N_IDS]
    pieces[number, 0] = first
    if n_tokens <= SPARSE and not too_many:
        id_pool[first : first + n_tokens] = few[:n_tokens]
        counts[N_IDS] += n_tokens
    pieces[number, 1] = counts[N_IDS]
    pieces[number, 2] = -2 if too_many else counts[N_ROWS] if dense else -1
    pieces[number, 3] = behind
    pieces[number, 4] = -1
    counts[N_ROWS] += dense
    counts[N_PIECES] += 1
    keys[slot] = key
    values[slot] = number
    return number
