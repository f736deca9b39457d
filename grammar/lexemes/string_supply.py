"""Count the strings of a set that begin alike, as far as it takes to see that there are more than were given."""

from __future__ import annotations

from dataclasses import replace

from sluicegate.grammar.automata.lengths import lengths_of
from sluicegate.grammar.automata.tables.words import class_sizes, has_more
from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.given.texts import KnownCounts, beginning_with
from sluicegate.grammar.schema.strings import Strings, StringSet, is_empty

_CHARACTERS = 0x110000 - 0x800


class StringSupply:
    """The strings of one `part`, without what is given. Remembers answers."""

    def __init__(self, part: Strings) -> None:
        self.part = part.reduced
        self._words = None if self.part.words is None else sorted(self.part.words)
        self._sizes = None if self.part.dfa is None else class_sizes(self.part.dfa.table)
        self._known = KnownCounts()

    def has(self, text: str) -> bool:
        return self.part.has(text)

    def used_up(self, text: str, given: list[str]) -> list[str]:
        state, low, high = 0, 0, len(given)
        charge(len(text))
        for size in range(len(text) + 1):
            begun = text[:size]
            low, high = beginning_with(given, begun, low, high)
            if not self._has_more(begun, state, high - low):
                return [begun]
            if self.part.dfa is not None and size < len(text):
                state = self.part.dfa.step(state, text[size])
        return []

    def has_more(self, count: int) -> bool:
        """Return whether there are more than `count` strings."""
        return self._has_more("", 0, count)

    def _has_more(self, begun: str, state: int, count: int) -> bool:
        """Return whether more than `count` strings begin with `begun`, behind which the automaton is in `state`."""
        part = self.part
        if self._words is not None:
            low, high = beginning_with(self._words, begun)
            return high - low > count
        if part.dfa is None:
            room = 2 if part.high is None else part.high - len(begun)
            return room > 1 or (_CHARACTERS if room else 1) > count
        size = len(begun) if part.low or part.high is not None else 0
        return self._known.more((state, size), count, lambda most: self._look(state, size, most))

    def _look(self, state: int, size: int, count: int) -> bool:
        dfa, low, high = self.part.dfa, max(self.part.low - size, 0), self.part.high
        assert dfa is not None
        assert self._sizes is not None
        lengths, most = lengths_of(dfa), None if high is None else high - size

        def alive(k: int) -> int:
            if most is None and low <= k:
                return lengths.every
            return lengths.within(max(low - k, 0), None if most is None else most - k)

        return has_more(dfa.table, self._sizes, state, (low, most), count, alive)


@remembered(500)
def supply_of(part: Strings) -> StringSupply:
    """Return the supply of `part`, which has nothing given."""
    return StringSupply(part)


def has_strings(parts: StringSet) -> bool:
    """Return whether some string is in `parts`, and was not given."""
    if not any(part.given is not None for part in parts):
        return not is_empty(parts)
    return any(_has_new(part) for part in parts)


def have_more(parts: StringSet, count: int) -> bool:
    """Return whether one of `parts`, of which nothing was given, has more than `count` strings."""
    return any(supply_of(part).has_more(count) for part in parts)


def _has_new(part: Strings) -> bool:
    supply = supply_of(replace(part, given=None))
    return supply.has_more(0) and (part.given is None or part.given.lists(supply).dead[:1] != [""])
