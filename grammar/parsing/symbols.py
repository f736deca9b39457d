"""The symbols of a grammar as numbers, and what its rules predict: all that does not depend on a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.parsing.following import followers_of, nullable_of
from sluicegate.grammar.parsing.rules import NumberedRules

Flags = npt.NDArray[np.bool_]

Suffix = int
"""Number of a rule's suffix: the symbols still to be read. 0 = none."""


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

    def __init__(self, rules: NumberedRules, terminals: Sequence[str]) -> None:
        self.rules = rules
        self.terminals = (*terminals, "")
        self.hole = len(terminals)
        self.start = rules.start
        self.heads: list[int] = [-1]
        self.tails: list[Suffix] = [0]
        self._suffixes: dict[tuple[int, ...], Suffix] = {(): 0}
        self.size = len(self.terminals) + len(rules.names)
        self._nullable: Flags = nullable_of(self.size, rules.origins, rules.first, rules.symbols)
        self.nullable = frozenset(np.flatnonzero(self._nullable).tolist())
        order = np.argsort(rules.origins, kind="stable")
        self._by_origin: list[int] = order.tolist()
        self._begins: list[int] = np.searchsorted(rules.origins[order], np.arange(self.size + 1)).tolist()
        self._left: dict[int, tuple[tuple[int, Suffix], ...]] = {}
        self._reach: dict[int, frozenset[int]] = {}
        self._predictions: dict[frozenset[int], Prediction] = {}

    @cached_property
    def followers(self) -> Flags:
        """Return bool[T, T]: for each terminal the terminals that may follow it, `hole` for the end."""
        count, rules = len(self.terminals), self.rules
        found: Flags = followers_of(count, self._nullable, rules.origins, rules.first, rules.symbols, self.start)
        return found

    def left(self, name: int) -> tuple[tuple[int, Suffix], ...]:
        """Return the symbols with which a rule of `name` can begin, each with the rest of the rule."""
        found = self._left.get(name)
        if found is None:
            first, symbols = self.rules.first, self.rules.symbols
            openings: dict[tuple[int, Suffix], None] = {}
            for rule in self._by_origin[self._begins[name] : self._begins[name + 1]]:
                row = symbols[first[rule] : first[rule + 1]].tolist()
                openings.update(dict.fromkeys(self._openings(row)))
            found = self._left[name] = tuple(openings)
        return found

    def rule_of(self, suffix: Suffix) -> str:
        """Return the rule that the last symbol of a rest stands for: its own, where it recurses or is a network."""
        while self.tails[suffix]:
            suffix = self.tails[suffix]
        name = self.heads[suffix] - len(self.terminals)
        return self.rules.names[name] if name >= 0 else ""

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

    def _openings(self, row: list[int]) -> Iterator[tuple[int, Suffix]]:
        """Yield the symbols with which `row` can begin, each with the rest of the row; symbols before it may be
        empty."""
        for at, head in enumerate(row):
            yield head, self.suffix(row[at + 1 :])
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
                for head, _ in self.left(pending.pop()):
                    if not self.is_terminal(head) and head not in found:
                        found[head] = None
                        pending.append(head)
            known = self._reach[nonterminal] = frozenset(found)
        return known

    def prediction(self, nonterminals: frozenset[int]) -> Prediction:
        """Return the symbols that can come first where any of `nonterminals` may begin."""
        known = self._predictions.get(nonterminals)
        if known is None:
            found: dict[int, list[tuple[Suffix, int]]] = {}
            for name in sorted(frozenset[int]().union(*map(self.reach, nonterminals))):
                tick()
                for head, tail in self.left(name):
                    found.setdefault(head, []).append((tail, name))
            known = self._predictions[nonterminals] = Prediction(
                {head: tuple(rests) for head, rests in found.items()}, tuple(filter(self.is_terminal, found))
            )
        return known
