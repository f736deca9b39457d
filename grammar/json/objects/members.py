"""Members of open objects: the readings from the end of a name to the end of its value."""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import Any, Protocol

from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.container import LayoutSource, PartDone, closed_guard
from sluicegate.grammar.json.layout import Then
from sluicegate.grammar.json.novelty import NovelMember, new_value
from sluicegate.grammar.json.objects.lookahead import ObjectLookahead
from sluicegate.grammar.json.objects.novelty import rests_of
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.objects.progress import After
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import ByteChoice
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.schema.containers import Conjunction

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
    ) -> ObjectMembers:
        """Return the state for these arguments: the same object every time, as long as it is kept."""

    def satisfiable(self, terms: Conjunction) -> bool: ...

    def may_lack(self, terms: Conjunction) -> bool:
        """Return whether values of `terms` may have to be left out, or have parts that may, where they must be new."""

    def without_taken(self, terms: Conjunction, taken: Collection[Any]) -> Conjunction:
        """Return `terms` without the values `taken`, in `canonical` form."""


class ObjectMembers(ObjectLookahead[ObjectSource]):
    """Returns what comes after the names of an open object. Its arguments are those of `ObjectProgress`."""

    __slots__ = ("_is_novel_known", "_novel", "entries")

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
        self._novel: NovelMember | None = None
        self._is_novel_known = False

    def moved(self, after: After) -> ObjectMembers:
        at, count, met = after
        return self.values.object_state(self.plan, at, count, self.follow, met, self.used)

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
    def novel(self) -> NovelMember | None:
        """Return the guard of the member that led here where little may come behind it, and the object must differ from
        those before."""
        if not self._is_novel_known:
            whole = new_value(self.follow)
            few = None if whole is None else rests_of(self)
            self._novel = None if whole is None or few is None else NovelMember(few, whole)
            # Last: a call that ran out of its bound on the way must not leave the guard out from then on.
            self._is_novel_known = True
        return self._novel


class MemberStart(Continuation):
    """The continuation after a name: `:`, optional blanks, the value, then `state`."""

    __slots__ = ("_known", "_left", "state", "terms")

    def __init__(self, state: ObjectMembers, terms: Conjunction) -> None:
        super().__init__()
        self.state = state
        self.terms = terms
        self._known: tuple[Reading, ...] | None = None
        self._left: tuple[Collection[Any], MemberStart | None] | None = None
        """What was left when it was asked last: a mask asks the same of many tokens."""

    def after(self, outcome: int) -> tuple[Reading, ...]:
        if self._known is None:
            layout = self.state.values.layout
            self._known = (ByteChoice({_COLON: Then(lambda: layout.optional(layout.colon, Then(self._value)))}),)
        return self._known

    def _value(self) -> tuple[Reading, ...]:
        return (self.state.values.start(self.terms, self.state.part_done()),)

    @property
    def may_lack(self) -> bool:
        """Return whether some of the values may have to be left out."""
        return self.state.novel is not None and self.state.values.may_lack(self.terms)

    def new(self, tape: Tape, end: int, name: str) -> MemberStart | None:
        """Return the same start without values that could only repeat an earlier item; None where none is left. `end`:
        the object is written up to there, without the name."""
        novel, values = self.state.novel, self.state.values
        if novel is None or not values.may_lack(self.terms):
            return self
        taken = novel.taken_by(tape, end, json.dumps(name).encode() + b":")
        if self._left is None or self._left[0] is not taken:
            left: MemberStart | None = self
            terms = values.without_taken(self.terms, taken)
            if terms != self.terms:
                left = MemberStart(self.state, terms) if values.satisfiable(terms) else None
            self._left = taken, left
        return self._left[1]


class MemberDone(PartDone[ObjectMembers]):
    """The continuation after a member of an object."""

    __slots__ = ()
    outward = True

    def pointer(self) -> str:
        return self.state.pointer()
