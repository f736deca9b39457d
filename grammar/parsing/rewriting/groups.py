"""The compiled loop that groups names which lead to each other, rules in flat arrays."""

from __future__ import annotations

import numpy as np

from sluicegate.plugins.compiled.kernels import kernel


@kernel("(int32[::1], int32[::1])", python=True)
def components_of(first, edges):  # type: ignore[no-untyped-def]
    """Return the strongly connected components of a graph in a row, each after those it leads to, and where each
    begins: the same as `grammar.components`. Node i leads to `edges[first[i] : first[i + 1]]`."""
    size = first.size - 1
    index = np.full(size, -1, np.int32)
    low = np.zeros(size, np.int32)
    waits = np.zeros(size, np.bool_)
    stack = np.empty(size, np.int32)
    path = np.empty(size, np.int32)
    at = first[:-1].copy()
    order = np.empty(size, np.int32)
    begins = np.empty(size + 1, np.int32)
    count = 0
    top = 0
    done = 0
    groups = 0
    for root in range(size):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            node = path[depth]
            if index[node] < 0:
                index[node] = count
                low[node] = count
                count += 1
                stack[top] = node
                top += 1
                waits[node] = True
            deeper = False
            while at[node] < first[node + 1]:
                target = edges[at[node]]
                at[node] += 1
                if index[target] < 0:
                    depth += 1
                    path[depth] = target
                    deeper = True
                    break
                if waits[target] and index[target] < low[node]:
                    low[node] = index[target]
            if deeper:
                continue
            depth -= 1
            if depth >= 0 and low[node] < low[path[depth]]:
                low[path[depth]] = low[node]
            if low[node] == index[node]:
                begins[groups] = done
                groups += 1
                while True:
                    top -= 1
                    order[done] = stack[top]
                    waits[stack[top]] = False
                    done += 1
                    if stack[top] == node:
                        break
    begins[groups] = done
    return order, begins[: groups + 1].copy()


@kernel(python=True)
def edges_between(members, kinds, kind, local, way_first, row_first, symbols, places, edges_only):  # type: ignore[no-untyped-def]
    """Return which of `members` lead to which, by their places in it, as `components_of` takes it. `edges_only`: only
    by what their rules begin or end with. `local`: room for one number a name."""
    for number in range(members.size):
        local[members[number]] = number
    first = np.zeros(members.size + 1, np.int32)
    room = 0
    for number in range(members.size):
        room += row_first[way_first[members[number] + 1]] - row_first[way_first[members[number]]]
    edges = np.empty(room, np.int32)
    count = 0
    for number in range(members.size):
        name = members[number]
        for row in range(way_first[name], way_first[name + 1]):
            low, high = row_first[row], row_first[row + 1]
            step = max(high - low - 1, 1) if edges_only else 1
            for at in range(low, high, step):
                if symbols[at] < 0:
                    other = places[~symbols[at]]
                    if kinds[other] == kind:
                        edges[count] = local[other]
                        count += 1
        first[number + 1] = count
    return first, edges[:count].copy()


@kernel("(int32[::1], int32[::1], int32[::1], int32[::1])", python=True)
def groups_of(way_first, row_first, symbols, places):  # type: ignore[no-untyped-def]
    """Return the names of all rules in a row, each group of them after those it leads to, and where each begins; and
    of each name its kind, its group and its place in that. Names of one kind lead to each other; those of one group are
    of one kind, and begin or end with each other.

    Name n has the rules `way_first[n]` to `way_first[n + 1]`, rule r the symbols `row_first[r]` to `row_first[r + 1]`;
    `places`: the name with the code ~c (see `SymbolCodes`), by c.
    """
    size = way_first.size - 1
    kinds = np.zeros(size, np.int32)
    groups = np.zeros(size, np.int32)
    inside = np.zeros(size, np.int32)
    local = np.zeros(size, np.int32)
    first, edges = edges_between(
        np.arange(size).astype(np.int32), kinds, 0, local, way_first, row_first, symbols, places, False
    )
    order, begins = components_of(first, edges)
    for kind in range(begins.size - 1):
        for k in range(begins[kind], begins[kind + 1]):
            kinds[order[k]] = kind
    found = np.empty(size, np.int32)
    found_begins = np.empty(size + 1, np.int32)
    count = 0
    for kind in range(begins.size - 1):
        low, high = begins[kind], begins[kind + 1]
        if high - low == 1:
            found[low] = order[low]
            groups[order[low]] = count
            found_begins[count] = low
            count += 1
            continue
        members = order[low:high].copy()
        first, edges = edges_between(members, kinds, kind, local, way_first, row_first, symbols, places, True)
        inner, inner_begins = components_of(first, edges)
        for group in range(inner_begins.size - 1):
            found_begins[count] = low + inner_begins[group]
            for k in range(inner_begins[group], inner_begins[group + 1]):
                found[low + k] = members[inner[k]]
                groups[members[inner[k]]] = count
                inside[members[inner[k]]] = k - inner_begins[group]
            count += 1
    found_begins[count] = size
    return found, found_begins[: count + 1].copy(), kinds, groups, inside
