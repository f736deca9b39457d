"""Small automata over the symbols of a grammar: sketched with choices, made deterministic and minimal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.parsing.rewriting.joining import rules_of
from sluicegate.grammar.parsing.rewriting.subsets import (
    N_STATES,
    NO_ROOM,
    SKIP,
    TOO_MANY,
    add_network,
)
from sluicegate.grammar.parsing.rules import Code
from sluicegate.grammar.token_ids import I32

MOST_STATES = 400
_MOST_STEPS = 4_000_000
_STEPS_A_CHARGE = 200


class TooManyStates(Exception):
    """The automaton would be larger than is worth it."""


class Network(NamedTuple):
    """An automaton of `NetworkPool`, by number."""

    number: int
    size: int


class NetworkPool:
    """All automata that were made, in flat tables. Network n has the states `begins[n]` to `begins[n + 1]`; texts begin
    in the first of them. `first` int32[S + 1]: where the edges of each state begin, in the order of their symbols;
    `symbols`, `targets` int32[E], targets within the network; `finals` bool[S]: a text may end."""

    def __init__(self) -> None:
        self._begins = np.zeros(1 << 8, np.int32)
        self._first = np.empty(1 << 12, np.int32)
        self._symbols = np.empty(1 << 14, np.int32)
        self._targets = np.empty(1 << 14, np.int32)
        self._finals = np.empty(1 << 12, np.bool_)
        self._counts = np.zeros(4, np.int64)

    def add(self, sketch: NondeterministicNetwork, start: int, final: int) -> Network:
        """Add the smallest deterministic automaton of the texts from one state of a sketch to another.

        Raises `TooManyStates`."""
        tick()
        edges = np.array(sketch.edges, np.int32).reshape(-1, 3)  # flat lists: tuples take twice as long to read
        copies = np.array(sketch.copies, np.int32).reshape(-1, 3)
        before = int(self._counts[N_STATES])
        while True:
            number = int(add_network(
                edges, copies, sketch.size, start, final, MOST_STATES, _MOST_STEPS, self._begins, self._first,
                self._symbols, self._targets, self._finals, self._counts,
            ))  # fmt: skip
            _, states, _, steps = self._counts.tolist()
            charge(steps / _STEPS_A_CHARGE)
            if number == TOO_MANY:
                raise TooManyStates
            if number != NO_ROOM:
                return Network(number, states - before)
            for name in ("_begins", "_first", "_symbols", "_targets", "_finals"):
                table = getattr(self, name)
                setattr(self, name, np.concatenate([table, np.empty_like(table)]))

    def calls(self, network: Network) -> list[Code]:
        """Return the names that texts of a network hold."""
        low, high = self._begins[network.number : network.number + 2].tolist()
        symbols = self._symbols[self._first[low] : self._first[high]]
        return sorted(set(symbols[symbols < 0].tolist()))

    def rules_of(
        self, networks: list[tuple[int, Code]], bare: list[Code], numbers: I32, names: int
    ) -> tuple[I32, I32, I32, I32]:
        """Write networks, given by number and code, as rules: see `joining.rules_of`."""
        tick()
        found: tuple[I32, I32, I32, I32] = rules_of(
            np.array(networks, np.int32).reshape(-1, 2), np.array(bare, np.int32), numbers, names, self._begins,
            self._first, self._symbols, self._targets, self._finals,
        )  # fmt: skip
        return found


class NondeterministicNetwork:
    """An automaton in which a symbol, or none, leads to several states.

    `edges`: source, symbol or `SKIP`, target, in a row; `copies`: number of a network, the first state of its copy, the
    state behind it; `loops`: the state behind what repeats, by the state before it and its name; `size`: how many
    states there are."""

    def __init__(self) -> None:
        self.size = 0
        self.edges: list[int] = []
        self.copies: list[int] = []
        self.loops: dict[tuple[int, Code], int] = {}
        self._steps: dict[int, int] = {}
        self._copied: dict[int, int] = {}

    def state(self) -> int:
        self.size += 1
        return self.size - 1

    def behind(self, source: int, symbol: Code) -> int:
        """Return the state behind `symbol`; the same one each time, so that ways which begin alike are one up to where
        they part."""
        key = (source << 32) + symbol
        found = self._steps.get(key)
        if found is None:
            found = self._steps[key] = self.size
            self.size += 1
            self.edges += (source, symbol, found)
        return found

    def behind_copy(self, source: int, symbol: Code, network: Network) -> int:
        """Return the state behind a copy of the network of `symbol`; the same one each time."""
        key = (source << 32) + symbol
        found = self._copied.get(key)
        if found is None:
            found = self._copied[key] = self.size
            self.copies += (network.number, found + 1, found)
            self.edges += (source, SKIP, found + 1)
            self.size += 1 + network.size
        return found

    def skip(self, source: int, target: int) -> None:
        if source != target:
            self.edges += (source, SKIP, target)
