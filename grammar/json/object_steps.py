"""Continuations inside an object: before a name, behind it, at its value, and after a member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.reading.readings import ByteChoice
from sluicegate.grammar.schema import strings
from sluicegate.grammar.schema.containers import Conjunction
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sluicegate.grammar.json.objects import ObjectState

_COLON = 0x3A


class NameStart(Then):
    """Before the first byte of a name, behind its opening quote."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__(state.in_name)
        self.state = state

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.name_lookahead(vocabulary) or super()._find(outcome, at, vocabulary)


class MemberStart(Continuation):
    """After a name: `:`, perhaps blanks, the value, and on with `state`."""

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
        return (self.state.values.start(self.terms, self.state.member_done()),)


class ListedName(Continuation):
    """After a listed name; the outcome is its index."""

    __slots__ = ("state",)

    def __init__(self, state: ObjectState) -> None:
        super().__init__()
        self.state = state

    def pointer(self) -> str:
        return next(filter(None, map(self.state.values.pointer, self.state.plan.values)), "")

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for entry in self.state.entries_of(outcome) for reading in entry.after(0)])

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.entry_lookahead(outcome, at, vocabulary) or super()._find(outcome, at, vocabulary)


class FreeName(Continuation):
    """After a name that is not listed, of the plan's kind `index`."""

    __slots__ = ("index", "state")

    def __init__(self, state: ObjectState, index: int) -> None:
        super().__init__(state.plan.distinct)
        self.state = state
        self.index = index

    @property
    def entries(self) -> list[MemberStart]:
        return self.state.entries_of(-1 - self.index)

    def pointer(self) -> str:
        return next((entry.state.values.pointer(entry.terms) for entry in self.entries), "")

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for entry in self.entries for reading in entry.after(0)])

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        readings, state = super().finish(outcome, run, end_offset), self.state
        if not readings or not state.plan.leafy:
            return readings
        assert run.tape is not None
        assert run.tape.open is not None
        name = run.tape.last_string()
        if not state.used and not strings.ends_at(state.plan.free_names, name):
            return readings
        used = (run.tape.open.keys | {name}) - state.plan.refused
        return FreeName(state.without(used), self.index).after(outcome)

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.entry_lookahead(-1 - self.index, at, vocabulary) or super()._find(outcome, at, vocabulary)


class MemberDone(Then):
    """After a member of an object: its frame, which is in `state`, goes on or closes."""

    __slots__ = ("state",)
    in_frame = False
    outward = True
    by_outcome = False

    def __init__(self, state: ObjectState) -> None:
        super().__init__(state.between)
        self.state = state

    def pointer(self) -> str:
        return next(filter(None, map(self.state.values.pointer, self.state.plan.values)), "")

    def outer(self) -> Continuation:
        return self.state.follow

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.between_lookahead(vocabulary) or super()._find(outcome, at, vocabulary)
