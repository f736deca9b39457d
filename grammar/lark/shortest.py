"""Bound from below how many bytes it takes to finish a parse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Any, Protocol

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lark.rules import Production, Symbol

NEVER = 1 << 40
_KEPT = 20_000
_MOST_WAYS = 5_000


class ShortestItem(Protocol):
    """`rule` read up to `dot`; it began in `since`, None = in the set that holds the item."""

    @property
    def rule(self) -> int: ...

    @property
    def dot(self) -> int: ...

    @property
    def since(self) -> ShortestItems | None: ...


class ShortestItems(Protocol):
    """An Earley set."""

    @property
    def whole(self) -> bool: ...

    @property
    def waiting(self) -> Mapping[Symbol, Sequence[ShortestItem]]: ...

    def is_root(self, origin: str) -> bool: ...


class ParseCosts:
    """Costs in bytes of symbols and of Earley sets.

    `words`: short words of each terminal, the shortest first; `values`: terminals that are JSON values, of a byte at
    least.
    """

    def __init__(self, rules: list[Production], words: dict[str, Any], values: list[str]) -> None:
        self.rules = rules
        self.symbols: dict[Symbol, int] = {
            (True, name): len(found[0].text) if found else NEVER for name, found in words.items()
        } | {(True, name): 1 for name in values}
        self._settle()
        self._known: dict[tuple[str, ShortestItems], int] = {}

    def _settle(self) -> None:
        """Settle names, the cheapest first, once all names of a rule are known, after Knuth (1977)."""
        missing: list[int] = []
        users: dict[Symbol, list[int]] = {}
        queue: list[tuple[int, int]] = []
        for number, rule in enumerate(self.rules):
            names = {symbol for symbol in rule.expansion if symbol not in self.symbols}
            missing.append(len(names))
            for symbol in names:
                users.setdefault(symbol, []).append(number)
            if not names:
                queue.append((self._sum(rule, 0), number))
        heapify(queue)
        while queue:
            tick()
            cost, number = heappop(queue)
            symbol = (False, self.rules[number].origin)
            if symbol in self.symbols:
                continue
            self.symbols[symbol] = cost
            for user in users.get(symbol, ()):
                missing[user] -= 1
                if not missing[user]:
                    heappush(queue, (self._sum(self.rules[user], 0), user))

    def _sum(self, rule: Production, dot: int) -> int:
        return min(sum(self.symbols.get(symbol, NEVER) for symbol in rule.expansion[dot:]), NEVER)

    def of_items(self, items: ShortestItems) -> int:
        if items.whole:
            return 0
        if len(self._known) > _KEPT:
            self._known.clear()
        return min((self._item(item, items) for waiting in items.waiting.values() for item in waiting), default=NEVER)

    def _item(self, item: ShortestItem, items: ShortestItems) -> int:
        rule = self.rules[item.rule]
        return self._sum(rule, item.dot) + self._after(rule.origin, item.since or items)

    def _after(self, origin: str, since: ShortestItems) -> int:
        """Return the cost behind an `origin` that began in `since`: the cheapest way out through what waited for it,
        after Dijkstra (1959)."""
        known = self._known.get((origin, since))
        if known is not None:
            return known
        queue: list[tuple[int, int, str, ShortestItems]] = [(0, 0, origin, since)]
        seen: set[tuple[str, ShortestItems]] = set()
        best, numbers = NEVER, count(1)
        while queue and len(seen) < _MOST_WAYS:
            cost, _, name, began = heappop(queue)
            if (name, began) in seen:
                continue
            seen.add((name, began))
            if began.is_root(name):
                best = cost
                break
            for item in began.waiting.get((False, name), ()):
                rule = self.rules[item.rule]
                further = cost + self._sum(rule, item.dot + 1)
                heappush(queue, (further, next(numbers), rule.origin, item.since or began))
        self._known[origin, since] = best
        return best
