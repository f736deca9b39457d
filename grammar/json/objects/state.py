"""States of open objects between members: the readings of names and values."""

from __future__ import annotations

from collections.abc import Container
from typing import Protocol

from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.container import LayoutSource, PartDone, closed_guard
from sluicegate.grammar.json.few_values import FewValue
from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.json.objects.lookahead import ObjectLookahead
from sluicegate.grammar.json.objects.novelty import Novel, is_unique_item, rests_of, without_repeated
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.progress import After
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.lexemes.literals import Literals
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import TEXT_NEEDED, Guard
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Conjunction
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_COLON, _COMMA = 0x3A, 0x2C


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

    def satisfiable(self, terms: Conjunction) -> bool: ...


class ObjectState(ObjectLookahead):
    """An open object between members. Its arguments are those of `ObjectProgress`."""

    __slots__ = ("_by_text", "_free", "_is_novel_known", "_names", "_novel", "entries")
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
        self._novel: Novel | None = None
        self._is_novel_known = False
        self._by_text: bool | None = None

    # --- names ---

    def parts(self) -> tuple[Reading, ...]:
        if self._names is None:
            guards: dict[int, Guard] | None = {QUOTE: TEXT_NEEDED} if self._may_lack_names else None
            self._names = (ByteChoice({QUOTE: NameStart(self)}, guards),)
        return self._names

    @property
    def _may_lack_names(self) -> bool:
        """Return whether some name that may come, and need not, may have no value left."""
        return self.by_text and (not self.at or len(self.offered()) > 1 or self.may_close())

    def names_left(self, tape: Tape, end: int) -> list[int]:
        """Return the listed names that may come next and have a value that does not only repeat an earlier item.
        `end`: the object is written up to there."""
        names = self.plan.names
        return [i for i in self.offered() if any(entry.new(tape, end, names[i]) for entry in self.entries_of(i))]

    def _next_or_close(self) -> tuple[ByteChoice, ...]:
        found = super()._next_or_close()
        if self.may_go_on() and self._may_lack_names:
            found = (ByteChoice(found[0].moves, {_COMMA: NamesLeft(self)}), *found[1:])
        return found

    def in_name(self, left: list[int] | None = None) -> tuple[Reading, ...]:
        """Return the readings of names, behind the quote. `left`: those of the listed ones; None: all that may come."""
        if not (self.is_offered() if left is None else left):
            return self.free_names()
        lexeme = self._listed() if left is None else self._chosen(left)
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
        return self._chosen(range(offered[0], offered[-1] + 1) if plan.in_order else frozenset(offered))

    def _chosen(self, names: Container[int]) -> Literals:
        return Literals([pair for pair in self.plan.spelled if pair[1] in names])

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
            guard = closed_guard(self) or self.novel
            self._done = MemberDone(self, guard)
        return self._done

    @property
    def novel(self) -> Novel | None:
        """Return the guard of the member that led here where little may come behind it, and the object must differ from
        those before."""
        if not self._is_novel_known:
            self._is_novel_known = True
            few = rests_of(self) if is_unique_item(self.follow) else None
            self._novel = None if few is None else Novel(few)
        return self._novel

    @property
    def by_text(self) -> bool:
        """Return whether what may follow one of the names that may come next depends on the items before."""
        if self._by_text is None:
            self._by_text = is_unique_item(self.follow) and any(map(self._leaves_little, self.offered()))
        return self._by_text

    def _leaves_little(self, index: int) -> bool:
        """Return whether name `index` has few values, and little may come behind it."""
        roomy = self.values.roomy(self.plan.values)
        return not roomy >> index & 1 and any(entry.few is not None for entry in self.entries_of(index))


class NameStart(Then):
    """The continuation after the opening quote of a name."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__(state.in_name)
        self.state = state

    @property
    def by_text(self) -> bool:  # type: ignore[override]
        return self.state.by_text

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        run.reads_text()
        assert run.tape is not None
        return self.state.in_name(self.state.names_left(run.tape, run.tape.string[0]))

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.name_lookahead(at, vocabulary) or super()._find(outcome, at, vocabulary)


class NamesLeft:
    """Another member may come: a name is left that has a value which does not only repeat an earlier item."""

    def __init__(self, state: ObjectState) -> None:
        self.state = state

    def allows(self, tape: Tape, end: int) -> bool:
        return self.state.offers_free() or bool(self.state.names_left(tape, end))

    def refused(self, tape: Tape, among: Container[str]) -> None:
        return None


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

    @property
    def few(self) -> tuple[FewValue, ...] | None:
        """Return the values where they are few, and some of them may have to be left out."""
        return None if self.state.novel is None else self.state.values.few(self.terms)

    def new(self, tape: Tape, end: int, name: str) -> MemberStart | None:
        """Return the same start without values that could only repeat an earlier item; None where none is left. `end`:
        the object is written up to there, without the name."""
        novel, few = self.state.novel, self.few
        if novel is None or few is None:
            return self
        terms = without_repeated(self.terms, few, tape, end, name, novel)
        if terms == self.terms:
            return self
        return MemberStart(self.state, terms) if self.state.values.satisfiable(terms) else None


class ListedName(Continuation):
    """The continuation after a listed name; the outcome is its index."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__(TEXT_NEEDED if state.by_text else None)
        self.state = state

    def pointer(self) -> str:
        return self.state.pointer()

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for entry in self.state.entries_of(outcome) for reading in entry.after(0)])

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        if self.guard is None:
            return self.after(outcome)
        run.passes(self.guard, end_offset)
        run.reads_text()
        assert run.tape is not None
        name, found = self.state.plan.names[outcome], list[Reading]()
        for entry in self.state.entries_of(outcome):
            new = entry.new(run.tape, run.tape.string[0], name)
            found += () if new is None else new.after(0)
        return tuple(found)

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
