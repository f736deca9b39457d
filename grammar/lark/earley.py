"""Earley's algorithm (1970) over lexemes, with nullable rules as in Aycock and Horspool (2002).

A set of items is immutable and refers to the sets in which its items began, so parses can be shared, forked and
dropped. Completed items are worked off while a set is made and are no part of it: sets that continue alike are the same
object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lark.rules import Production, Symbol, all_useful, nullable, productive
from sluicegate.grammar.lark.shortest import ParseCosts
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import EndOfText, InLexeme
from sluicegate.plugins.errors import GrammarLimit

_KEPT = 50_000
_MOST_ITEMS = 5_000


class EarleyItem(NamedTuple):
    """`rule` read up to `dot`; it began in `since`, None = in the set that holds the item."""

    rule: int
    dot: int
    since: ItemSet | None


class EmbeddedValue(Protocol):
    """A terminal that is a JSON value instead of a lexeme."""

    def readings(self, follow: Continuation) -> tuple[Reading, ...]: ...

    def renew(self) -> None:
        """Forget what was made for earlier texts."""


class ItemSet:
    """One Earley set. `waiting`: items by the symbol they expect; `whole`: the text so far is one of the grammar."""

    __slots__ = ("_readings", "parser", "waiting", "whole")

    def __init__(self, parser: Parser, items: frozenset[EarleyItem], whole: bool) -> None:
        self.parser = parser
        self.whole = whole
        self.waiting: dict[Symbol, list[EarleyItem]] = {}
        for item in items:
            self.waiting.setdefault(parser.rules[item.rule].expansion[item.dot], []).append(item)
        self._readings: tuple[Reading, ...] | None = None

    def is_root(self, origin: str) -> bool:
        """An `origin` that begins here is the whole text."""
        return origin == self.parser.start and self is self.parser.first

    def readings(self) -> tuple[Reading, ...]:
        """Return readings for every terminal that may come next, those to be ignored, and the end."""
        if self._readings is None:
            names = sorted(name for is_terminal, name in self.waiting if is_terminal)
            readings = [reading for name in names for reading in self.parser.begin(name, Scanned(self, name))]
            for name in sorted(self.parser.ignored):
                readings.extend(self.parser.begin(name, Ignored(self)))
            self._readings = (*readings, *self.parser.follow.after(0)) if self.whole else tuple(readings)
        return self._readings

    @property
    def restarts(self) -> bool:
        """Whether a JSON value may come next."""
        regions = self.parser.regions
        return bool(regions) and any(is_terminal and name in regions for is_terminal, name in self.waiting)


def _restarted(items: ItemSet, run: Run, end_offset: int) -> ItemSet:
    """Restart the tape where `items` let a value begin."""
    if items.restarts:
        run.asked = True  # the tape moves, so this step is taken anew each time
        run.tape.restart(end_offset)  # type: ignore[union-attr]  # regions come with their own tape
    return items


class Scanned(Continuation):
    """After terminal `name`, read from `items`."""

    __slots__ = ("items", "name")

    def __init__(self, items: ItemSet, name: str) -> None:
        super().__init__()
        self.items = items
        self.name = name

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return self.items.parser.scan(self.items, self.name).readings()

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        return _restarted(self.items.parser.scan(self.items, self.name), run, end_offset).readings()

    def least(self, words: Callable[[Any, Any], Any]) -> int:
        parser = self.items.parser
        return parser.least(words).of_items(parser.scan(self.items, self.name))

    def label(self) -> str:
        return "" if self.name.startswith("_") else self.name

    @property
    def is_end(self) -> bool:  # type: ignore[override]
        parser = self.items.parser
        return parser.follow.is_end and parser.scan(self.items, self.name).whole


class Ignored(Continuation):
    """After an ignored terminal: everything as before."""

    __slots__ = ("items",)

    def __init__(self, items: ItemSet) -> None:
        super().__init__()
        self.items = items

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return self.items.readings()

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        return _restarted(self.items, run, end_offset).readings()

    def least(self, words: Callable[[Any, Any], Any]) -> int:
        return self.items.parser.least(words).of_items(self.items)

    @property
    def is_end(self) -> bool:  # type: ignore[override]
        return self.items.whole and self.items.parser.follow.is_end


class Parser:
    """Immutable but for the sets it keeps. `follow`: what comes after a whole text."""

    def __init__(
        self,
        rules: list[Production],
        lexemes: dict[str, DfaLexeme],
        ignored: frozenset[str],
        start: str,
        follow: Continuation | None = None,
        regions: Mapping[str, EmbeddedValue] | None = None,
    ) -> None:
        """`regions`: JSON values by the name of the terminal that they stand for."""
        self.follow = follow or EndOfText()
        self.regions = regions or {}
        self.lexemes = lexemes
        self.ignored = ignored
        self.start = start
        useful = productive(rules)
        self.rules = [rule for rule in rules if all_useful(rule, useful)]
        self.by_origin: dict[str, list[int]] = {}
        for number, rule in enumerate(self.rules):
            self.by_origin.setdefault(rule.origin, []).append(number)
        self.nullable = nullable(self.rules)
        self._sets: dict[tuple[frozenset[EarleyItem], bool], ItemSet] = {}
        self._scanned: dict[tuple[ItemSet, str], ItemSet] = {}
        self._least: ParseCosts | None = None

    @property
    def starting(self) -> ItemSet:
        """Before the first byte."""
        return self._set([EarleyItem(number, 0, None) for number in self.by_origin[self.start]], first=True)

    def start_readings(self) -> tuple[Reading, ...]:
        for region in self.regions.values():
            region.renew()
        return self.starting.readings()

    def begin(self, name: str, follow: Continuation) -> tuple[Reading, ...]:
        """Readings at the first byte of terminal `name`."""
        region = self.regions.get(name)
        if region is not None:
            return region.readings(follow)
        lexeme = self.lexemes[name]
        return (InLexeme(lexeme, lexeme.start, follow),)

    def scan(self, items: ItemSet, name: str) -> ItemSet:
        """Return the set after terminal `name`."""
        key = (items, name)
        found = self._scanned.get(key)
        if found is None:
            kernel = [EarleyItem(i.rule, i.dot + 1, i.since or items) for i in items.waiting[True, name]]
            if len(self._scanned) >= _KEPT:
                self._scanned, self._sets = {}, {}
            found = self._scanned[key] = self._set(kernel)
        return found

    def least(self, words: Callable[[Any, Any], Any]) -> ParseCosts:
        """Return the costs of finishing a parse; `words`: short words of lexemes."""
        if self._least is None:
            short = {name: words(lexeme, lexeme.start) for name, lexeme in self.lexemes.items()}
            self._least = ParseCosts(self.rules, short, list(self.regions))
        return self._least

    def _set(self, kernel: list[EarleyItem], first: bool = False) -> ItemSet:
        """Close `kernel` under prediction and completion. Raises `GrammarLimit` past 5,000 items."""
        items: dict[EarleyItem, None] = dict.fromkeys(kernel)
        predicted: set[str] = {self.start} if first else set()
        waiting: set[EarleyItem] = set()
        whole = False
        for item in _growing(items):
            tick()
            if len(items) > _MOST_ITEMS:
                raise GrammarLimit(f"the grammar is in more than {_MOST_ITEMS} places at once; make it less ambiguous")
            rule = self.rules[item.rule]
            if item.dot == len(rule.expansion):
                whole = whole or (rule.origin == self.start and self._began(item, first))
                self._complete(item, rule.origin, items)
                continue
            waiting.add(item)
            is_terminal, name = rule.expansion[item.dot]
            if is_terminal:
                continue
            if name not in predicted:
                predicted.add(name)
                items.update(dict.fromkeys(EarleyItem(number, 0, None) for number in self.by_origin[name]))
            if name in self.nullable:
                items[EarleyItem(item.rule, item.dot + 1, item.since)] = None
        key = (frozenset(waiting), whole)
        found = self._sets.get(key)
        if found is None:
            found = self._sets[key] = ItemSet(self, key[0], whole)
            if first:
                self.first = found
        return found

    def _began(self, item: EarleyItem, first: bool) -> bool:
        """The item began with the text."""
        return first if item.since is None else item.since is self.first

    def _complete(self, item: EarleyItem, origin: str, items: dict[EarleyItem, None]) -> None:
        """Advance what waited for `origin` where the item began. Empty rules are advanced when they are predicted."""
        since = item.since
        if since is None:
            return
        for waiting in since.waiting.get((False, origin), ()):
            items[EarleyItem(waiting.rule, waiting.dot + 1, waiting.since or since)] = None


def _growing(items: dict[EarleyItem, None]):  # type: ignore[no-untyped-def]
    """Yield items in order, with those that are added on the way."""
    seen = 0
    while seen < len(items):
        for item in list(items)[seen:]:
            seen += 1
            yield item
