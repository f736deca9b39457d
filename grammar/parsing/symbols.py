"""The symbols of a grammar as numbers, and what its rules predict: all that does not depend on a text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.parsing.following import followers_of, nullable_of
from sluicegate.grammar.parsing.rules import NumberedRules

Flags = npt.NDArray[np.bool_]

Suffix = int
"""Number of a rule's suffix: the symbols still to be read. 0 = none."""
_FEW_ASKED = 6
"""Symbols up to which each is looked for by itself: of most frames no more are asked for."""


Rest = tuple[Suffix, int]
"""A rest of a rule, and the nonterminal whose rule it is: the rest is part of that one."""


class Prediction:
    """What is read first where any of some nonterminals may come. `names`: nonterminals that may begin; `terminals`:
    what may come, and as bits."""

    __slots__ = ("_asked", "_by_symbol", "_symbols", "bits", "names", "terminals")

    def __init__(self, symbols: Symbols, names: list[int]) -> None:
        self.names = names
        self.terminals = tuple(dict.fromkeys(chain.from_iterable([symbols.terminals_of(name) for name in names])))
        self.bits = sum([1 << terminal for terminal in self.terminals])
        self._symbols = symbols
        self._asked = 0
        self._by_symbol: dict[int, list[Rest]] | None = None

    def behind(self, symbol: int) -> list[Rest]:
        """Return the rests of rules behind `symbol`."""
        if self._by_symbol is None:
            self._asked += 1
            if self._asked <= _FEW_ASKED:
                tails_of = self._symbols.tails_of
                return [(tail, name) for name in self.names for tail in tails_of(name).get(symbol, ())]
            self._by_symbol = self._all()
        return self._by_symbol.get(symbol, [])

    def _all(self) -> dict[int, list[Rest]]:
        found: dict[int, list[Rest]] = {}
        for name in self.names:
            tick()
            for head, tails in self._symbols.tails_of(name).items():
                found.setdefault(head, []).extend([(tail, name) for tail in tails])
        return found


class Symbols:
    """Terminals are numbered from 0, in the order of `terminals`; nonterminals follow.

    `heads`, `tails`: first symbol of a suffix, and the suffix behind it. `hole`: a terminal of no grammar, see
    `ParseFrames.hole`. `followers` bool[T, T]: for each terminal the terminals that may follow it, `hole` for the end.
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
        empty = nullable_of(self.size, rules.origins, rules.first, rules.symbols)
        self.nullable: frozenset[int] = frozenset(np.flatnonzero(empty).tolist())
        self.followers: Flags = followers_of(
            len(self.terminals), empty, rules.origins, rules.first, rules.symbols, self.start
        )
        order = np.argsort(rules.origins, kind="stable")
        self._by_origin: list[int] = order.tolist()
        self._begins: list[int] = np.searchsorted(rules.origins[order], np.arange(self.size + 1)).tolist()
        self._first: list[int] = rules.first.tolist()
        self._symbols: list[int] = rules.symbols.tolist()
        self._ones: dict[int, Suffix] = {}
        self._tails: dict[int, dict[int, list[Suffix]]] = {}
        self._terminals: dict[int, tuple[int, ...]] = {}
        self._reach: dict[int, frozenset[int]] = {}
        self._predictions: dict[frozenset[int], Prediction] = {}

    def tails_of(self, name: int) -> dict[int, list[Suffix]]:
        """Return the rests of the rules of `name` by the symbols that they can begin with."""
        found = self._tails.get(name)
        if found is None:
            openings: dict[tuple[int, Suffix], None] = {}
            for rule in self._by_origin[self._begins[name] : self._begins[name + 1]]:
                row = self._symbols[self._first[rule] : self._first[rule + 1]]
                if len(row) == 2 and row[0] not in self.nullable:  # most often: an edge of a network
                    openings[row[0], self._of_one(row[1])] = None
                else:
                    openings.update(dict.fromkeys(self._openings(row)))
            found = self._tails[name] = {}
            for head, tail in openings:
                found.setdefault(head, []).append(tail)
        return found

    def terminals_of(self, name: int) -> tuple[int, ...]:
        """Return the terminals that a rule of `name` can begin with."""
        found = self._terminals.get(name)
        if found is None:
            found = self._terminals[name] = tuple([head for head in self.tails_of(name) if head <= self.hole])
        return found

    def rule_of(self, suffix: Suffix) -> str:
        """Return the rule that the last symbol of a rest stands for: its own, where it recurses or is a network."""
        while self.tails[suffix]:
            suffix = self.tails[suffix]
        name = self.heads[suffix] - len(self.terminals)
        return self.rules.names[name] if name >= 0 else ""

    def is_terminal(self, symbol: int) -> bool:
        return symbol < len(self.terminals)

    def _of_one(self, symbol: int) -> Suffix:
        found = self._ones.get(symbol)
        if found is None:
            found = self._ones[symbol] = self.suffix((symbol,))
        return found

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
                for head in self.tails_of(pending.pop()):
                    if head > self.hole and head not in found:
                        found[head] = None
                        pending.append(head)
            known = self._reach[nonterminal] = frozenset(found)
        return known

    def prediction(self, nonterminals: frozenset[int]) -> Prediction:
        """Return the symbols that can come first where any of `nonterminals` may begin."""
        known = self._predictions.get(nonterminals)
        if known is None:
            tick()
            names = sorted(frozenset[int]().union(*[self.reach(each) for each in nonterminals]))
            known = self._predictions[nonterminals] = Prediction(self, names)
        return known
