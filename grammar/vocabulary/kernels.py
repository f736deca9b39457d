"""The compiled loops of a mask. Each has an obvious twin in tests/reference; wrappers elsewhere check arguments."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel


@kernel(
    "(uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[:, ::1], "
    "boolean[::1], int64, boolean[::1], int32[::1], int32[::1])",
    python=True,
)
def walk_general(  # type: ignore[no-untyped-def]
    byte, depth, skip, first, exact, ids, transitions, accepting, start, wanted, inside, exits
):
    """Walk as `pruning.walk` does, for a lexeme that anything may follow: it may end wherever it accepts, also where it
    can go on.

    Exits are the nodes, but for those of depth 1, before which the lexeme accepts and whose byte is `wanted`
    (bool[256]). Returns how many exits and inside tokens there are, and how many nodes were looked at.
    """
    stack = np.empty(1024, np.int32)
    stack[0] = start
    n_exits = 0
    n_inside = 0
    seen = 0
    i = 0
    while i < byte.size:
        seen += 1
        d = depth[i]
        state = stack[d - 1]
        if d > 1 and accepting[state] and wanted[byte[i]]:
            exits[n_exits] = i
            n_exits += 1
        after = transitions[state, byte[i]]
        if after < 0:
            i = skip[i]
            continue
        stack[d] = after
        for k in range(first[i], first[i] + exact[i]):
            inside[n_inside] = ids[k]
            n_inside += 1
        i += 1
    return n_exits, n_inside, seen


@kernel(
    "(uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[:, ::1], int64, "
    "int64, int64, int32[::1])",
    python=True,
)
def walk_lengths(  # type: ignore[no-untyped-def]
    byte, depth, skip, first, exact, ids, transitions, start, rest, final, chars
):
    """Count the characters that each token adds to a string whose automaton rests in state `rest` between characters.

    `chars` int32[V]: how many the string grows by, a begun character counted in full; -1 where the token is refused.
    Tokens that reach `final`, the closing quote, count what stands before it. From a `start` inside a character, that
    character is counted as well.
    """
    states = np.empty(1024, np.int32)
    whole = np.empty(1024, np.int32)
    states[0] = start
    whole[0] = 0
    n = byte.size
    i = 0
    while i < n:
        d = depth[i]
        after = transitions[states[d - 1], byte[i]]
        if after < 0:
            i = skip[i]
            continue
        if after == final:
            for k in range(first[i], first[skip[i]]):
                chars[ids[k]] = whole[d - 1]
            i = skip[i]
            continue
        states[d] = after
        whole[d] = whole[d - 1] + (1 if after == rest else 0)
        for k in range(first[i], first[i] + exact[i]):
            chars[ids[k]] = whole[d] if after == rest else whole[d] + 1
        i += 1


@kernel(
    "(uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[:, ::1], "
    "int32[:, ::1], int64, int64, int64, int64, boolean[:, ::1], int32[::1])",
    python=True,
)
def walk_counted(  # type: ignore[no-untyped-def]
    byte, depth, skip, first, exact, ids, transitions, chars, start, begun, rest, final, alive, inside
):
    """Write to `inside` the tokens that stay inside a string of bounded length; returns how many.

    `chars`, `begun`, `rest`: the automaton of all strings, its state, and the one between characters; `final`: the
    state of `transitions` after the closing quote. `alive` bool[S, n]: the string can still be finished in this state
    after n more characters; counts beyond the table are those of its last column.
    """
    states = np.empty(1024, np.int32)
    spelled = np.empty(1024, np.int32)
    whole = np.empty(1024, np.int32)
    states[0] = start
    spelled[0] = begun
    whole[0] = 0
    most = alive.shape[1] - 1
    n_inside = 0
    i = 0
    while i < byte.size:
        d = depth[i]
        after = transitions[states[d - 1], byte[i]]
        if after < 0 or after == final:
            i = skip[i]
            continue
        size = whole[d - 1]
        spelled[d] = chars[spelled[d - 1], byte[i]]
        if spelled[d] == rest:
            size = min(size + 1, most)
        if not alive[after, size]:
            i = skip[i]
            continue
        states[d] = after
        whole[d] = size
        for k in range(first[i], first[i] + exact[i]):
            inside[n_inside] = ids[k]
            n_inside += 1
        i += 1
    return n_inside


@kernel("(int32[:, ::1], int64, int32[:, ::1], int64, int32[::1], int32[::1])", python=True)
def pairs_reached(table, state, text, start, mine, at):  # type: ignore[no-untyped-def]
    """Find the pairs of a state of `table` and one of `text` that are reached from (`state`, `start`) by what `text`
    can read.

    They are written to `mine` and `at`; returns how many, or 0 if `table` refuses a byte that `text` takes, or if they
    do not fit.
    """
    seen = np.zeros((table.shape[0], text.shape[0]), np.bool_)
    seen[state, start] = True
    mine[0] = state
    at[0] = start
    count = 1
    k = 0
    while k < count:
        for byte in range(256):
            after = text[at[k], byte]
            if after < 0:
                continue
            target = table[mine[k], byte]
            if target < 0:
                return 0
            if not seen[target, after]:
                if count == mine.size:
                    return 0
                seen[target, after] = True
                mine[count] = target
                at[count] = after
                count += 1
        k += 1
    return count


@kernel(
    "(uint8[::1], int32[::1], int32[::1], int64, int32[:, ::1], boolean[::1], int64, boolean[::1], boolean[::1])",
    python=True,
)
def walk_punctuation(byte, depth, skip, root, transitions, accepting, start, inside, ends):  # type: ignore[no-untyped-def]
    """Follow a lexeme down a small trie from below its node `root`, reached in state `start`.

    Sets `inside` (bool per node) where the lexeme can go on, and `ends` where it may end.
    """
    stack = np.empty(1024, np.int32)
    top = depth[root]
    stack[0] = start
    i = root + 1
    while i < skip[root]:
        d = depth[i] - top
        after = transitions[stack[d - 1], byte[i]]
        if after < 0:
            i = skip[i]
            continue
        ends[i] = accepting[after]
        for k in range(256):
            if transitions[after, k] >= 0:
                inside[i] = True
                break
        stack[d] = after
        i += 1


@kernel("(int32[::1], int32[::1])", python=True)
def set_bits(row, ids):  # type: ignore[no-untyped-def]
    """Do `for t in ids: row[t // 32] |= 1 << (t % 32)`."""
    for k in range(ids.size):
        token = ids[k]
        row[token >> 5] |= np.int32(1) << np.int32(token & 31)


@kernel("(int32[::1], int32[::1], int32[::1])", python=True)
def set_bits_except(row, ids, others):  # type: ignore[no-untyped-def]
    """Do `set_bits` for those of `ids` that are not in `others`."""
    were_set = np.empty(others.size, np.bool_)
    for j in range(others.size):
        were_set[j] = row[others[j] >> 5] >> np.int32(others[j] & 31) & 1
    for k in range(ids.size):
        token = ids[k]
        row[token >> 5] |= np.int32(1) << np.int32(token & 31)
    for j in range(others.size):
        if not were_set[j]:
            row[others[j] >> 5] &= ~(np.int32(1) << np.int32(others[j] & 31))


@kernel(python=True)
def last_alike(data, starts, ends, word, high, at, size):  # type: ignore[no-untyped-def]
    """Return the last of the words `word` to `high` of a sorted list that has the same `size` bytes from its byte `at`
    on as `word`, all of them being alike before."""
    low = word
    step = 1
    while high - low > 1:
        middle = min(low + step, high - 1) if step else (low + high) // 2
        begin = starts[middle] + at
        alike = ends[middle] - begin >= size
        k = 0
        while alike and k < size:
            alike = data[begin + k] == data[starts[word] + at + k]
            k += 1
        if alike:
            low = middle
            step *= 2
        else:
            high = middle
            step = 0
    return low


@kernel(
    "(uint8[::1], int32[::1], int32[::1], uint8[::1], int64[::1], int64[::1], int64, int64, int64, "
    "int32[::1], int32[:, ::1])",
    python=True,
)
def follow_words(  # type: ignore[no-untyped-def]
    byte, skip, roots, data, starts, ends, low, high, at, nodes, whole
):
    """Follow words `low` to `high` of a sorted list, from their byte `at` on, down the vocabulary.

    `roots` int32[256]: node of depth 1 by byte, or -1. Writes to `nodes` every node that spells a proper beginning of
    a word, and to `whole` pairs (word, node) for words that are in the trie as a whole. Returns both counts.
    """
    path = np.empty(1024, np.int32)
    reached = 0
    n_nodes = 0
    n_whole = 0
    w = low - 1
    while w + 1 < high:
        w += 1
        begin = starts[w] + at
        size = ends[w] - begin
        common = 0
        if w > low:
            before = starts[w - 1] + at
            limit = min(reached, min(size, ends[w - 1] - before))
            while common < limit and data[begin + common] == data[before + common]:
                common += 1
        reached = common
        while reached < size:
            wanted = data[begin + reached]
            if reached == 0:
                node = roots[wanted]
            else:
                parent = path[reached - 1]
                node = parent + 1
                end = skip[parent]
                while node < end and byte[node] < wanted:
                    node = skip[node]
                if node >= end or byte[node] != wanted:
                    node = -1
            if node < 0:
                w = last_alike(data, starts, ends, w, high, at, reached + 1)  # those part from the vocabulary there too
                break
            path[reached] = node
            reached += 1
            if reached < size:
                nodes[n_nodes] = node
                n_nodes += 1
            else:
                whole[n_whole, 0] = w
                whole[n_whole, 1] = node
                n_whole += 1
    return n_nodes, n_whole


@kernel("(int32[::1], int32[::1], int32[::1], int32[::1], int64, int32[::1])", python=True)
def ids_at(first, exact, ids, nodes, count, out):  # type: ignore[no-untyped-def]
    """Write the tokens spelled exactly by the first `count` of `nodes` to `out`; return how many they are."""
    n = 0
    for k in range(count):
        node = nodes[k]
        for j in range(first[node], first[node] + exact[node]):
            out[n] = ids[j]
            n += 1
    return n


@kernel(
    "(Array(uint8, 1, 'C', True), uint8[::1], int32[::1], int32[::1], int32[::1], int32[::1], int32[::1], "
    "boolean[::1], int32[::1])",
    python=True,
)
def longest_tokens(text, byte, skip, roots, first, exact, ids, avoided, out):  # type: ignore[no-untyped-def]
    """Write the tokens that spell `text` to `out`, each as long as may be and none that is `avoided`; return how many
    they are, -1 where a byte has no token. `roots` as in `follow_words`."""
    n = 0
    at = 0
    while at < text.size:
        best = -1
        behind = at
        node = -1
        i = at
        while i < text.size:
            wanted = text[i]
            if i == at:
                node = roots[wanted]
            else:
                below = node + 1
                end = skip[node]
                while below < end and byte[below] < wanted:
                    below = skip[below]
                node = below if below < end and byte[below] == wanted else -1
            if node < 0:
                break
            i += 1
            if exact[node] and not avoided[ids[first[node]]]:
                best = ids[first[node]]
                behind = i
        if best < 0:
            return -1
        out[n] = best
        n += 1
        at = behind
    return n


@kernel("(Array(uint8, 1, 'C', True), int32[::1], int32[::1], int32[::1])", python=True)
def taken(bits, numbers, tokens, out):  # type: ignore[no-untyped-def]
    """Write to `out` each `tokens[k]` whose `numbers[k]` is set in `bits` (bytes, lowest bit first); returns how
    many."""
    n = 0
    for k in range(numbers.size):
        if bits[numbers[k] >> 3] >> np.uint8(numbers[k] & 7) & 1:
            out[n] = tokens[k]
            n += 1
    return n


@kernel("(int32[::1], int32[::1], int32[::1])", python=True)
def put_row(row, base, ids):  # type: ignore[no-untyped-def]
    """Do `row[:] = base`, and then `set_bits(row, ids)`."""
    for k in range(row.size):
        row[k] = base[k]
    for k in range(ids.size):
        token = ids[k]
        row[token >> 5] |= np.int32(1) << np.int32(token & 31)


@kernel("(int32[::1], int32[::1])", python=True)
def clear_bits(row, ids):  # type: ignore[no-untyped-def]
    """Clear the bits of `ids`: the opposite of `set_bits`."""
    for k in range(ids.size):
        row[ids[k] >> 5] &= ~(np.int32(1) << np.int32(ids[k] & 31))


def warm() -> None:
    """Load or compile every kernel (seconds the first time on a machine, milliseconds from numba's cache)."""
    i32 = np.zeros(2, np.int32)
    table, flags = np.full((1, 256), -1, np.int32), np.zeros(1, np.bool_)
    byte, empty = np.zeros(0, np.uint8), np.zeros(0, np.int32)
    walk_general(byte, empty, empty, i32, empty, empty, table, flags, 0, np.zeros(256, np.bool_), i32, i32)
    walk_lengths(byte, empty, empty, i32, empty, empty, table, 0, 0, -1, i32)
    walk_punctuation(np.zeros(1, np.uint8), i32, i32, 0, table, flags, 0, flags, flags)
    alive = np.ones((1, 1), np.bool_)
    walk_counted(byte, empty, empty, i32, empty, empty, table, table, 0, 0, 0, -1, alive, i32)
    pairs_reached(table, 0, table, 0, i32, i32)
    set_bits(i32, empty)
    set_bits_except(i32, empty, empty)
    starts = np.zeros(0, np.int64)
    follow_words(byte, empty, i32, byte, starts, starts, 0, 0, 0, i32, np.zeros((1, 2), np.int32))
    ids_at(i32, i32, empty, i32, 0, i32)
    bits = np.frombuffer(b"\0", np.uint8)
    longest_tokens(bits, np.zeros(1, np.uint8), i32, np.zeros(256, np.int32), i32, i32, i32, flags, i32)
    taken(bits, i32, i32, i32)
    put_row(i32, i32, empty)
    clear_bits(i32, empty)
