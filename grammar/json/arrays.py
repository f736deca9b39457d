"""Arrays: what the next item may be, and when the array may end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sluicegate.grammar.json.array_steps import ConstantDone, ItemDone
from sluicegate.grammar.json.layout import Between, Then, closing
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.literals import literals
from sluicegate.grammar.lexemes.words import Words
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import DistinctItem, Guard
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.schema.containers import Conjunction, Constant, conjunction, negated
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sluicegate.grammar.json.values import Values
    from sluicegate.grammar.schema.containers import Contains

_BRACKET, _COMMA = 0x5D, 0x2C


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
    paired: int | None = None
    """Where some two items must be equal: the last place of one that a later one may repeat, see `repeats`."""

    def at(self, index: int) -> Conjunction | None:
        return self.prefix[index] if index < len(self.prefix) else self.rest

    @property
    def horizon(self) -> int:
        """Indexes from here on are all alike."""
        starts = [wanted.start for wanted in self.contains]
        return max(len(self.prefix), self.low, 0 if self.high is None else self.high, *starts)


Hits = tuple[int, ...]
Used = int | frozenset[Constant]
_MOST = 20_000
"""Situations looked at for a way to the end; an array that has more is taken to have one."""


class Counting:
    """Which items may count for which `contains`, and from where all counts can still come right. Remembered."""

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
        """Depth first, what counts most before the rest."""
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


class ArrayState:
    """An open array between items. `index`: items so far, cut off at the plan's horizon; `hits`: items counted by each
    `contains`; `used`: bit set over `plan.members`, or, where the plan is tight, what items must not be any more."""

    __slots__ = ("_after", "_before", "_done_here", "done", "follow", "hits", "index", "plan", "used", "values")

    def __init__(
        self, values: Values, plan: ArrayPlan, index: int, hits: tuple[int, ...], used: Used, follow: Continuation
    ) -> None:
        self.values = values
        self.plan = plan
        self.index = index
        self.hits = hits
        self.used = used
        self.follow = follow
        self.done: dict[tuple[int, ...], Continuation] = {}
        self._done_here: Continuation | None = None
        self._before: tuple[Reading, ...] | None = None
        self._after: tuple[Reading, ...] | None = None

    def without(self, item: Any) -> ArrayState:
        """The same place where `item` has been given."""
        given = self.values.excluded(self.plan, item)
        if given is None:
            return self
        used = self.used | {given} if isinstance(self.used, frozenset) else frozenset({given})
        return self.values.array_state(self.plan, self.index, self.hits, used, self.follow)

    def may_close(self) -> bool:
        plan = self.plan
        return self.index >= plan.low and all(
            hit >= wanted.low for hit, wanted in zip(self.hits, plan.contains, strict=True)
        )

    def may_go_on(self) -> bool:
        plan = self.plan
        if plan.members is not None and self.used == (1 << len(plan.members)) - 1:
            return False
        if plan.contains:
            return bool(self.values.counting(plan).moves(self.index, self.hits))
        if (plan.high is not None and self.index >= plan.high) or plan.at(self.index) is None:
            return False
        return not plan.tight or not self.used or self.values.satisfiable(self._terms())

    def opened(self) -> tuple[Reading, ...]:
        """After `[`."""
        if self._before is None:
            layout = self.values.layout
            readings: tuple[Reading, ...] = ()
            if self.may_go_on():
                readings = layout.optional(layout.block, Then(self.items))
            if self.may_close():
                readings = (*readings, *self._close(), *layout.before_close(Then(self._close)))
            self._before = readings
        return self._before

    def between(self) -> tuple[Reading, ...]:
        """After an item."""
        if self._after is None:
            after: tuple[Reading, ...] = ()
            if self.may_go_on() or self.may_close():
                after = (Between(self.item_done(), self._next_or_close),)
            if self.may_close():
                # Where the check refuses the bracket, a comma may come instead.
                ending = self._close if self.plan.check is None else self._next_or_close
                after = (*after, *self.values.layout.before_close(Then(ending)))
            self._after = after
        return self._after

    def _next_or_close(self) -> tuple[ByteChoice, ...]:
        layout = self.values.layout
        closing = self._close() if self.may_close() else ()
        if not self.may_go_on():
            return closing
        return (ByteChoice({_COMMA: Then(lambda: layout.optional(layout.block, Then(self.items)))}), *closing)

    def _close(self) -> tuple[ByteChoice, ...]:
        return tuple(closing(_BRACKET, self.plan.check, follow) for follow in self.follow.branches)

    # --- what can be read, told from the facts; None where threads tell it ---

    def opened_lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        """After `[`, at `at`."""
        items = self._items_read(at, vocabulary)
        return None if items is None else self._or_closed(HERE | items, vocabulary)

    def between_lookahead(self, vocabulary: Vocabulary) -> Lookahead | None:
        """After an item."""
        comma = vocabulary.punctuation.by_path.get(b",")
        if comma is None or not self.may_go_on():
            return self._or_closed(HERE, vocabulary)
        items = self._items_read(comma, vocabulary)
        return None if items is None else self._or_closed(HERE | comma.lift(HERE | items), vocabulary)

    def _items_read(self, at: PunctuationNode, vocabulary: Vocabulary) -> int | None:
        """Perhaps blanks, and an item; None where something follows it inside a token, or a guard is asked."""
        if not self.may_go_on():
            return 0
        plan, layout, punctuation = self.plan, self.values.layout, vocabulary.punctuation
        if plan.members is not None or plan.contains:
            return None
        value = self.values.value_lookahead(self._terms(), at, vocabulary)
        ends = layout.delayed(layout.block, value.ends, punctuation) & (at.domain if plan.unique else at.forks)
        return None if value.doubtful or ends else layout.spaced(layout.block, value.read | value.ends, punctuation)

    def _or_closed(self, read: int, vocabulary: Vocabulary) -> Lookahead | None:
        if not self.may_close():
            return Lookahead(read)
        if self.plan.check is not None:
            return None
        closed = self.values.layout.close_lookahead(_BRACKET, self.follow, vocabulary)
        return closed._replace(read=closed.read | read)

    # --- items ---

    def _terms(self) -> Conjunction:
        terms = self.plan.at(self.index)
        assert terms is not None
        if not isinstance(self.used, frozenset):
            return terms
        return conjunction((*terms, *map(negated, sorted(self.used, key=lambda value: value.json))))

    def items(self) -> tuple[Reading, ...]:
        """At the first byte of the next item."""
        plan = self.plan
        if plan.members is not None:
            return self._members(plan.members)
        if not plan.contains:
            return (self.values.start(self._terms(), self._done((), ())),)
        moves = self.values.counting(plan).moves(self.index, self.hits)
        return tuple([self.values.start(facts, self._done(hit, hits)) for hit, facts, hits in moves])

    def _done(self, hit: tuple[int, ...], hits: tuple[int, ...]) -> Continuation:
        found = self.done.get(hit)
        if found is None:
            plan = self.plan
            after = self.values.array_state(plan, min(self.index + 1, plan.horizon), hits, self.used, self.follow)
            done = ItemDone(after, DistinctItem(plan.fixed)) if plan.unique else after.item_done()
            found = self.done[hit] = done
        return found

    def item_done(self) -> Continuation:
        """After an item that led here, whatever it was."""
        if self._done_here is None:
            self._done_here = ItemDone(self, None)
        return self._done_here

    def _members(self, members: tuple[tuple[bool, str], ...]) -> tuple[Reading, ...]:
        assert isinstance(self.used, int)
        used = self.used
        left = [i for i in range(len(members)) if not used >> i & 1]
        words = [i for i in left if members[i][0]]
        others = [i for i in left if not members[i][0]]
        readings: list[Reading] = []
        if words:
            lexeme = literals([members[i][1] for i in words])
            taken = ConstantDone(self, words)
            readings.append(ByteChoice({QUOTE: lambda: (InLexeme(lexeme, lexeme.start, taken),)}))
        if others:
            spelled = Words([(text.encode(), k) for k, i in enumerate(others) for text in members[i][1].split("|")])
            readings.append(InLexeme(spelled, spelled.start, ConstantDone(self, others)))
        return tuple(readings)
