"""Compute the distances of an automaton's states from acceptance, in bytes."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel


@kernel("(int32[:, ::1], boolean[::1])", python=True)
def distances_of(table, accepting):  # type: ignore[no-untyped-def]
    """Return int64[S]: bytes from each state to the nearest accepting one; -1 where none can be reached.

    Breadth first from the accepting states, along edges turned around: `sources[starts[s]:starts[s + 1]]` lead to s.
    Bytes side by side that lead to one state are one edge.
    """
    size, bytes_ = table.shape
    starts = np.zeros(size + 1, np.int64)
    for state in range(size):
        last = -1
        for byte in range(bytes_):
            after = table[state, byte]
            if after >= 0 and after != last:
                starts[after + 1] += 1
            last = after
    for state in range(size):
        starts[state + 1] += starts[state]
    sources = np.empty(starts[size], np.int32)
    places = starts[:size].copy()
    for state in range(size):
        last = -1
        for byte in range(bytes_):
            after = table[state, byte]
            if after >= 0 and after != last:
                sources[places[after]] = state
                places[after] += 1
            last = after
    found = np.full(size, -1, np.int64)
    reached = np.empty(size, np.int32)
    count = 0
    for state in range(size):
        if accepting[state]:
            found[state] = 0
            reached[count] = state
            count += 1
    at = 0
    while at < count:
        after = reached[at]
        at += 1
        for k in range(starts[after], starts[after + 1]):
            state = sources[k]
            if found[state] < 0:
                found[state] = found[after] + 1
                reached[count] = state
                count += 1
    return found
