"""The symbols of a grammar as numbers, and what its rules predict: all that does not depend on a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import NamedTuple

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.parsing.rules import STATE, Production, Symbol, all_useful, nullable, productive

Suffix = int
"""Number of a rule's rest: the symbols that are still to be read. 0 = none."""


class Prediction(NamedTuple):
    """What is read first where any of some nonterminals may come.

    Rests of rules behind each symbol, with the nonterminal whose rule it is: the rest is part of that one."""

    by_symbol: dict[int, tuple[tuple[Suffix, int], ...]]
    terminals: tuple[int, ...]


class Symbols:
    """Terminals are numbered from 0, in the order of `terminals`; nonterminals follow.

    `heads`, `tails`: first symbol of a suffix, and the suffix behind it. `hole`: a terminal of no grammar, see
    `ParseFrames.hole`.
    """

    def __init__(self, rules: list[Production], terminals: Sequence[str], start: str) -> None:
        useful = productive(rules)
        kept = [rule for rule in rules if all_useful(rule, useful)]
        self.rules = kept
        self.terminals = (*terminals, "")
        self.hole = len(terminals)
        self._number: dict[Symbol, int] = {(True, name): i for i, name in enumerate(terminals)}
        self._number[True, ""] = self.hole
        for rule in kept:
            self._number.setdefault((False, rule.origin), len(self._number))
        self.heads: list[int] = [-1]
        self.tails: list[Suffix] = [0]
        self._suffixes: dict[tuple[int, ...], Suffix] = {(): 0}
        self.nullable = frozenset(self._number[False, name] for name in nullable(kept))
        self._left: dict[int, dict[tuple[int, Suffix], None]] = {}
        number = self._number
        self._numbered = [
            (number[False, rule.origin], tuple([number[each] for each in rule.expansion])) for rule in kept
        ]
        for origin, row in self._numbered:
            left = self._left.setdefault(origin, {})
            for head, tail in self._openings(self.suffix(row)):
                left[head, tail] = None
        self._start = self._number[False, start]
        self._reach: dict[int, frozenset[int]] = {}
        self._predictions: dict[frozenset[int], Prediction] = {}

    @cached_property
    def followers(self) -> list[int]:
        """Return for each terminal the terminals that may follow it, as bits; the bit of `hole` for the end."""
        firsts = self._firsts()
        found = [0] * len(self._number)
        found[self._start] |= 1 << self.hole
        users: dict[int, set[int]] = {}
        for origin, row in self._numbered:
            tick()
            behind, open_end = 0, True
            for symbol in reversed(row):
                found[symbol] |= behind
                if open_end:
                    users.setdefault(origin, set()).add(symbol)
                empty = symbol in self.nullable
                behind = firsts[symbol] | behind if empty else firsts[symbol]
                open_end = open_end and empty
        _spread(found, users)
        return found[: len(self.terminals)]

    def _firsts(self) -> list[int]:
        """Return for each symbol the terminals that it can begin with, as bits."""
        found = [1 << symbol if self.is_terminal(symbol) else 0 for symbol in range(len(self._number))]
        users: dict[int, set[int]] = {}
        for name, left in self._left.items():
            for head, _ in left:
                users.setdefault(head, set()).add(name)
        _spread(found, users)
        return found

    def rule_of(self, suffix: Suffix) -> str:
        """Return the rule that the last symbol of a rest stands for: its own, where it recurses or is a network."""
        while self.tails[suffix]:
            suffix = self.tails[suffix]
        name = next((name for (_, name), number in self._number.items() if number == self.heads[suffix]), "")
        return name.split(STATE)[0]

    def nonterminal(self, name: str) -> int:
        return self._number[False, name]

    def number(self, symbol: Symbol) -> int:
        return self._number[symbol]

    def is_terminal(self, symbol: int) -> bool:
        return symbol < len(self.terminals)

    def suffix(self, symbols: Iterable[int]) -> Suffix:
        """Return the number of these symbols in a row."""
        row = tuple(symbols)
        known = self._suffixes.get(row)
        if known is not None:
            return known
        tail = 0
        for at in range(len(row) - 1, -1, -1):
            rest = row[at:]
            known = self._suffixes.get(rest)
            if known is None:
                known = self._suffixes[rest] = len(self.heads)
                self.heads.append(rest[0])
                self.tails.append(tail)
            tail = known
        return tail

    def _openings(self, suffix: Suffix) -> Iterable[tuple[int, Suffix]]:
        """Yield what `suffix` can begin with, each with what follows it: behind symbols that may be empty as well."""
        while suffix:
            head, suffix = self.heads[suffix], self.tails[suffix]
            yield head, suffix
            if head not in self.nullable:
                return

    def reach(self, nonterminal: int) -> frozenset[int]:
        """Return the nonterminals that a text of `nonterminal` can begin with, itself among them."""
        known = self._reach.get(nonterminal)
        if known is None:
            found = {nonterminal: None}
            pending = [nonterminal]
            while pending:
                tick()
                for head, _ in self._left[pending.pop()]:
                    if not self.is_terminal(head) and head not in found:
                        found[head] = None
                        pending.append(head)
            known = self._reach[nonterminal] = frozenset(found)
        return known

    def prediction(self, nonterminals: frozenset[int]) -> Prediction:
        """Return what is read first where any of `nonterminals` may come."""
        known = self._predictions.get(nonterminals)
        if known is None:
            found: dict[int, list[tuple[Suffix, int]]] = {}
            for name in sorted(frozenset[int]().union(*map(self.reach, nonterminals))):
                tick()
                for head, tail in self._left[name]:
                    found.setdefault(head, []).append((tail, name))
            known = self._predictions[nonterminals] = Prediction(
                {head: tuple(rests) for head, rests in found.items()}, tuple(filter(self.is_terminal, found))
            )
        return known


def _spread(found: list[int], users: dict[int, set[int]]) -> None:
    """Add the bits of each symbol to those of its users until nothing changes."""
    pending = dict.fromkeys(users)
    while pending:
        tick()
        symbol, _ = pending.popitem()
        own = found[symbol]
        for user in users[symbol]:
            if own | found[user] != found[user]:
                found[user] |= own
                if user in users:
                    pending[user] = None
