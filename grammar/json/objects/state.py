"""States of open objects between members: the readings of names."""

from __future__ import annotations

from collections.abc import Container

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.json.novelty import new_value
from sluicegate.grammar.json.objects.members import MemberStart, ObjectMembers, ObjectSource
from sluicegate.grammar.json.objects.novelty import leaves_much
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.lexemes.base import QUOTE
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import TEXT_NEEDED, Guard
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.schema import strings
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode, bit_numbers
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_COMMA = 0x2C
_OF_NAMES, _OF_FINISH = 15, 5
"""Work charged for the names that are left where items before matter, and for the end of a free name."""


class ObjectState(ObjectMembers):
    """An open object between members. Its arguments are those of `ObjectProgress`."""

    __slots__ = ("_by_text", "_free", "_frees_by_text", "_in_name_left", "_names")
    bracket = 0x7D

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
        self._names: tuple[Reading, ...] | None = None
        self._free: tuple[InLexeme, ...] | None = None
        self._by_text: bool | None = None
        self._frees_by_text: bool | None = None
        self._in_name_left: tuple[bytes, tuple[Reading, ...]] | None = None
        """The text that was asked about last, and the answer: a mask asks the same of many tokens."""

    # --- names ---

    def parts(self) -> tuple[Reading, ...]:
        if self._names is None:
            guards: dict[int, Guard] | None = {QUOTE: TEXT_NEEDED} if self._may_lack_names else None
            self._names = (ByteChoice({QUOTE: NameStart(self)}, guards),)
        return self._names

    @property
    def _may_lack_names(self) -> bool:
        """Return whether some name that may come, and need not, may have no value left."""
        if not self.by_text:
            return False
        return not self.at or self.offered().bit_count() > 1 or self.may_close() or self.frees_by_text

    def names_left(self, tape: Tape, end: int) -> int:
        """Return the bit set of the listed names that may come next and have a value that does not only repeat an
        earlier item. `end`: the object is written up to there."""
        names, found = self.plan.names, self.offered()
        for i in bit_numbers(found):
            if not any(entry.new(tape, end, names[i]) for entry in self.entries_of(i)):
                found ^= 1 << i
        return found

    def free_names_left(self, tape: Tape, end: int) -> tuple[InLexeme, ...]:
        """Return the readings of free names, without those that cannot grow and have no value but what only repeats an
        earlier item. `end`: as above."""
        found = self.free_names()
        if not (found and self.plan.leafy and self.frees_by_text):
            return found
        follows = {name.follow.kinds: name.follow for name in found if isinstance(name.follow, FreeName)}
        gone = self.used or self.plan.none_given
        for name in self._names_beside(tape, end):
            kinds = [k for some in follows for k in some if strings.contains((self.plan.free_names[k],), name)]
            if not any(entry.new(tape, end, name) for k in kinds for entry in self.entries_of(-1 - k)):
                gone = gone.plus(name)
        left = [(kinds, lexeme) for kinds, lexeme in self.plan.lexemes_left(gone) if kinds in follows]
        return tuple([InLexeme(lexeme, lexeme.start, follows[kinds]) for kinds, lexeme in left])

    def _names_beside(self, tape: Tape, end: int) -> list[str]:
        kinds = [k for some, _ in self.kinds for k in some]
        guards = (entry.state.novel for k in kinds for entry in self.entries_of(-1 - k))
        novel = next((guard for guard in guards if guard is not None), None)
        return [] if novel is None else novel.names(tape, end)

    def _next_or_close(self) -> tuple[ByteChoice, ...]:
        found = super()._next_or_close()
        if self.may_go_on() and self._may_lack_names:
            found = (ByteChoice(found[0].moves, {_COMMA: NamesLeft(self)}), *found[1:])
        return found

    def in_name(self) -> tuple[Reading, ...]:
        """Return the readings of names, behind the quote."""
        if not self.offered():
            return self.free_names()
        lexeme = self.plan.among(self.offered())
        return (InLexeme(lexeme, lexeme.start, ListedName(self)), *self.free_names())

    def in_name_left(self, tape: Tape, end: int) -> tuple[Reading, ...]:
        """Return the same without names that have no value but what only repeats an earlier item. `end`: the object is
        written up to there."""
        before = bytes(tape.text[:end])
        if self._in_name_left is None or self._in_name_left[0] != before:
            charge(_OF_NAMES)
            left, found = self.names_left(tape, end), self.free_names_left(tape, end)
            readings: tuple[Reading, ...] = found
            if left:
                lexeme = self.plan.among(left)
                readings = (InLexeme(lexeme, lexeme.start, ListedName(self)), *found)
            self._in_name_left = before, readings
        return self._in_name_left[1]

    def free_names(self) -> tuple[InLexeme, ...]:
        if self._free is None:
            kinds = self.kinds if self.offers_free() else ()
            offered = [each for each in kinds if not self.plan.some or self.ways(-1 - each[0][0])]
            self._free = tuple([InLexeme(name, name.start, FreeName(self, some)) for some, name in offered])
        return self._free

    def without_name(self, tape: Tape) -> ObjectMembers:
        """Return the same state with the free name just written counted as given, where it must be excluded later."""
        if not self.plan.leafy:
            return self
        name, used = tape.last_string(), self.used
        if used is not None:
            used = used.plus(name)
        elif strings.ends_at(self.plan.free_names, name):
            assert tape.open is not None
            used = self.plan.none_given
            for each in sorted((tape.open.keys.all() | {name}) - self.plan.refused):
                used = used.plus(each)
        else:
            return self
        return self.values.object_state(self.plan, self.at, self.count, self.follow, self.met, used)

    # --- where the object must be new ---

    @property
    def by_text(self) -> bool:
        """Return whether what may follow one of the names that may come next depends on the items before."""
        if self._by_text is None:
            is_new = new_value(self.follow) is not None
            self._by_text = is_new and (self.frees_by_text or self._listed_by_text())
        return self._by_text

    def _listed_by_text(self) -> bool:
        """Return the same of the listed names."""
        return not leaves_much(self) and any(map(self._leaves_little, bit_numbers(self.offered())))

    @property
    def frees_by_text(self) -> bool:
        """Return whether what may follow one of the free names that may come next depends on the items before."""
        if self._frees_by_text is None:
            kinds = [k for some, _ in self.kinds for k in some] if self.plan.high is not None else []
            asked = bool(kinds) and new_value(self.follow) is not None and self.offers_free()
            self._frees_by_text = asked and any(self._leaves_little(-1 - k) for k in kinds)
        return self._frees_by_text

    def _leaves_little(self, index: int) -> bool:
        """Return whether little may come behind name `index` (-1 - k: a free name of kind k), so that some of its
        values may have to be left out."""
        return any(entry.may_lack for entry in self.entries_of(index))


