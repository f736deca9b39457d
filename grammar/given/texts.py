"""Texts given to an array of unique items, and the shortest beginnings that nothing but these can be ended from."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from sluicegate.grammar.budget.meter import charge

_KEPT = 200_000
"""Most texts in all cached lists: each list is as long as its array."""
_NEXT = 64
_TEXTS_A_CHARGE = 20


class Supply(Protocol):
    """A set of texts."""

    def has(self, text: str) -> bool: ...

    def used_up(self, text: str, given: list[str]) -> list[str]:
        """Return beginnings of spellings of `text`, the shortest ones behind which every text of the set is one of
        `given`, which are sorted and all in the set, `text` among them."""


class Lists(NamedTuple):
    """`given`: those texts that are in the set, sorted. `dead`: the shortest beginnings behind which there are no
    others, sorted; none begins with another one."""

    given: list[str]
    dead: list[str]
    made: dict[str, Any]
    """Objects derived from the texts."""


class GivenTexts:
    """A list of texts that grows by one at a time. Immutable but for what it remembers; the same texts in the same
    order are the same object, as long as it is kept."""

    __slots__ = ("_after", "_dead", "_kept", "before", "size", "text")

    def __init__(self, before: GivenTexts | None = None, text: str = "") -> None:
        self.before = before
        self.text = text
        self.size: int = 0 if before is None else before.size + 1
        self._after: dict[str, GivenTexts] = {}
        self._dead: dict[Supply, list[str]] = {}
        """For each supply, the beginnings behind which nothing is left since this text."""
        self._kept: _ListsCache = _ListsCache() if before is None else before._kept

    def plus(self, text: str) -> GivenTexts:
        found = self._after.get(text)
        if found is None:
            if len(self._after) >= _NEXT:
                self._after.clear()
            found = self._after[text] = GivenTexts(self, text)
        return found

    def all(self) -> list[str]:
        """Return the texts, the last one first."""
        found: list[str] = []
        at: GivenTexts | None = self
        while at is not None and at.before is not None:
            found.append(at.text)
            at = at.before
        return found

    def lists(self, supply: Supply) -> Lists:
        """Return the given texts that are in `supply`, and its dead beginnings; see `Lists`. Takes a copy, and time for
        each text added since the last call."""
        found = self._kept.find(self, supply)
        if found is not None:
            return found
        at: GivenTexts = self
        added: list[GivenTexts] = []
        while found is None and at.before is not None:
            added.append(at)
            at = at.before
            found = self._kept.find(at, supply)
        given, dead = ([], []) if found is None else (found.given.copy(), found.dead.copy())
        charge((len(given) + len(added)) / _TEXTS_A_CHARGE)
        for each in reversed(added):
            if supply.has(each.text):
                each._add(supply, given, dead)
        found = Lists(given, dead, {})
        self._kept.keep(self, supply, found)
        return found

    def _add(self, supply: Supply, given: list[str], dead: list[str]) -> None:
        insort(given, self.text)
        beginnings = self._dead.get(supply)
        if beginnings is None:
            beginnings = self._dead[supply] = supply.used_up(self.text, given)
        for beginning in beginnings:
            _put(dead, beginning)


class _ListsCache:
    """The lists that were asked for last."""

    def __init__(self) -> None:
        self._lists: OrderedDict[tuple[GivenTexts, Supply], Lists] = OrderedDict()
        self._size = 0

    def find(self, given: GivenTexts, supply: Supply) -> Lists | None:
        found = self._lists.get((given, supply))
        if found is not None:
            self._lists.move_to_end((given, supply))
        return found

    def keep(self, given: GivenTexts, supply: Supply, lists: Lists) -> None:
        self._lists[given, supply] = lists
        self._size += 1 + len(lists.given)
        while self._size > _KEPT and len(self._lists) > 1:
            _, last = self._lists.popitem(last=False)
            self._size -= 1 + len(last.given)


def _put(dead: list[str], beginning: str) -> None:
    """Put `beginning` in the place of those that begin with it."""
    low, high = beginning_with(dead, beginning)
    if low == 0 or not beginning.startswith(dead[low - 1]):
        dead[low:high] = [beginning]


def beginning_with(texts: list[str], beginning: str, low: int = 0, high: int | None = None) -> tuple[int, int]:
    """Return from where to where the sorted `texts` begin with `beginning`, between `low` and `high`."""
    size = len(beginning)
    low = bisect_left(texts, beginning, low, high)
    return low, bisect_right(texts, beginning, low, high, key=lambda text: text[:size])


class KnownCounts:
    """Remembers of states how many texts are known to go on from each, so that few questions count."""

    def __init__(self) -> None:
        self._more: dict[tuple[int, int], int] = {}

    def more(self, key: tuple[int, int], count: int, has_more: Callable[[int], bool]) -> bool:
        """Return whether more than `count` texts continue `key`. `has_more(n)` tells whether more than n do."""
        known = self._more.get(key, -1)
        if known < count:
            known = max(count, 2 * known, 64)
            if not has_more(known):
                return has_more(count)
            self._more[key] = known
        return True
