"""Compute digests of the states' residual languages, so that work done for a state is shared by all automata.

Two states, of the same or of different automata, have equal digests exactly when they accept the same continuations (up
to collisions of 128-bit hashes). Digests are made bottom up over strongly connected components (Tarjan, 1972). Inside a
component, states are distinguished by refinement with ranks that depend on the language only (Moore, 1956, made
canonical).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from sluicegate.grammar.automata.byte_level.bytedfa import ByteDfa, Segments
from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.components import components

_OF_EDGE = 0.6
"""Charged for each edge that is hashed."""


def residual_digests(dfa: ByteDfa) -> list[bytes]:
    """Return a digest for every state of `dfa`, in time about linear in its edges."""
    return names_of(dfa.segments, dfa.accepting.tolist())


def names_of(rows: Sequence[Segments], accepting: Sequence[bool]) -> list[bytes]:
    """Do the same for a minimal automaton over any symbols, by rows of (first symbol, last one, target), in order."""
    charge(_OF_EDGE * sum(map(len, rows)))
    automaton = _Automaton(rows, accepting)
    digests: list[bytes] = [b""] * len(rows)
    for component in components([[target for _, _, target in row] for row in rows]):
        if len(component) == 1:
            state = component[0]
            digests[state] = _hash([_described(automaton, state, {state: 0}, digests)])
        else:
            _digest_component(automaton, component, digests)
    return digests


class _Automaton(NamedTuple):
    segments: Sequence[Segments]
    accepting: Sequence[bool]


def _described(dfa: _Automaton, state: int, inside: dict[int, int], digests: list[bytes]) -> object:
    """Describe a state: targets outside the component by digest, those inside by their number."""
    edges = [(low, high, inside[t] if t in inside else digests[t].hex()) for low, high, t in dfa.segments[state]]
    return bool(dfa.accepting[state]), edges


def _digest_component(dfa: _Automaton, component: list[int], digests: list[bytes]) -> None:
    """Walk the component breadth first from a state that depends on the language only, number it, and hash all of
    it."""
    inside = set(component)
    root = _singled_out(dfa, component, inside, digests)
    number = {root: 0}
    queue = [root]
    for state in queue:
        for _, _, target in dfa.segments[state]:
            if target in inside and target not in number:
                number[target] = len(queue)
                queue.append(target)
    whole = _hash([_described(dfa, state, number, digests) for state in queue]).hex()
    for state in component:
        digests[state] = _hash((whole, number[state]))


def _singled_out(dfa: _Automaton, component: list[int], inside: set[int], digests: list[bytes]) -> int:
    """Return the first state that refinement distinguishes from all others. The automaton is minimal, so there is one;
    mostly after a round or two."""
    alike = dict.fromkeys(component, -1)
    rank = _ranked({state: repr(_described(dfa, state, alike, digests)) for state in component})
    inner = {state: [t for _, _, t in dfa.segments[state] if t in inside] for state in component}
    while True:
        sizes = Counter(rank.values())
        alone = min((r for r, size in sizes.items() if size == 1), default=None)
        if alone is not None:
            return next(state for state in component if rank[state] == alone)
        rank = _ranked({state: (rank[state], *(rank[t] for t in inner[state])) for state in component})


def _ranked(signatures: dict) -> dict[int, int]:  # type: ignore[type-arg]
    position = {signature: index for index, signature in enumerate(sorted(set(signatures.values())))}
    return {state: position[signature] for state, signature in signatures.items()}


def _hash(described: object) -> bytes:
    return blake2b(repr(described).encode(), digest_size=16).digest()
