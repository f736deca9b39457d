"""The plan of an array: the terms of its items by index, and how items count for `contains`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.json.few_values import FewValue
from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.schema.containers import Conjunction, Contains, conjunction, negated
from sluicegate.plugins.errors import GrammarLimit


class Listed(NamedTuple):
    """The values of items that have few, and bit sets over these: `places[i]` for the first items, `rest` for all after
    them, `counted[k]` those that count for the k-th `contains`."""

    values: tuple[FewValue, ...]
    places: tuple[int, ...]
    rest: int
    counted: tuple[int, ...]


class ArrayPlan:
    """One alternative of an array. `prefix[i]`: terms of the first items; `rest`: of all others (None: there are none).
    Immutable.

    `members`: if items must be unique and are among few constants, these constants as (is a string, text); each can be
    used once.
    """

    def __init__(
        self,
        prefix: tuple[Conjunction, ...],
        rest: Conjunction | None,
        low: int,
        high: int | None,
        unique: bool,
        contains: tuple[Contains, ...],
        check: Guard | None,
        members: tuple[tuple[bool, str], ...] | None = None,
        tight: bool = False,
        fixed: bool = False,
        few_containers: bool = False,
        listed: Listed | None = None,
        paired: int | None = None,
    ) -> None:
        self.prefix = prefix
        self.rest = rest
        self.low = low
        self.high = high
        self.unique = unique
        self.contains = contains
        self.check = check
        self.members = members
        self.tight = tight
        """Items must be unique, and a given value may have to be excluded: an item that begins like it could not become
        another one."""
        self.fixed = fixed
        """Strings are among the values that may have to be excluded."""
        self.few_containers = few_containers
        """Objects or arrays are among the values that may have to be excluded: these are few, and others many."""
        self.listed = listed
        """Where items must be unique and have few values, objects and arrays among them or some of which are
        counted."""
        self.paired = paired
        """If two items must be equal: the last index of an item that a later one may repeat, see `duplicates`."""
        starts = [wanted.start for wanted in contains]
        self.horizon = max(len(prefix), low, 0 if high is None else high, *starts)
        """The index from which on all indexes are equivalent."""

    def at(self, index: int) -> Conjunction | None:
        return self.prefix[index] if index < len(self.prefix) else self.rest


Hits = tuple[int, ...]
"""Items counted so far, for each `contains`."""
_Situation = tuple[int, Hits]
_Move = tuple[Hits, Conjunction, Hits]
_OF_MOVE = 2
"""Work charged for each way to count an item."""
_MOST_WAYS = 64
"""Maximum ways to count an item."""
_MOST = 20_000
"""Maximum states searched for a completion; an array with more is assumed to have one."""


class Counting:
    """Decides which items may count for which `contains`, and whether all counts can still be met. Caches its
    answers."""

    def __init__(self, plan: ArrayPlan, satisfiable: Callable[[Conjunction], bool]) -> None:
        self.plan = plan
        self.satisfiable = satisfiable
        self._ways: dict[Any, list[tuple[Hits, Conjunction]]] = {}
        self._ends: dict[_Situation, bool] = {}
        self._known: dict[_Situation, list[_Move]] = {}
        self._most: int | None = None
        self._is_one_by_one: bool | None = None

    def moves(self, index: int, hits: Hits) -> list[_Move]:
        """Return the ways to count the item at `index` that leave the array completable: (`contains` that count it, the
        item's terms, the new counts)."""
        here = (min(index, self.plan.horizon), hits)
        known = self._known.get(here)
        if known is None:
            known = [move for move in self._moves(index, hits) if self.can_end(index + 1, move[2])]
            self._known[here] = known
        return known

    def can_end(self, index: int, hits: Hits) -> bool:
        """Return whether the counts `hits` after `index` items can still be met."""
        known = self._at_a_glance(index, hits)
        if known is not None:
            return known
        first = (min(index, self.plan.horizon), hits)
        if first not in self._ends:
            before: dict[_Situation, _Situation | None] = {first: None}
            stack = [first]
            while stack and len(before) < _MOST and not self._is_end(*stack[-1]):
                here = stack.pop()
                for situation in self._after(*here):
                    if situation not in before:
                        before[situation] = here
                        stack.append(situation)
            if not stack:
                self._ends.update(dict.fromkeys(before, False))
            way = stack[-1] if stack else None
            while way is not None:  # all states on the way can be completed, too
                self._ends[way] = True
                way = before[way]
        return self._ends[first]

    def _at_a_glance(self, index: int, hits: Hits) -> bool | None:
        """Decide `can_end` without a search if possible: True if there is room to meet one count after the other, False
        if there is none even for several at once, else None."""
        plan = self.plan
        missing = sum([max(wanted.low - hit, 0) for wanted, hit in zip(plan.contains, hits, strict=True)])
        if plan.high is not None and missing > self._most_at_once * (plan.high - index):
            return False
        if not self._one_by_one:
            return None
        begin = max(index, len(plan.prefix), *(wanted.start for wanted in plan.contains))
        return True if plan.high is None or begin + missing <= plan.high else None

    @property
    def _most_at_once(self) -> int:
        """Return the maximum number of `contains` for which one item counts."""
        if self._most is None:
            plan = self.plan
            items = dict.fromkeys((*plan.prefix, *(() if plan.rest is None else (plan.rest,))))
            self._most = max((sum(hit) for terms in items for hit, _ in self._ways_of(plan.horizon, terms)), default=0)
        return self._most

    @property
    def _one_by_one(self) -> bool:
        """Return whether every item may count for nothing, and every item after the prefix for any one `contains`
        alone."""
        if self._is_one_by_one is None:
            self._is_one_by_one = self._find_one_by_one()
        return self._is_one_by_one

    def _find_one_by_one(self) -> bool:
        plan, none = self.plan, (0,) * len(self.plan.contains)
        if plan.rest is None or not all(self._counts(terms, none) for terms in (*plan.prefix, plan.rest)):
            return False
        return all(self._counts(plan.rest, (*none[:k], 1, *none[k + 1 :])) for k in range(len(none)))

    def _counts(self, terms: Conjunction, hit: Hits) -> bool:
        """Return whether an item that satisfies `terms` may count for `hit` alone."""
        return any(hit == counted for counted, _ in self._ways_of(self.plan.horizon, terms))

    def _after(self, index: int, hits: Hits) -> Iterator[_Situation]:
        """Yield the states after an item at `index`, the highest counts last."""
        after = min(index + 1, self.plan.horizon)
        moves = self._moves(index, hits)
        charge(_OF_MOVE * (1 + len(moves)))
        for _, _, counted in moves:
            if self._ends.get((after, counted), True):
                yield after, counted

    def _is_end(self, index: int, hits: Hits) -> bool:
        if self._ends.get((index, hits)):
            return True
        plan = self.plan
        return index >= plan.low and all(hit >= wanted.low for hit, wanted in zip(hits, plan.contains, strict=True))

    def _moves(self, index: int, hits: Hits) -> list[_Move]:
        plan = self.plan
        terms = plan.at(index)
        if terms is None or (plan.high is not None and index >= plan.high):
            return []
        found = []
        for hit, facts in self._ways_of(index, terms):
            after = [before + counted for before, counted in zip(hits, hit, strict=True)]
            for k, wanted in enumerate(plan.contains):
                if wanted.high is None:  # counts above the minimum make no difference
                    if hit[k] and after[k] > wanted.low:
                        break
                elif after[k] > wanted.high:
                    break
            else:
                found.append((hit, facts, tuple(after)))
        return found

    def ways(self, items: Sequence[Conjunction]) -> list[Conjunction]:
        """Return the terms of each of `items` under every way to count it."""
        return [facts for terms in items for _, facts in self._ways_of(self.plan.horizon, terms)]

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
                if len(ways) > _MOST_WAYS:
                    raise GrammarLimit(
                        f"an item of this array may count for {len(self.plan.contains)} `contains` in more than "
                        f"{_MOST_WAYS} ways; ask for items that exclude one another, or for fewer"
                    )
            self._ways[key] = ways
        return self._ways[key]