def new_of(entries: list[MemberStart], tape: Tape) -> list[MemberStart]:
    """Return `entries`, whose name was just written, without values that could only repeat an earlier item."""
    found = (entry.new(tape, tape.string[0], tape.last_string()) for entry in entries)
    return [new for new in found if new is not None]


class NameStart(Then):
    """The continuation after the opening quote of a name."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__(state.in_name)
        self.state = state

    @property
    def by_text(self) -> bool:
        return self.state.by_text

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        run.reads_text()
        assert run.tape is not None
        return self.state.in_name_left(run.tape, run.tape.string[0])

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.name_lookahead(at, vocabulary) or super()._find(outcome, at, vocabulary)


class NamesLeft:
    """Another member may come: a name is left that has a value which does not only repeat an earlier item."""

    def __init__(self, state: ObjectState) -> None:
        self.state = state

    def allows(self, tape: Tape, end: int) -> bool:
        return bool(self.state.free_names_left(tape, end) or self.state.names_left(tape, end))

    def refused(self, tape: Tape, among: Container[str]) -> None:
        return None


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
        entries = new_of(self.state.entries_of(outcome), run.tape)
        return tuple([reading for entry in entries for reading in entry.after(0)])

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.entry_lookahead(outcome, at, vocabulary) or super()._find(outcome, at, vocabulary)


class NewName:
    """A free name that is not given yet and has a value that does not only repeat an earlier item."""

    def __init__(self, name: FreeName) -> None:
        self._name = name

    def allows(self, tape: Tape, end: int) -> bool:
        return self._name.state.plan.distinct.allows(tape, end) and any(
            new_of(self._name.entries(outcome), tape) for outcome in range(len(self._name.kinds))
        )

    def refused(self, tape: Tape, among: Container[str]) -> None:
        return None


class FreeName(Continuation):
    """The continuation after a name that is not listed, of the plan's kind `kinds[outcome]`."""

    __slots__ = ("kinds", "state")

    def __init__(self, state: ObjectState, kinds: tuple[int, ...]) -> None:
        super().__init__(NewName(self) if state.frees_by_text else state.plan.distinct)
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
        charge(_OF_FINISH)
        readings, state = super().finish(outcome, run, end_offset), self.state
        if not readings or not (state.plan.leafy or state.frees_by_text):
            return readings
        assert run.tape is not None
        run.reads_text()
        entries = state.without_name(run.tape).entries_of(-1 - self.kinds[outcome])
        if state.frees_by_text:
            entries = new_of(entries, run.tape)
        return tuple([reading for entry in entries for reading in entry.after(0)])

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        known = self.state.entry_lookahead(-1 - self.kinds[outcome], at, vocabulary)
        return known or super()._find(outcome, at, vocabulary)
