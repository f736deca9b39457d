"""The compiled walk of an automaton that is made on the way down the vocabulary's trie."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel


@kernel(
    "(uint8[::1], int32[:, ::1], int32[::1], int32[:, ::1], uint8[::1], int64[::1], boolean[::1], boolean[::1], "
    "int32[::1], int32[::1], int32[::1], int32[::1], int32[:, ::1], int32[:, ::1], int64)",
    python=True,
)
def walk_known(  # type: ignore[no-untyped-def]
    letters, nodes, ids, table, classes, loops, leaving, wanted, entries, states, row, few, unknown, left, most
):
    """Follow `entries` down the trie as far as `table` knows the way.

    `letters`, `nodes`, `ids`: see `pruning.describe`. `entries`: a node above which the automaton is in the state of
    `states`, or, where negative, ~node, at which it is. `table`, `loops`, `leaving`: see `Configurations`; `classes`:
    by byte. Sets the bits of tokens in `row`, and writes the first of them to `few`; to `unknown` entries
    (node, state) for which a step is not known; to `left` the pairs (node, state) where the state is `leaving` and a
    `wanted` byte (bool[256]) comes next, but for those below which all tokens are read anyway.

    Returns how many tokens, unknown and left pairs there are, and the nodes seen; a number that is past the room means
    that some are missing. Ends past `most` nodes.
    """
    at = np.empty(1024, np.int32)
    to = np.empty(1024, np.int32)
    on = np.empty(1024, np.int32)
    n_tokens = 0
    n_unknown = 0
    n_left = 0
    seen = 0
    for e in range(entries.size):
        d = 0
        on[0] = states[e]
        if entries[e] < 0:
            i = ~entries[e]
            if leaving[on[0]]:
                for k in range(nodes[i, 0], nodes[i, 1]):
                    if wanted[letters[k]]:
                        if n_left < left.shape[0]:
                            left[n_left, 0] = i
                            left[n_left, 1] = on[0]
                        n_left += 1
                        break
            at[0] = nodes[i, 0]
            to[0] = nodes[i, 1]
        else:
            at[0] = entries[e]
            to[0] = entries[e] + 1
        while d >= 0:
            i = at[d]
            if i == to[d]:
                d -= 1
                continue
            at[d] = i + 1
            seen += 1
            state = on[d]
            after = table[state, classes[letters[i]]]
            if after == -1:
                continue
            if after < 0:
                if n_unknown < unknown.shape[0]:
                    unknown[n_unknown, 0] = i
                    unknown[n_unknown, 1] = state
                n_unknown += 1
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
            if leaving[after]:
                for k in range(below, end):
                    if wanted[letters[k]]:
                        if n_left < left.shape[0]:
                            left[n_left, 0] = i
                            left[n_left, 1] = after
                        n_left += 1
                        break
            d += 1
            at[d] = below
            to[d] = end
            on[d] = after
        if seen > most:
            break
    return n_tokens, n_unknown, n_left, seen
