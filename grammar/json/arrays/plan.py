"""What an array may hold: its items by index, and which of them count for `contains`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.schema.containers import Conjunction, Contains, conjunction, negated


@dataclass(frozen=True, eq=False)
class ArrayPlan:
    """One alternative of an array. `prefix[i]` for the first items, `rest` for all after them (None: there are none).

    `members`: where items must be unique and are few constants, these constants as (is it a string, text); items are
    then taken out of what is left.
    """

    prefix: tuple[Conjunction, ...]
    rest: Conjunction | None
    low: int
    high: int | None
    unique: bool
    contains: tuple[Contains, ...]
    check: Guard | None
    members: tuple[tuple[bool, str], ...] | None = None
    tight: bool = False
    """Items must be unique, and some value, once given, cannot be begun again and become another: it is excluded."""
    fixed: bool = False
    """Among those values are strings."""
    listed: bool = False
    """Items have few values, arrays or objects among them, which are excluded like others."""
    paired: int | None = None
    """Where some two items must be equal: the last index of one that a later one may repeat, see `duplicates`."""

    def at(self, index: int) -> Conjunction | None:
        return self.prefix[index] if index < len(self.prefix) else self.rest

    @property
    def horizon(self) -> int:
        """Indexes from here on are all alike."""
        starts = [wanted.start for wanted in self.contains]
        return max(len(self.prefix), self.low, 0 if self.high is None else self.high, *starts)


Hits = tuple[int, ...]
"""Items counted so far, by each `contains`."""
_MOST = 20_000
"""Situations looked at for a way to the end; an array that has more is taken to have one."""


class Counting:
    """Which items may count for which `contains`, and from where all counts can still be met. Remembers its answers."""

    def __init__(self, plan: ArrayPlan, satisfiable: Callable[[Conjunction], bool]) -> None:
        self.plan = plan
        self.satisfiable = satisfiable
        self._ways: dict[Any, list[tuple[Hits, Conjunction]]] = {}
        self._ends: dict[tuple[int, Hits], bool] = {}

    def moves(self, index: int, hits: Hits) -> list[tuple[Hits, Conjunction, Hits]]:
        """Ways to count the item at `index`, after which the array can be finished: (which count it, what it then
        satisfies, the new counts)."""
        return [move for move in self._moves(index, hits) if self.can_end(index + 1, move[2])]

    def can_end(self, index: int, hits: Hits) -> bool:
        """Return whether the counts `hits` after `index` items can still be met."""
        first = (min(index, self.plan.horizon), hits)
        if first not in self._ends:
            seen, stack = {first}, [first]
            while stack and len(seen) < _MOST and not self._is_end(*stack[-1]):
                at, counted = stack.pop()
                for _, _, after in self._moves(at, counted):
                    situation = (min(at + 1, self.plan.horizon), after)
                    if situation not in seen and self._ends.get(situation, True):
                        seen.add(situation)
                        stack.append(situation)
            if not stack:
                self._ends.update(dict.fromkeys(seen, False))
            self._ends[first] = bool(stack)
        return self._ends[first]

    def _is_end(self, index: int, hits: Hits) -> bool:
        if self._ends.get((index, hits)):
            return True
        plan = self.plan
        return index >= plan.low and all(hit >= wanted.low for hit, wanted in zip(hits, plan.contains, strict=True))

    def _moves(self, index: int, hits: Hits) -> list[tuple[Hits, Conjunction, Hits]]:
        plan = self.plan
        terms = plan.at(index)
        if terms is None or (plan.high is not None and index >= plan.high):
            return []
        found = []
        for hit, facts in self._ways_of(index, terms):
            after = [before + counted for before, counted in zip(hits, hit, strict=True)]
            for k, wanted in enumerate(plan.contains):
                if wanted.high is None:  # enough is enough
                    if hit[k] and after[k] > wanted.low:
                        break
                elif after[k] > wanted.high:
                    break
            else:
                found.append((hit, facts, tuple(after)))
        return found

    def _ways_of(self, index: int, terms: Conjunction) -> list[tuple[Hits, Conjunction]]:
        started = tuple(index >= wanted.start for wanted in self.plan.contains)
        key = (terms, started)
        if key not in self._ways:
            ways: list[tuple[Hits, Conjunction]] = [((), terms)]
            for wanted, counts in zip(self.plan.contains, started, strict=True):
                longer = []
                for hit, facts in ways:
                    other = conjunction((*facts, negated(wanted.term))) if counts and wanted.high is not None else facts
                    longer.append(((*hit, 0), other))
                    if counts:
                        longer.append(((*hit, 1), conjunction((*facts, wanted.term))))
                ways = [way for way in longer if self.satisfiable(way[1])]
            self._ways[key] = ways
        return self._ways[key]
