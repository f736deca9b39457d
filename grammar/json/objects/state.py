"""States of open objects between members: the readings of names and values."""

from __future__ import annotations

from typing import Protocol

from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.container import LayoutSource, PartDone, closed_guard
from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.json.objects.lookahead import ObjectLookahead
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.progress import After
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Conjunction
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_COLON = 0x3A


class ObjectSource(LayoutSource, Protocol):
    """The part of `Values` that objects use."""

    def object_state(
        self,
        plan: ObjectPlan,
        at: int,
        count: int,
        follow: Continuation,
        met: int = 0,
        used: GivenTexts | None = None,
    ) -> ObjectState:
        """Return the state for these arguments: the same object every time, as long as it is kept."""


class ObjectState(ObjectLookahead):
    """An open object between members. Its arguments are those of `ObjectProgress`."""

    __slots__ = ("_free", "_names", "entries")
    bracket = 0x7D
    values: ObjectSource

    def __init__(
        self,
        values: ObjectSource,
        plan: ObjectPlan,
        at: int,
        count: int,
        follow: Continuation,
        met: int = 0,
        used: GivenTexts | None = None,
    ) -> None:
        super().__init__(values, plan, at, count, follow, met, used)
        self.entries: dict[tuple[int, int], MemberStart] = {}
        self._names: tuple[Reading, ...] | None = None
        self._free: tuple[InLexeme, ...] | None = None

    # --- names ---

    def parts(self) -> tuple[Reading, ...]:
        if self._names is None:
            self._names = (ByteChoice({QUOTE: NameStart(self)}),)
        return self._names

    def in_name(self) -> tuple[Reading, ...]:
        if not self.is_offered():
            return self.free_names()
        lexeme = self._listed()
        return (InLexeme(lexeme, lexeme.start, ListedName(self)), *self.free_names())

    def free_names(self) -> tuple[InLexeme, ...]:
        if self._free is None:
            kinds = self.kinds if self.offers_free() else ()
            offered = [each for each in kinds if not self.plan.some or self.ways(-1 - each[0][0])]
            self._free = tuple([InLexeme(name, name.start, FreeName(self, some)) for some, name in offered])
        return self._free

    def _listed(self) -> Literals:
        """Return the lexeme of the listed names that may come next, of which there is at least one."""
        plan = self.plan
        if plan.unordered:
            return plan.names_left(self.at)
        offered = self.offered()
        chosen = range(offered[0], offered[-1] + 1) if plan.in_order else frozenset(offered)
        return Literals([pair for pair in plan.spelled if pair[1] in chosen])

    # --- members ---

    def moved(self, after: After) -> ObjectState:
        at, count, met = after
        return self.values.object_state(self.plan, at, count, self.follow, met, self.used)

    def without(self, names: GivenTexts) -> ObjectState:
        """Return the same state with the free names `names` counted as given."""
        return self.values.object_state(self.plan, self.at, self.count, self.follow, self.met, names)

    def entries_of(self, index: int) -> list[MemberStart]:
        """Return the member starts after name `index` (-1 - k: a free name of kind k), given in this state."""
        plan = self.plan
        if plan.some:
            ways = self.ways(index)
            return [self.moved(after).entry(index, terms, way) for way, (after, terms) in enumerate(ways)]
        terms = plan.values[index] if index >= 0 else plan.free[-1 - index]
        return [self.moved(self.after(index)).entry(index, terms)]

    def entry(self, index: int, terms: Conjunction, way: int = 0) -> MemberStart:
        """Return the member start after the name that led to this state: `index` of a listed name, -1 - k for the k-th
        kind of free names. It is one object for all states that offered the name.
        """
        found = self.entries.get((index, way))
        if found is None or found.terms != terms:
            found = self.entries[index, way] = MemberStart(self, terms)
        return found

    def part_done(self) -> Continuation:
        if self._done is None:
            self._done = MemberDone(self, closed_guard(self))
        return self._done


class NameStart(Then):
    """The continuation after the opening quote of a name."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__(state.in_name)
        self.state = state

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.name_lookahead(at, vocabulary) or super()._find(outcome, at, vocabulary)


class MemberStart(Continuation):
    """The continuation after a name: `:`, optional blanks, the value, then `state`."""

    __slots__ = ("_known", "state", "terms")

    def __init__(self, state: ObjectState, terms: Conjunction) -> None:
        super().__init__()
        self.state = state
        self.terms = terms
        self._known: tuple[Reading, ...] | None = None

    def after(self, outcome: int) -> tuple[Reading, ...]:
        if self._known is None:
            layout = self.state.values.layout
            self._known = (ByteChoice({_COLON: Then(lambda: layout.optional(layout.colon, Then(self._value)))}),)
        return self._known

    def _value(self) -> tuple[Reading, ...]:
        return (self.state.values.start(self.terms, self.state.part_done()),)


class ListedName(Continuation):
    """The continuation after a listed name; the outcome is its index."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__()
        self.state = state

    def pointer(self) -> str:
        return self.state.pointer()

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for entry in self.state.entries_of(outcome) for reading in entry.after(0)])

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.entry_lookahead(outcome, at, vocabulary) or super()._find(outcome, at, vocabulary)


class FreeName(Continuation):
    """The continuation after a name that is not listed, of the plan's kind `kinds[outcome]`."""

    __slots__ = ("kinds", "state")

    def __init__(self, state: ObjectState, kinds: tuple[int, ...]) -> None:
        super().__init__(state.plan.distinct)
        self.state = state
        self.kinds = kinds

    def entries(self, outcome: int) -> list[MemberStart]:
        return self.state.entries_of(-1 - self.kinds[outcome])

    def pointer(self) -> str:
        outcomes = range(len(self.kinds))
        found = (entry.state.values.pointer(entry.terms) for k in outcomes for entry in self.entries(k))
        return next(filter(None, found), "")

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for entry in self.entries(outcome) for reading in entry.after(0)])

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        readings, state = super().finish(outcome, run, end_offset), self.state
        if not readings or not state.plan.leafy:
            return readings
        assert run.tape is not None
        assert run.tape.open is not None
        run.reads_text()
        name = run.tape.last_string()
        if state.used is not None:
            used = state.used.plus(name)
        elif not strings.ends_at(state.plan.free_names, name):
            return readings
        else:
            used = state.plan.none_given
            for each in sorted((run.tape.open.keys.all() | {name}) - state.plan.refused):
                used = used.plus(each)
        return FreeName(state.without(used), (self.kinds[outcome],)).after(0)

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        known = self.state.entry_lookahead(-1 - self.kinds[outcome], at, vocabulary)
        return known or super()._find(outcome, at, vocabulary)


class MemberDone(PartDone):
    """The continuation after a member of an object."""

    __slots__ = ()
    outward = True
    state: ObjectState

    def pointer(self) -> str:
        return self.state.pointer()
