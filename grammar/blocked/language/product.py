"""Take texts that hold a phrase out of an automaton, where refusing tokens could leave a text without a way on.

Most patterns do not need it: where every state allows more letters than a begun phrase can refuse, a text can always go
on, and refusing tokens is enough.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from itertools import islice, pairwise

import numpy as np

from sluicegate.grammar.automata import CharDfa
from sluicegate.grammar.automata.tables.algebra import joint_alphabet
from sluicegate.grammar.automata.tables.table import Table, minimal
from sluicegate.grammar.blocked.language.fold import BORDER, OTHER, SPACE, WORD, Symbols, fold_runs, kind_of
from sluicegate.grammar.blocked.language.phrases import Phrases
from sluicegate.grammar.budget.meter import Budget, WorkMeter, look
from sluicegate.plugins.concurrency.unlocked import cached_property
from sluicegate.plugins.errors import GrammarLimit

_Standing = tuple[int, int]
_NONE: frozenset[int] = frozenset()
_OTHER = "\U0010fffe"
"""Stands for every symbol that is in no phrase."""
_ESCAPED = (*range(0x20), 0x22, 0x5C)
"""Characters that JSON always writes as an escape."""
_FEW_STATES = 2_000
_BLOCK = 16
"""Characters that share all but the last digit of `\\u0061`; those that share UTF-8 bytes are whole blocks."""


class Classes:
    """Classes of characters by what they do to `phrases`, and which of them may be refused in the same place."""

    def __init__(self, phrases: Phrases) -> None:
        self.phrases = phrases
        self.alphabet = {symbol for below in phrases.below for symbol in below} - {BORDER}
        self.last = {s for below in phrases.below for s, after in below.items() if phrases.final[after]}
        self.starts: list[int] = []
        self.numbers: list[int] = []
        self.symbols: list[Symbols] = []
        self.hot: dict[int, int] = {}
        """Characters that may complete a phrase -> number of their class."""
        self._fill()
        self._steps: dict[tuple[_Standing, int], _Standing] = {}
        self._refusable: dict[frozenset[int], bool] = {}
        self._kinds = {after: kind_of(s) for below in phrases.below for s, after in below.items()}
        self._going_on = self._places()
        _ = self.blocks

    def _places(self) -> dict[str, set[int]]:
        """Return, for each symbol, the states in which it continues a begun phrase."""
        found: dict[str, set[int]] = {}
        for state in range(len(self.phrases.below)):
            for begun in self.phrases.begun(state):
                for symbol in self.phrases.below[begun]:
                    found.setdefault(symbol, set()).add(state)
        return found

    def after(self, standing: _Standing, number: int) -> _Standing:
        """Return (state of the phrases, kind of the last symbol) after a character of a class."""
        found = self._steps.get((standing, number))
        if found is None:
            state, before = standing
            for symbol, kind in self.symbols[number]:
                if state == Phrases.FOUND or (kind == SPACE and before == SPACE):
                    continue
                state = self.phrases.step(state, BORDER + symbol if kind == WORD and before != WORD else symbol)
                before = kind
            found = self._steps[standing, number] = (state, before)
        return found

    def refusable(self, numbers: frozenset[int]) -> bool:
        """Return whether characters of all these classes may be refused in the same place."""
        known = self._refusable.get(numbers)
        if known is None:
            known = self._refusable[numbers] = self._ask(numbers)
        return known

    def _ask(self, numbers: frozenset[int]) -> bool:
        if any(all(symbol not in self.last for symbol, _ in self.symbols[number]) for number in numbers):
            return False
        states = min((self._candidates(number) for number in numbers), key=len)
        standings = [(0, SPACE), (0, OTHER), (0, WORD), *((state, self._kinds[state]) for state in states)]
        return any(all(self.after(s, number)[0] == Phrases.FOUND for number in numbers) for s in standings)

    def _candidates(self, number: int) -> frozenset[int] | set[int]:
        """Return the states in which a character of the class may do something else than in state 0."""
        return self._going_on.get(self.symbols[number][0][0], _NONE) | self._going_on.get(BORDER, _NONE)

    @cached_property
    def blocks(self) -> tuple[list[int], list[int], list[int]]:
        """Return the characters that begin like some that may finish a phrase, block after block; their classes; the
        blocks' sizes."""
        alike = [range(b * _BLOCK, (b + 1) * _BLOCK) for b in {code // _BLOCK for code in self.hot}]
        codes = [code for block in (*alike, _ESCAPED) for code in block]
        numbers = [self.numbers[bisect_right(self.starts, code) - 1] for code in codes]
        return codes, numbers, [len(block) for block in (*alike, _ESCAPED)]

    def _fill(self) -> None:
        number: dict[Symbols, int] = {}
        own = sorted(ord(symbol) for symbol in self.alphabet)
        at, runs = 0, [*fold_runs(), (sys.maxunicode + 1, ())]
        for (start, symbols), (end, _) in pairwise(runs):
            cuts = [start]
            while at < len(own) and own[at] < end:
                cuts += [own[at], own[at] + 1]
                at += 1
            for low, high in zip(cuts, [*cuts[1:], end], strict=True):
                if low < high:
                    self._add(low, high, symbols, number)

    def _add(self, low: int, high: int, symbols: Symbols, number: dict[Symbols, int]) -> None:
        known = tuple(
            (symbol if symbol in self.alphabet else _OTHER, kind)
            for symbol, kind in ((symbol or chr(low), kind) for symbol, kind in symbols)
        )
        name = number.setdefault(known, len(number))
        if name == len(self.symbols):
            self.symbols.append(known)
        if any(symbol in self.last for symbol, _ in known):
            self.hot.update(dict.fromkeys(range(low, high), name))
        if not self.numbers or self.numbers[-1] != name:
            self.starts.append(low)
            self.numbers.append(name)


def without_phrases(texts: CharDfa, classes: Classes, least: bool, most: bool) -> CharDfa:
    """Return `texts` without phrases, or `texts` itself where refusing tokens never leaves a text without a way on.

    `least`, `most`: their length is bounded besides. Raises `GrammarLimit`.

    Where that takes more than 20,000 states, states that need single letters which phrases may refuse are left out with
    the texts that lead there (an address ending in `[IPv6:...]`). Not covered: a character
    half written (`\\u1ea`, of which all sixteen count as `a`) where that takes more than 2,000 states.
    """
    table = texts.table
    wide = _wide(table, classes)
    if not _goes_on(table, wide, least, most):
        try:
            return CharDfa(_product(table, classes, Budget(max_seconds=1.0)))
        except GrammarLimit:
            look()
            if least or most:
                raise
            return CharDfa(_sure(table, wide))
    if _leaves_some(table, classes, least or most):
        return texts
    try:
        return CharDfa(_product(table, classes, Budget(_FEW_STATES, 0.5)))
    except GrammarLimit:
        look()
        return texts


def _sure(table: Table, wide: set[int]) -> Table:
    """Drop the states from which the end needs classes of characters that may all be refused."""
    kept = _distances([{target for c, target in row.items() if c in wide} for row in table.rows], table.accepting)
    if table.start not in kept:
        raise GrammarLimit(
            "this pattern and the blocklist take more than 20,000 automaton states together; shorten the pattern or "
            "the blocklist"
        )
    rows = [{c: target for c, target in row.items() if target in kept} for row in table.rows]
    return minimal(Table(table.starts, table.classes, rows, table.accepting, table.start), WorkMeter())


def _goes_on(table: Table, wide: set[int], least: bool, counted: bool) -> bool:
    """Return whether the end is reached from every state by classes of which some character is allowed.

    `counted`: no later than by others; `least`: each target is reached so.
    """
    rows = [{target for c, target in row.items() if c in wide} for row in table.rows]
    if least:
        return all(set(row.values()) == after for row, after in zip(table.rows, rows, strict=True))
    far = _distances(rows, table.accepting)
    if not counted:
        return len(far) == len(rows)
    return far == _distances([set(row.values()) for row in table.rows], table.accepting)


def _distances(rows: list[set[int]], accepting: list[bool]) -> dict[int, int]:
    """Return the least number of characters to the end, for the states that reach it."""
    before: list[list[int]] = [[] for _ in rows]
    for state, row in enumerate(rows):
        for target in row:
            before[target].append(state)
    queue = [state for state, accepts in enumerate(accepting) if accepts]
    found = dict.fromkeys(queue, 0)
    for state in queue:
        for earlier in before[state]:
            if earlier not in found:
                found[earlier] = found[state] + 1
                queue.append(earlier)
    return found


def _wide(table: Table, classes: Classes) -> set[int]:
    """Return the classes of `table` that hold more characters than can be refused at once."""
    sizes: dict[int, int] = {}
    for start, end, c in zip(table.starts, [*table.starts[1:], sys.maxunicode + 1], table.classes, strict=True):
        sizes[c] = sizes.get(c, 0) + end - start
    hot: dict[int, list[int]] = {}
    for code, number in classes.hot.items():
        hot.setdefault(table.class_of(code), []).append(number)
    return {c for c, size in sizes.items() if size > len(hot.get(c, ())) or not classes.refusable(frozenset(hot[c]))}


_Block = frozenset[tuple[int, int]]


def _blocks(table: Table, classes: Classes) -> set[_Block]:
    """Return blocks of characters that are spelled alike at first, as pairs of a class of `table` and of `classes`."""
    codes, numbers, sizes = classes.blocks
    own = np.array(table.classes)[np.searchsorted(table.starts, codes, "right") - 1].tolist()
    pairs = zip(own, numbers, strict=True)
    return {frozenset(islice(pairs, size)) for size in sizes}


def _leaves_some(table: Table, classes: Classes, counted: bool) -> bool:
    """Return whether every state that allows some characters of a block always allows one; `counted`: to each
    target."""
    ways = {frozenset(row.items()) if counted else frozenset((c, 0) for c in row) for row in table.rows}
    return all(_leaves_some_of(dict(row), block, classes) for block in _blocks(table, classes) for row in ways)


def _leaves_some_of(row: dict[int, int], block: _Block, classes: Classes) -> bool:
    left: dict[int, set[int]] = {}
    for c, number in block:
        if c in row:
            left.setdefault(row[c], set()).add(number)
    return not any(classes.refusable(frozenset(numbers)) for numbers in left.values())


def _product(table: Table, classes: Classes, budget: Budget) -> Table:
    meter = WorkMeter(budget, "pattern beside the blocklist")
    starts, numbers, pairs = joint_alphabet(table, Table(classes.starts, classes.numbers, [], []))
    below: dict[int, list[tuple[int, int]]] = {}
    for c, (own, number) in enumerate(pairs):
        if own >= 0:
            below.setdefault(own, []).append((c, number))
    queue = [(table.start, (0, SPACE))]
    place = {queue[0]: 0}
    rows: list[dict[int, int]] = []
    for state, standing in queue:
        row: dict[int, int] = {}
        for own, target in table.rows[state].items():
            for c, number in below[own]:
                ahead = classes.after(standing, number)
                if ahead[0] == Phrases.FOUND:
                    continue
                found = place.setdefault((target, ahead), len(queue))
                if found == len(queue):
                    meter.states()
                    queue.append((target, ahead))
                row[c] = found
        rows.append(row)
    return minimal(Table(starts, numbers, rows, [table.accepting[state] for state, _ in queue]), meter)
