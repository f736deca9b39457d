"""The common part of open objects and arrays: the way from one part (a member or an item) to the next or to the closing
bracket."""

from __future__ import annotations

from abc import abstractmethod
from typing import Generic, Protocol, TypeVar

from sluicegate.grammar.json.few_values import FewValue
from sluicegate.grammar.json.layout import Between, Layout, Then, closing
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import AllGuards, DistinctItem, DistinctOnceClosed, Guard
from sluicegate.grammar.reading.lookahead import OVER, Lookahead, after_byte, joined
from sluicegate.grammar.reading.reading import Place, Reading
from sluicegate.grammar.reading.readings import ByteChoice
from sluicegate.grammar.reading.value_start import ValueSource
from sluicegate.grammar.schema.containers import Conjunction
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_COMMA = 0x2C


class LayoutSource(ValueSource, Protocol):
    layout: Layout

    def few(self, terms: Conjunction) -> tuple[FewValue, ...] | None:
        """Return all values of `terms`; None where they are many."""

    def roomy(self, members: tuple[Conjunction, ...]) -> int:
        """Return the bit set of those of `members` that have many values."""


class ContainerPlan(Protocol):
    @property
    def check(self) -> Guard | None:
        """Return the guard that is asked of the whole container when it is closed."""


_Plan = TypeVar("_Plan", bound=ContainerPlan, covariant=True)
SourceT = TypeVar("SourceT", bound=LayoutSource, covariant=True)


class Container(Generic[_Plan, SourceT]):
    """An open object or array between two parts. Immutable except for caches; `values` interns it, so that equal states
    are one object."""

    __slots__ = ("_between", "_done", "_opened", "follow", "plan", "values")
    bracket = 0
    """Byte of the closing bracket."""
    plan: _Plan
    values: SourceT

    def __init__(self, follow: Continuation) -> None:
        self.follow = follow
        self._done: Continuation | None = None
        self._opened: tuple[Reading, ...] | None = None
        self._between: tuple[Reading, ...] | None = None

    @abstractmethod
    def may_close(self) -> bool: ...

    @abstractmethod
    def may_go_on(self) -> bool:
        """Return whether another part may come."""

    @abstractmethod
    def parts(self) -> tuple[Reading, ...]:
        """Return the readings at the first byte of the next part."""

    @abstractmethod
    def part_done(self) -> Continuation:
        """Return the continuation after the part that led to this state: one object for all parts."""

    def parts_read(self, at: PunctuationNode, vocabulary: Vocabulary) -> int | None:
        """Return the nodes that whitespace and the next part read at `at`. None: something follows the part inside a
        token, or a guard is asked."""
        return None

    def parts_lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead of whitespace and the next part at `at`. None: something follows the part inside a
        token."""
        read = self.parts_read(at, vocabulary)
        return None if read is None else Lookahead(HERE | read)

    def place(self, role: str) -> Place | None:
        """Return the place of one of the points here, as `role` says; see `reading.Place`."""
        return None

    # --- readings ---

    def opened(self) -> tuple[Reading, ...]:
        """Return the readings after the opening bracket."""
        if self._opened is None:
            layout = self.values.layout
            readings = layout.optional(layout.block, self._before_part()) if self.may_go_on() else ()
            self._opened = (*readings, *self._closed_at_once())
        return self._opened

    def _closed_at_once(self) -> tuple[Reading, ...]:
        """Return the readings of the closing bracket after the opening one."""
        if not self.may_close():
            return ()
        return (*self._close(), *self.values.layout.before_close(Then(self._close, self.place("close"))))

    def between(self) -> tuple[Reading, ...]:
        """Return the readings after a part."""
        if self._between is None:
            after: tuple[Reading, ...] = ()
            if self.may_go_on() or self.may_close():
                after = (Between(self.part_done(), self._next_or_close),)
            if self.may_close():
                # Where a check, or the guard of an item, refuses the bracket, a comma may come instead.
                sure = self.plan.check is None and all(branch.guard is None for branch in self.follow.branches)
                ending = self._close if sure else self._next_or_close
                after = (*after, *self.values.layout.before_close(Then(ending, self.place("close"))))
            self._between = after
        return self._between

    def _next_or_close(self) -> tuple[ByteChoice, ...]:
        layout = self.values.layout
        closing = self._close() if self.may_close() else ()
        if not self.may_go_on():
            return closing
        return (ByteChoice({_COMMA: Then(lambda: layout.optional(layout.block, self._before_part()))}), *closing)

    def _before_part(self) -> Then:
        return Then(self.parts, self.place("part"))

    def _close(self) -> tuple[ByteChoice, ...]:
        return tuple([closing(self.bracket, self.plan.check, follow) for follow in self.follow.branches])

    # --- lookahead; None where only the readings know it: parts end inside a token, or guards are asked ---

    def opened_lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead after the opening bracket, at `at`."""
        parts = self.parts_lookahead(at, vocabulary)
        return None if parts is None else self._or_closed(parts, vocabulary)

    def between_lookahead(self, vocabulary: Vocabulary) -> Lookahead | None:
        """Return the lookahead after a part."""
        comma = vocabulary.punctuation.by_path.get(b",")
        if comma is None or not self.may_go_on():
            return self._or_closed(OVER, vocabulary)
        parts = self.parts_lookahead(comma, vocabulary)
        if parts is None:
            return None
        after = after_byte(comma, parts)
        return self._or_closed(Lookahead(HERE | after.read, after.ends, after.doubtful), vocabulary)

    def _or_closed(self, parts: Lookahead, vocabulary: Vocabulary) -> Lookahead | None:
        if not self.may_close():
            return parts
        if self.plan.check is not None:
            return None
        closed = self.values.layout.close_lookahead(self.bracket, self.follow, vocabulary)
        return joined((parts, closed))


AnyContainer = Container[ContainerPlan, LayoutSource]
_State = TypeVar("_State", bound=AnyContainer, covariant=True)


def closed_guard(state: AnyContainer) -> Guard | None:
    """Return the guard for a part after which only closing brackets can follow: it asks whether the unique item that
    these brackets end is new. None if there is no such guard, or it need not be asked yet."""
    branches = state.follow.branches
    guard = branches[0].guard if len(branches) == 1 else None
    if guard is None or not state.may_close() or state.may_go_on():
        return None
    bracket = bytes([state.bracket])
    for each in guard.guards if isinstance(guard, AllGuards) else (guard,):
        if isinstance(each, DistinctOnceClosed):
            return DistinctOnceClosed(bracket + each.brackets)
    return DistinctOnceClosed(bracket) if isinstance(guard, DistinctItem) else None


class PartDone(Continuation, Generic[_State]):
    """The continuation after a part of a container, whose next state is `state`."""

    __slots__ = ("state",)
    by_outcome = False

    def __init__(self, state: _State, guard: Guard | None = None) -> None:
        super().__init__(guard)
        self.state = state

    @property
    def place(self) -> Place | None:
        return self.state.place("done")

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return self.state.between()

    def outer(self) -> Continuation:
        return self.state.follow

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        """Find the lookahead. For nodes other than the root, use the root's; while that is being computed, use that of
        `at` alone, so that a search through tokens that contain whole names ends."""
        root = vocabulary.punctuation.root
        if at is root:
            return self.state.between_lookahead(vocabulary) or super()._find(outcome, at, vocabulary)
        return super()._find(outcome, at, vocabulary) if self.is_asked(0) else self.lookahead(0, root, vocabulary)
