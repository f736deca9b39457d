"""The compiled loop that writes networks as rules, states that go on alike being one."""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.parsing.rewriting.subsets import group_alike
from sluicegate.plugins.compiled.kernels import kernel


@kernel(
    "(int32[::1], int32[::1], int32[::1], int32[::1], int64, int32[::1], int32[::1], int32[::1], int32[::1], "
    "boolean[::1])",
    python=True,
)
def rules_of(  # type: ignore[no-untyped-def]
    called, network_of, codes, numbers, names, begins, first, symbols, targets, finals
):  # fmt: skip
    """Return the codes of the names that have a network, in the order of these, and of the others; and of the networks,
    as rules, the network of each state, the name of each rule, where the symbols of each rule begin, and the symbols of
    all in a row: `s: a t` for an edge, `s: a` where nothing is read behind it, and `s:` where a text may end.

    `called`: names, by their places in `codes`; `network_of`: by name, negative = none: such names come last;
    `numbers`: of terminals, by code (a name n has the code ~n), those of names are written to it; `names`: the first
    number of a name. The others: see `NetworkPool`.
    """
    by_number = np.zeros(begins.size, np.int32)  # codes of names are negative
    bare = np.empty(called.size, np.int32)
    n_bare = 0
    for k in range(called.size):
        if network_of[called[k]] < 0:
            bare[n_bare] = codes[called[k]]
            n_bare += 1
        else:
            by_number[network_of[called[k]]] = codes[called[k]]
    networks = np.empty((called.size - n_bare, 2), np.int32)
    size = 0
    n_edges = 0
    n = 0
    for number in range(begins.size):
        if by_number[number] < 0:
            networks[n, 0] = number
            networks[n, 1] = by_number[number]
            n += 1
            low, high = begins[number], begins[number + 1]
            size += high - low
            n_edges += first[high] - first[low]
    own_first = np.empty(size + 1, np.int32)
    own_symbols = np.empty(n_edges, np.int32)
    own_targets = np.empty(n_edges, np.int32)
    own_finals = np.empty(size, np.bool_)
    owners = np.empty(size, np.int32)
    at = 0
    e = 0
    for n in range(networks.shape[0]):
        base = at
        for state in range(begins[networks[n, 0]], begins[networks[n, 0] + 1]):
            own_first[at] = e
            own_finals[at] = finals[state]
            owners[at] = n
            for edge in range(first[state], first[state + 1]):
                own_symbols[e] = symbols[edge]
                own_targets[e] = base + targets[edge]
                e += 1
            at += 1
    own_first[size] = n_edges
    blocks, count = group_alike(own_first, own_symbols, own_targets, own_finals)
    at = 0
    for n in range(networks.shape[0]):
        numbers[~networks[n, 1]] = names + blocks[at]
        at += begins[networks[n, 0] + 1] - begins[networks[n, 0]]
    for n in range(n_bare):
        numbers[~bare[n]] = names + count + n
    members = np.empty(count, np.int32)  # the first of each block: blocks are numbered in their order
    owned = np.empty(count, np.int32)
    made = 0
    n_rules = 0
    for state in range(size):
        if blocks[state] == made:
            members[made] = state
            owned[made] = owners[state]
            n_rules += own_first[state + 1] - own_first[state] + (1 if own_finals[state] else 0)
            made += 1
    origins = np.empty(n_rules, np.int32)
    rule_first = np.empty(n_rules + 1, np.int32)
    row = np.empty(2 * n_edges, np.int32)
    rule_first[0] = 0
    rule = 0
    top = 0
    for block in range(count):
        state = members[block]
        for edge in range(own_first[state], own_first[state + 1]):
            code = own_symbols[edge]
            row[top] = numbers[code if code >= 0 else ~code]
            top += 1
            target = own_targets[edge]
            if own_first[target + 1] > own_first[target]:
                row[top] = names + blocks[target]
                top += 1
            origins[rule] = names + block
            rule += 1
            rule_first[rule] = top
    for block in range(count):
        if own_finals[members[block]]:
            origins[rule] = names + block
            rule += 1
            rule_first[rule] = top
    return networks[:, 1].copy(), bare[:n_bare].copy(), owned, origins, rule_first, row[:top].copy()
