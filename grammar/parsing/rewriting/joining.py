"""The compiled loop that writes networks as rules, states that go on alike being one."""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.parsing.rewriting.subsets import group_alike
from sluicegate.plugins.compiled.kernels import kernel


@kernel(python=True)
def told_apart(called, network_of, codes, n_networks):  # type: ignore[no-untyped-def]
    """Return the networks of the names that have one, in order, as rows (network, code of its name), and the codes of
    the other names."""
    by_number = np.zeros(n_networks, np.int32)  # codes of names are negative
    bare = np.empty(called.size, np.int32)
    n_bare = 0
    for k in range(called.size):
        if network_of[called[k]] < 0:
            bare[n_bare] = codes[called[k]]
            n_bare += 1
        else:
            by_number[network_of[called[k]]] = codes[called[k]]
    networks = np.empty((called.size - n_bare, 2), np.int32)
    n = 0
    for number in range(n_networks):
        if by_number[number] < 0:
            networks[n, 0] = number
            networks[n, 1] = by_number[number]
            n += 1
    return networks, bare[:n_bare].copy()


@kernel(python=True)
def in_a_row(networks, begins, first, symbols, targets, finals):  # type: ignore[no-untyped-def]
    """Return the networks of the pool as one automaton: where the edges of each state begin, their symbols and targets,
    and which states are final; and the row of `networks` that each state belongs to."""
    size = 0
    n_edges = 0
    for n in range(networks.shape[0]):
        low, high = begins[networks[n, 0]], begins[networks[n, 0] + 1]
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
    return own_first, own_symbols, own_targets, own_finals, owners


@kernel(python=True)
def first_members(blocks, count):  # type: ignore[no-untyped-def]
    """Return the first state of each block; blocks are numbered in the order of these."""
    members = np.empty(count, np.int32)
    found = 0
    for state in range(blocks.size):
        if blocks[state] == found:
            members[found] = state
            found += 1
    return members


@kernel(python=True)
def written(members, blocks, first, symbols, targets, finals, numbers, names):  # type: ignore[no-untyped-def]
    """Return the rules of an automaton whose states `members` are left, one for each block: see `rules_of`."""
    n_rules = 0
    for block in range(members.size):
        state = members[block]
        n_rules += first[state + 1] - first[state] + (1 if finals[state] else 0)
    origins = np.empty(n_rules, np.int32)
    rule_first = np.empty(n_rules + 1, np.int32)
    row = np.empty(2 * symbols.size, np.int32)
    rule_first[0] = 0
    rule = 0
    top = 0
    for block in range(members.size):
        state = members[block]
        for edge in range(first[state], first[state + 1]):
            code = symbols[edge]
            row[top] = numbers[code if code >= 0 else ~code]
            top += 1
            target = targets[edge]
            if first[target + 1] > first[target]:
                row[top] = names + blocks[target]
                top += 1
            origins[rule] = names + block
            rule += 1
            rule_first[rule] = top
    for block in range(members.size):
        if finals[members[block]]:
            origins[rule] = names + block
            rule += 1
            rule_first[rule] = top
    return origins, rule_first, row[:top].copy()


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
    networks, bare = told_apart(called, network_of, codes, begins.size)
    own_first, own_symbols, own_targets, own_finals, owners = in_a_row(
        networks, begins, first, symbols, targets, finals
    )
    blocks, count = group_alike(own_first, own_symbols, own_targets, own_finals)
    at = 0
    for n in range(networks.shape[0]):
        numbers[~networks[n, 1]] = names + blocks[at]
        at += begins[networks[n, 0] + 1] - begins[networks[n, 0]]
    for n in range(bare.size):
        numbers[~bare[n]] = names + count + n
    members = first_members(blocks, count)
    origins, rule_first, row = written(members, blocks, own_first, own_symbols, own_targets, own_finals, numbers, names)
    return networks[:, 1].copy(), bare, owners[members], origins, rule_first, row
