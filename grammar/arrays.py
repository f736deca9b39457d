"""Arrays: what the next item may be, and when the array may end."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

from grammar.frames import Then, closing
from grammar.gather import Guard
from grammar.guards import DistinctItem
from grammar.lexemes import QUOTE, Words
from grammar.literals import literals
from grammar.schema.containers import Conj, Fact, conj, negated
from grammar.threads import Choice, Continuation, InLexeme, Thread

if TYPE_CHECKING:
    from grammar.schema.containers import Contains
    from grammar.values import Values

_BRACKET, _COMMA = 0x5D, 0x2C


@dataclass(frozen=True, eq=False)
class ArrayPlan:
    """One alternative of an array. `prefix[i]` for the first items, `rest` for all after them (None: there are none).

    `members`: where items must be unique and are few constants, these constants as (is it a string, text); items are
    then taken out of what is left.
    """

    prefix: tuple[Conj, ...]
    rest: Conj | None
    low: int
    high: int | None
    unique: bool
    contains: tuple[Contains, ...]
    check: Guard | None
    members: tuple[tuple[bool, str], ...] | None = None

    def at(self, index: int) -> Conj | None:
        return self.prefix[index] if index < len(self.prefix) else self.rest

    @property
    def horizon(self) -> int:
        """Indexes from here on are all alike."""
        return max(len(self.prefix), self.low, 0 if self.high is None else self.high)


class ArrayState:
    """An open array between items. `index`: items so far, cut off at the plan's horizon; `hits`: items counted by each
    `contains`; `used`: bit set over `plan.members`."""

    __slots__ = ("_after", "_before", "done", "follow", "hits", "index", "plan", "used", "values")

    def __init__(
        self, values: Values, plan: ArrayPlan, index: int, hits: tuple[int, ...], used: int, follow: Continuation
    ) -> None:
        self.values = values
        self.plan = plan
        self.index = index
        self.hits = hits
        self.used = used
        self.follow = follow
        self.done: dict[tuple[int, ...], Continuation] = {}
        self._before: tuple[Thread, ...] | None = None
        self._after: tuple[Thread, ...] | None = None

    def may_close(self) -> bool:
        plan = self.plan
        return self.index >= plan.low and all(
            hit >= wanted.low for hit, wanted in zip(self.hits, plan.contains, strict=True)
        )

    def may_go_on(self) -> bool:
        plan = self.plan
        if plan.members is not None and self.used == (1 << len(plan.members)) - 1:
            return False
        return (plan.high is None or self.index < plan.high) and plan.at(self.index) is not None

    def opened(self) -> tuple[Thread, ...]:
        """After `[`."""
        if self._before is None:
            layout = self.values.layout
            threads: tuple[Thread, ...] = ()
            if self.may_go_on():
                threads = layout.optional(layout.block, Then(self.items))
            self._before = (*threads, *self._closing())
        return self._before

    def between(self) -> tuple[Thread, ...]:
        """After an item."""
        if self._after is None:
            layout = self.values.layout
            threads: tuple[Thread, ...] = ()
            if self.may_go_on():
                threads = (Choice({_COMMA: Then(lambda: layout.optional(layout.block, Then(self.items)))}),)
            self._after = (*threads, *self._closing())
        return self._after

    def _closing(self) -> tuple[Thread, ...]:
        if not self.may_close():
            return ()
        return (*self._close(), *self.values.layout.before_close(Then(self._close)))

    def _close(self) -> tuple[Thread, ...]:
        return tuple(closing(_BRACKET, self.plan.check, follow) for follow in self.follow.branches)

    # --- items ---

    def items(self) -> tuple[Thread, ...]:
        """At the first byte of the next item."""
        plan = self.plan
        if plan.members is not None:
            return self._members(plan.members)
        terms = plan.at(self.index)
        assert terms is not None
        threads: list[Thread] = []
        for hit, facts, hits in self._claims(terms):
            threads.append(self.values.start(facts, self._done(hit, hits)))
        return tuple(threads)

    def _claims(self, terms: Conj) -> list[tuple[tuple[int, ...], Conj, tuple[int, ...]]]:
        """Ways to count the next item for each `contains`: (which count it, what it then satisfies, new counts)."""
        plan = self.plan
        left = None if plan.high is None else plan.high - self.index - 1
        found = []
        for hit in product((0, 1), repeat=len(plan.contains)):
            facts: list[Fact] = list(terms)
            hits = []
            for counted, before, wanted in zip(hit, self.hits, plan.contains, strict=True):
                if counted:
                    facts.append(wanted.term)
                elif wanted.high is not None:
                    facts.append(negated(wanted.term))
                after = before + counted
                hits.append(after if wanted.high is not None else min(after, wanted.low))
                if (wanted.high is not None and after > wanted.high) or (
                    left is not None and wanted.low - after > left
                ):
                    break
            else:
                found.append((hit, conj(facts), tuple(hits)))
        return [way for way in found if self.values.satisfiable(way[1])]

    def _done(self, hit: tuple[int, ...], hits: tuple[int, ...]) -> Continuation:
        found = self.done.get(hit)
        if found is None:
            plan = self.plan
            after = self.values.array_state(plan, min(self.index + 1, plan.horizon), hits, self.used, self.follow)
            found = self.done[hit] = ItemDone(after, DistinctItem() if plan.unique else None)
        return found

    def _members(self, members: tuple[tuple[bool, str], ...]) -> tuple[Thread, ...]:
        left = [i for i in range(len(members)) if not self.used >> i & 1]
        words = [i for i in left if members[i][0]]
        others = [i for i in left if not members[i][0]]
        threads: list[Thread] = []
        if words:
            lexeme = literals([members[i][1] for i in words])
            taken = Taken(self, words)
            threads.append(Choice({QUOTE: lambda: (InLexeme(lexeme, lexeme.start, taken),)}))
        if others:
            spelled = Words([(text.encode(), k) for k, i in enumerate(others) for text in members[i][1].split("|")])
            threads.append(InLexeme(spelled, spelled.start, Taken(self, others)))
        return tuple(threads)


class ItemDone(Continuation):
    """After an item; `guard` asks whether it is new where items must be unique."""

    __slots__ = ("state",)

    def __init__(self, state: ArrayState, guard: Guard | None) -> None:
        super().__init__(guard)
        self.state = state

    def after(self, outcome: int) -> tuple[Thread, ...]:
        return self.state.between()


class Taken(Continuation):
    """After one of the constants that were left; outcome k = `offered[k]`."""

    __slots__ = ("offered", "state")

    def __init__(self, state: ArrayState, offered: list[int]) -> None:
        super().__init__()
        self.state = state
        self.offered = offered

    def after(self, outcome: int) -> tuple[Thread, ...]:
        state = self.state
        return state.values.array_state(
            state.plan,
            min(state.index + 1, state.plan.horizon),
            state.hits,
            state.used | 1 << self.offered[outcome],
            state.follow,
        ).between()
