"""The state of an open array: its possible next items, and whether it may end."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Container as Contained
from typing import Any, Protocol

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.json.arrays.novelty import rests_of
from sluicegate.grammar.json.arrays.plan import ArrayPlan, Counting, Hits
from sluicegate.grammar.json.arrays.unique_items import given_among
from sluicegate.grammar.json.container import Container, LayoutSource, PartDone, closed_guard
from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.json.novelty import NovelItem, new_value
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.literals import literals
from sluicegate.grammar.lexemes.string_supply import has_strings, have_more
from sluicegate.grammar.lexemes.words import Words
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import DistinctItem, all_of
from sluicegate.grammar.reading.reading import Place, Reading, Run
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.schema.containers import Conjunction, Fact
from sluicegate.grammar.schema.value_set import ValueSet
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

Used = int | frozenset[Fact]
COMMA = 0x2C
_OF_ITEM = 130
"""Work charged for an item that is excluded from later ones."""


class ArraySource(LayoutSource, Protocol):
    """The part of `Values` that arrays use."""

    def array_state(self, plan: ArrayPlan, index: int, hits: Hits, used: Used, follow: Continuation) -> ArrayState:
        """Return the state for these arguments: the same object every time, as long as it is kept."""

    def satisfiable(self, terms: Conjunction) -> bool: ...

    def may_lack(self, terms: Conjunction) -> bool:
        """Return whether values of `terms` may have to be left out, or have parts that may, where they must be new."""

    def without_taken(self, terms: Conjunction, taken: Collection[Any]) -> Conjunction:
        """Return `terms` without the values `taken`, in `canonical` form."""

    def value_set(self, terms: Conjunction) -> ValueSet: ...

    def counting(self, plan: ArrayPlan) -> Counting: ...

    def choices(self, plan: ArrayPlan) -> Any:
        """Return the `listed.Choices` of `plan`."""

    def unused(self, terms: Conjunction, facts: frozenset[Fact]) -> Conjunction:
        """Return `terms` with the `facts` that `without` returned."""

    def without(self, plan: ArrayPlan, facts: frozenset[Fact], item: Any) -> frozenset[Fact]:
        """Return the additional terms of later items of a tight plan after `item`; `facts`: those before `item`."""


class ArrayState(Container[ArrayPlan, ArraySource]):
    """An open array between items. `index`: items so far, capped at the plan's horizon; `hits`: items counted by each
    `contains`; `used`: bit set over `plan.members`, or, if the plan is tight, additional terms of later items."""

    __slots__ = ("_by_text", "_is_novel_known", "_left", "_novel", "done", "hits", "index", "used")
    bracket = 0x5D

    def __init__(
        self, values: ArraySource, plan: ArrayPlan, index: int, hits: Hits, used: Used, follow: Continuation
    ) -> None:
        super().__init__(follow)
        self.values = values
        self.plan = plan
        self.index = index
        self.hits = hits
        self.used = used
        self.done: dict[Hits, Continuation] = {}
        self._novel: NovelItem | None = None
        self._is_novel_known = False
        self._by_text: bool | None = None
        self._left: tuple[Collection[Any], tuple[Reading, ...]] | None = None
        """What was left when it was asked last: a mask asks the same of many tokens."""

    def without(self, item: Any) -> ArrayState:
        """Return the same state with `item` counted as given."""
        before = self.used if isinstance(self.used, frozenset) else frozenset[Fact]()
        used = self.values.without(self.plan, before, item)
        if used == before:
            return self
        return self.values.array_state(self.plan, self.index, self.hits, used, self.follow)

    def place(self, role: str) -> Place | None:
        plan = self.plan
        if not plan.contains:
            return None
        least = tuple([hit for hit, wanted in zip(self.hits, plan.contains, strict=True) if wanted.high is None])
        exact = tuple([hit for hit, wanted in zip(self.hits, plan.contains, strict=True) if wanted.high is not None])
        return (role, plan, self.index, self.used, self.follow, exact), least

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
            return bool(self._moves())
        if (plan.high is not None and self.index >= plan.high) or plan.at(self.index) is None:
            return False
        return not plan.tight or not self.used or self.values.satisfiable(self._terms())

    def parts_read(self, at: PunctuationNode, vocabulary: Vocabulary) -> int | None:
        if not self.may_go_on():
            return 0
        plan, layout, punctuation = self.plan, self.values.layout, vocabulary.punctuation
        if plan.members is not None or plan.contains:
            return None
        if self.by_text:
            return None
        if plan.unique and self.values.asks_items(self._terms(), self._after_item((), ())):
            return None
        value = self.values.value_lookahead(self._terms(), at, vocabulary)
        ends = layout.delayed(layout.block, value.ends, punctuation) & (at.domain if plan.unique else at.forks)
        return None if value.doubtful or ends else layout.spaced(layout.block, value.read | value.ends, punctuation)

    # --- items ---

    def _terms(self) -> Conjunction:
        terms = self.plan.at(self.index)
        assert terms is not None
        return self._unused(terms)

    def _unused(self, terms: Conjunction) -> Conjunction:
        """Return `terms` with the exclusions of the items given so far."""
        if not isinstance(self.used, frozenset):
            return terms
        return self.values.unused(terms, self.used)

    def _moves(self) -> list[tuple[Hits, Conjunction, Hits]]:
        """Return the possible next items under `contains`: (`contains` they count for, their terms, counts after
        them)."""
        values, moves = self.values, self.values.counting(self.plan).moves(self.index, self.hits)
        if not self.plan.tight or not self.used:
            return moves
        unused = [(hit, self._unused(facts), hits) for hit, facts, hits in moves]
        return [move for move in unused if values.satisfiable(move[1])]

    def parts(self) -> tuple[Reading, ...]:
        plan = self.plan
        if plan.members is not None:
            return self._members(plan.members)
        if not plan.contains:
            return (self.values.start(self._terms(), self._after_item((), ())),)
        return tuple([self.values.start(facts, self._after_item(hit, hits)) for hit, facts, hits in self._moves()])

    def _after_item(self, hit: Hits, hits: Hits) -> Continuation:
        """Return the continuation after the next item, which counts for `hit` and brings the counts to `hits`."""
        found = self.done.get(hit)
        if found is None:
            plan = self.plan
            after = self.values.array_state(plan, min(self.index + 1, plan.horizon), hits, self.used, self.follow)
            done = ItemDone(after, all_of(self._distinct(), closed_guard(after))) if plan.unique else after.part_done()
            found = self.done[hit] = done
        return found

    def _distinct(self) -> DistinctItem:
        plan = self.plan
        if not plan.fixed:
            return DistinctItem()
        if plan.rest is None or self.index + 1 < len(plan.prefix):
            return DistinctItem(tried=True)
        given = given_among(self.used) if isinstance(self.used, frozenset) else None
        ways = self.values.counting(plan).ways((plan.rest,)) if plan.contains else [plan.rest]
        sets = [self.values.value_set(facts).strings for facts in ways]
        count = 1 if given is None else given.texts.size + 1
        goes_on = all(have_more(found, count) or (len(ways) > 1 and not has_strings(found)) for found in sets)
        return DistinctItem(tried=not goes_on, reaching=True)

    def part_done(self) -> Continuation:
        if self._done is None:
            self._done = ItemDone(self, closed_guard(self) or self.novel)
        return self._done

    # --- where the array must be new ---

    @property
    def novel(self) -> NovelItem | None:
        """Return the guard of the item that led here where little may come behind it, and the array must be new."""
        if not self._is_novel_known:
            whole = new_value(self.follow)
            few = None if whole is None else rests_of(self.values, self.plan, self.index)
            self._novel = None if whole is None or few is None else NovelItem(few, whole)
            # Last: a call that ran out of its bound on the way must not leave the guard out from then on.
            self._is_novel_known = True
        return self._novel

    @property
    def by_text(self) -> bool:
        """Return whether the values that the next item may have depend on what the array must differ from."""
        if self._by_text is None:
            terms = None if self.plan.high is None or new_value(self.follow) is None else self.plan.at(self.index)
            self._by_text = terms is not None and self._next_novel() is not None and self.values.may_lack(terms)
        return self._by_text

    def _next_novel(self) -> NovelItem | None:
        plan = self.plan
        return self.values.array_state(plan, min(self.index + 1, plan.horizon), self.hits, self.used, self.follow).novel

    def parts_left(self, tape: Tape, end: int) -> tuple[Reading, ...]:
        """Return `parts` without values that lead to nothing new. The array is written up to `end`."""
        terms, novel = self._terms(), self._next_novel()
        assert novel is not None
        taken = novel.taken_by(tape, end, b"")
        if self._left is None or self._left[0] is not taken:
            left = self.values.without_taken(terms, taken)
            is_left = self.values.satisfiable(left)
            self._left = taken, (self.values.start(left, self._after_item((), ())),) if is_left else ()
        return self._left[1]

    def opened_in(self, tape: Tape) -> tuple[Reading, ...]:
        """Return the readings after the opening bracket, which `tape` ends with."""
        if not (self.by_text and self.may_go_on()):
            return self.opened()
        return (*ItemStart(self).left(tape), *self._closed_at_once())

    def _next_or_close(self) -> tuple[ByteChoice, ...]:
        if not (self.by_text and self.may_go_on()):
            return super()._next_or_close()
        comma = ByteChoice({COMMA: ItemStart(self)}, {COMMA: ItemsLeft(self)})
        return (comma, *(self._close() if self.may_close() else ()))

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


class ItemStart(Then):
    """Before an item whose values depend on what the array must differ from."""

    __slots__ = ("_state",)

    def __init__(self, state: ArrayState) -> None:
        layout = state.values.layout
        super().__init__(lambda: layout.optional(layout.block, Then(state.parts)))
        self._state = state

    @property
    def by_text(self) -> bool:
        return True

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        run.reads_text()
        assert run.tape is not None
        return self.left(run.tape)

    def left(self, tape: Tape) -> tuple[Reading, ...]:
        """Return the readings that are left of an item, with or without blanks before it."""
        parts, layout = self._state.parts_left(tape, len(tape.text)), self._state.values.layout
        return layout.optional(layout.block, Then(lambda: parts)) if parts else ()


class ItemsLeft:
    """Another item may come: it has a value that leads to something new."""

    def __init__(self, state: ArrayState) -> None:
        self._state = state

    def allows(self, tape: Tape, end: int) -> bool:
        return bool(self._state.parts_left(tape, end))

    def refused(self, tape: Tape, among: Contained[str]) -> None:
        return None


class ItemDone(PartDone[ArrayState]):
    """The continuation after an item. If items must be unique, `guard` asks whether it is new; if the plan is tight,
    `finish` reads the item from the text, to exclude it later."""

    __slots__ = ()

    @property
    def by_text(self) -> bool:
        return self.state.plan.few_containers

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        readings = super().finish(outcome, run, end_offset)
        if not readings or not self.state.plan.tight:
            return readings
        charge(_OF_ITEM)
        assert run.tape is not None
        item = run.tape.last_item(len(run.tape.text) - end_offset)
        return self.state.without(item).between()


class ConstantDone(Continuation):
    """The continuation after one of the remaining constants; outcome k is constant `offered[k]`."""

    __slots__ = ("offered", "state")

    def __init__(self, state: ArrayState, offered: list[int]) -> None:
        super().__init__()
        self.state = state
        self.offered = offered

    def after(self, outcome: int) -> tuple[Reading, ...]:
        state = self.state
        assert isinstance(state.used, int)
        after, used = min(state.index + 1, state.plan.horizon), state.used | 1 << self.offered[outcome]
        return state.values.array_state(state.plan, after, state.hits, used, state.follow).between()
