"""Find the states of a trimmed automaton that accept the same words.

By the cheapest algorithm that fits: one bottom-up pass when no cycle is longer than a self-loop (Revuz, "Minimisation
of acyclic deterministic automata in linear time", 1992, extended to self-loops); refinement in rounds for small
automata (Moore, 1956); a compiled loop that splits by the smaller half for the rest, see `partition`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from sluicegate.grammar.automata.tables.partition import split_states
from sluicegate.grammar.budget.meter import WorkMeter

Row = dict[int, int]
_MOORE_LIMIT = 12  # states; above it the compiled loop wins


def equivalence_classes(rows: Sequence[Row], accepting: Sequence[bool], meter: WorkMeter) -> list[int]:
    """Return the block number of every state, dense from 0. Row keys must be in ascending order."""
    order = _bottom_up(rows)
    if order is not None:
        return _by_hashing(rows, accepting, order)
    if len(rows) <= _MOORE_LIMIT:
        return _moore(rows, accepting)
    return _by_splitting(rows, accepting, meter)


def _bottom_up(rows: Sequence[Row]) -> list[int] | None:
    """Order states behind their successors; None if there is a cycle of two states or more."""
    mark = bytearray(len(rows))  # 0 new, 1 open, 2 done
    order: list[int] = []
    for root in range(len(rows)):
        if mark[root]:
            continue
        mark[root] = 1
        stack = [(root, iter(rows[root].values()))]
        while stack:
            state, successors = stack[-1]
            for target in successors:
                if not mark[target]:
                    mark[target] = 1
                    stack.append((target, iter(rows[target].values())))
                    break
                if mark[target] == 1 and target != state:
                    return None
            else:
                mark[state] = 2
                order.append(state)
                stack.pop()
    return order


_SELF = -2
_Signature = tuple[bool, tuple[int, ...], tuple[int, ...]]  # accepts, classes, blocks they lead to


def _by_hashing(rows: Sequence[Row], accepting: Sequence[bool], order: list[int]) -> list[int]:
    block = [-1] * len(rows)
    signatures: list[_Signature] = []  # of a block, its self-loops spelled out
    known: dict[_Signature, int] = {}
    for state in order:
        row = rows[state]
        keys = tuple(row)
        targets = tuple([block[t] if t != state else _SELF for t in row.values()])
        signature = (accepting[state], keys, targets)
        found = known.get(signature)
        if found is None:
            found = _unrolled_twin(signature, signatures)
        if found is None:
            found = len(signatures)
            signatures.append((accepting[state], keys, _close(targets, found)))
        known[signature] = block[state] = found
    return block


def _unrolled_twin(signature: _Signature, signatures: list[_Signature]) -> int | None:
    """Find a block that this state unrolls by one step: `aa*` before `a*`."""
    accepts, keys, targets = signature
    for candidate in set(targets):
        if candidate != _SELF:
            other = signatures[candidate]
            if other[0] == accepts and other[1] == keys and other[2] == _close(targets, candidate):
                return candidate
    return None


def _close(targets: tuple[int, ...], own: int) -> tuple[int, ...]:
    return tuple([own if t == _SELF else t for t in targets]) if _SELF in targets else targets


def _moore(rows: Sequence[Row], accepting: Sequence[bool]) -> list[int]:
    names: dict[object, int] = {}
    block = [names.setdefault((accepts, tuple(row)), len(names)) for row, accepts in zip(rows, accepting, strict=True)]
    while True:
        count = len(names)
        names = {}
        block = [
            names.setdefault((block[state], *[block[t] for t in row.values()]), len(names))
            for state, row in enumerate(rows)
        ]
        if len(names) == count:
            return block


def _by_splitting(rows: Sequence[Row], accepting: Sequence[bool], meter: WorkMeter) -> list[int]:
    """Return for each state the number of its block, by the compiled loop."""
    labels = np.fromiter(chain.from_iterable(rows), np.int32)
    meter.edges(labels.size)
    tails = np.repeat(np.arange(len(rows), dtype=np.int32), [len(row) for row in rows])
    heads = np.fromiter(chain.from_iterable([row.values() for row in rows]), np.int32, labels.size)
    blocks = np.empty(len(rows), np.int32)
    split_states(tails, labels, heads, np.array(accepting, np.bool_), int(labels.max(initial=-1)) + 1, blocks)
    meter.clock()
    found: list[int] = blocks.tolist()
    return found
