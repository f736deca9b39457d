"""Rules of a context-free grammar over lexemes, and which names derive a text, or the empty one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.token_ids import I32

_LOOKS = 4
"""Times that all names are gone through, for those that derive some text, before they are counted down."""

Symbol = tuple[bool, str]
"""(whether it is a terminal, name)."""


class Production(NamedTuple):
    origin: str
    expansion: tuple[Symbol, ...]


Code = int
"""Number of a symbol, which is compared and found faster than its name: names of rules are negative."""
Way = tuple[Code, ...]
Ways = dict[Code, list[Way]]
"""The alternatives of each name."""


class SymbolCodes:
    """Symbols by number."""

    def __init__(self) -> None:
        self._codes: dict[Symbol, Code] = {}
        self._symbols: list[Symbol] = []
        self.names = 0
        """How many symbols are names."""

    def of(self, symbol: Symbol) -> Code:
        code = self._codes.get(symbol)
        return self._new(symbol) if code is None else code

    def way(self, symbols: Iterable[Symbol]) -> Way:
        """Return the codes of symbols in a row."""
        known = self._codes
        return tuple([known[symbol] if symbol in known else self._new(symbol) for symbol in symbols])

    def _new(self, symbol: Symbol) -> Code:
        number = len(self._symbols)
        self._symbols.append(symbol)
        self.names += not symbol[0]
        code = self._codes[symbol] = number if symbol[0] else ~number
        return code

    def name(self, code: Code) -> str:
        return self._symbols[code if code >= 0 else ~code][1]

    def numbers(self, terminals: Iterable[str]) -> I32:
        """Return int32[N]: by code, the place of each terminal in `terminals`; 0 for all else. A name n has the code
        ~n."""
        places = {name: number for number, name in enumerate(terminals)}
        return np.array([places.get(name, 0) for _, name in self._symbols], np.int32)


class NumberedRules(NamedTuple):
    """Rules by number: terminals come first, then one that no grammar has, then names, each of which derives a text.

    `names`: of what each name is, or is a part; `origins` int32[R]; `first` int32[R + 1]: where the symbols of each
    rule begin in `symbols`; `start`: the name that whole texts derive from."""

    names: list[str]
    origins: I32
    first: I32
    symbols: I32
    start: int


def ways_of(rules: Iterable[Production], codes: SymbolCodes) -> Ways:
    """Return the alternatives of each name that can be finished."""
    ways: Ways = {}
    origin, mine = "", list[Way]()
    for rule in rules:
        if rule.origin != origin or not mine:  # rules of one name stand side by side
            origin = rule.origin
            mine = ways.setdefault(codes.of((False, origin)), [])
        mine.append(codes.way(rule.expansion))
    if codes.names == len(ways) and finish_soon(ways):  # most often
        return ways
    useful = productive(ways)
    kept = {name: [row for row in rows if all(c >= 0 or c in useful for c in row)] for name, rows in ways.items()}
    return {name: rows for name, rows in kept.items() if rows}


def finish_soon(ways: Ways) -> bool:
    """Return True where all names derive some text; a few looks find that where rules stand about from the top down,
    and only that many are taken."""
    done: set[Code] = set()
    left = list(ways)[::-1]
    for _ in range(_LOOKS):
        waiting = []
        for name in left:
            for row in ways[name]:
                if done.issuperset([symbol for symbol in row if symbol < 0]):
                    done.add(name)
                    break
            else:
                waiting.append(name)
        if not waiting:
            return True
        left = waiting
    return False


def productive(ways: Ways) -> set[Code]:
    """Return the names that derive some text."""
    found = {name for name, rows in ways.items() if any(not row or min(row) >= 0 for row in rows)}
    others = [(name, row) for name, rows in ways.items() if name not in found for row in rows]
    return found | _derived((name, [code for code in row if code < 0 and code not in found]) for name, row in others)


def nullable(ways: Mapping[Code, Iterable[Way]]) -> set[Code]:
    """Return the names that derive the empty text."""
    if not any(() in rows for rows in ways.values()):
        return set()
    return _derived((name, row) for name, rows in ways.items() for row in rows if all(symbol < 0 for symbol in row))


def _derived(rules: Iterable[tuple[Code, Iterable[Code]]]) -> set[Code]:
    """Return names with a rule whose needs are all among them, in time linear in the rules. A name may be needed more
    than once."""
    users: dict[Code, list[int]] = {}
    missing: list[int] = []
    names: list[Code] = []
    ready: list[int] = []
    for number, (name, needs) in enumerate(rules):
        count = 0
        for symbol in needs:
            users.setdefault(symbol, []).append(number)
            count += 1
        names.append(name)
        missing.append(count)
        if not count:
            ready.append(number)
    found: set[Code] = set()
    while ready:
        tick()
        name = names[ready.pop()]
        if name in found:
            continue
        found.add(name)
        for number in users.get(name, ()):
            missing[number] -= 1
            if not missing[number]:
                ready.append(number)
    return found
