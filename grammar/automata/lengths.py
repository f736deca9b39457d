"""Find the states of an automaton that can accept after a given number of characters.

The states that accept after exactly k characters follow from those for k - 1, so the sequence of these sets becomes
periodic, for most patterns after a few steps.
"""

from __future__ import annotations

import numpy as np

from sluicegate.grammar.automata.chardfa import CharDfa
from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.budget.remembered import remembered

_REMEMBERED = 10_000
_EDGES_A_CHARGE, _SORTED_A_CHARGE = 100, 20


class LengthSets:
    """The sets of states by length, as bit sets: bit q for state q. Mutable: extended on demand."""

    def __init__(self, dfa: CharDfa) -> None:
        tails, _, heads = dfa.table.transitions()
        self._size = size = len(dfa.table.rows)
        charge(tails.size / _SORTED_A_CHARGE)
        self._sources, self._targets = np.divmod(np.unique(tails * size + heads), size)
        first = sum(1 << state for state, accepts in enumerate(dfa.table.accepting) if accepts)
        self._exact = [first]
        self._seen = {first: 0}
        self._turn: int | None = None
        """Index at which the period begins; None if it is not found yet."""
        self._within: dict[tuple[int, int | None], int] = {}
        self.every = (1 << size) - 1

    def within(self, low: int, high: int | None) -> int:
        """Return the states that accept some text of `low` to `high` characters (None: any number from `low` on)."""
        key = (low, high)
        found = self._within.get(key)
        if found is None:
            if len(self._within) >= _REMEMBERED:
                self._within.clear()
            found = self._within[key] = self._union(low, high)
        return found

    def exactly(self, size: int) -> int:
        """Return the states that accept some text of `size` characters."""
        return self._exact[self._place(size)]

    def settled(self) -> int | None:
        """Return the length from which on the set is constant; None if the period is longer than one, or not reached
        yet."""
        last = len(self._exact) - 1
        return last if self._turn == last else None

    def shortest(self, state: int, low: int, high: int | None) -> int | None:
        """Return the length of the shortest text of `low` to `high` characters that `state` accepts; None: none."""
        if not self.within(low, high) >> state & 1:
            return None
        size = low
        while not self.exactly(size) >> state & 1:
            size += 1
        return size

    def _union(self, low: int, high: int | None) -> int:
        found = 0
        size = low
        while (high is None or size <= high) and found != self.every:
            tick()
            found |= self._exact[self._place(size)]
            size += 1
            if self._turn is not None and size - max(low, self._turn) > len(self._exact) - self._turn:
                break  # once around
        return found

    def _place(self, size: int) -> int:
        """Return the index of the states that accept after exactly `size` characters."""
        while self._turn is None and len(self._exact) <= size:
            after = self._step(self._exact[-1])
            if after in self._seen:
                self._turn = self._seen[after]
            else:
                self._seen[after] = len(self._exact)
                self._exact.append(after)
        if size < len(self._exact):
            return size
        assert self._turn is not None
        return self._turn + (size - self._turn) % (len(self._exact) - self._turn)

    def _step(self, states: int) -> int:
        """Return the states that lead to one of `states`."""
        charge(1 + len(self._sources) / _EDGES_A_CHARGE)
        packed = np.frombuffer(states.to_bytes((self._size + 7) // 8, "little"), np.uint8)
        flags = np.unpackbits(packed, count=self._size, bitorder="little").view(np.bool_)
        found = np.zeros(self._size, np.bool_)
        found[self._sources[flags[self._targets]]] = True
        return int.from_bytes(np.packbits(found, bitorder="little").tobytes(), "little")


@remembered(500)
def lengths_of(dfa: CharDfa) -> LengthSets:
    return LengthSets(dfa)
