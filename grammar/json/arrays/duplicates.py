"""Arrays in which two items must be equal: the negation of `uniqueItems`.

As long as two later items may be equal, any item may come. After that an item must repeat an earlier one, or be one
that a later item can repeat; so the array can always be completed.
"""

from __future__ import annotations

from typing import Any

from sluicegate.grammar.json.arrays.listed import ListedState
from sluicegate.grammar.json.arrays.plan import ArrayPlan
from sluicegate.grammar.json.arrays.state import ArrayState, ItemDone
from sluicegate.grammar.reading.guards import TEXT_NEEDED
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import Reading, Run, of_readings
from sluicegate.grammar.schema.constants import canonical, json_text
from sluicegate.grammar.schema.containers import Conjunction, Constant, Fact, conjunction
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_MET = 1


class RepeatingState(ArrayState):
    """The state of such an array. `used`: 1 once two items are equal; before that, the items so far as facts, or 0
    while they do not matter yet or are not known."""

    __slots__ = ()

    @property
    def is_met(self) -> bool:
        return self.used == _MET

    @property
    def _paired(self) -> int:
        assert self.plan.paired is not None
        return self.plan.paired

    def may_close(self) -> bool:
        return self.is_met and super().may_close()

    def parts_read(self, at: PunctuationNode, vocabulary: Vocabulary) -> int | None:
        return super().parts_read(at, vocabulary) if self.is_met else None

    def parts(self) -> tuple[Reading, ...]:
        if self.is_met:
            return super().parts()
        own = self.plan.at(self.index)
        assert own is not None
        given = self._given()
        done = self.done.get(())
        if done is None:
            done = self.done[()] = RepeatDone(self)
        if given is None or self.index < self._paired or self._may_repeat(given):
            return (self.values.start(own, done),)
        others: list[Conjunction] = [(value,) for value in sorted(given, key=repr)]
        others += self._to_come() if self.index <= self._paired else []
        ways = dict.fromkeys(conjunction((*own, *other)) for other in others)
        return tuple([self.values.start(terms, done) for terms in ways if self.values.satisfiable(terms)])

    def _given(self) -> frozenset[Fact] | None:
        if isinstance(self.used, frozenset):
            return self.used
        return None if self.index else frozenset()

    def _to_come(self) -> list[Conjunction]:
        """Return the terms of the items after the next one, each conjunction once."""
        plan = self.plan
        indexes = range(self.index + 1, len(plan.prefix) + 1 if plan.high is None else plan.high)
        return list(dict.fromkeys(terms for index in indexes if (terms := plan.at(index)) is not None))

    def _may_repeat(self, given: frozenset[Fact]) -> bool:
        """Return whether an item after the next one may equal one of `given`."""
        satisfiable = self.values.satisfiable
        return any(satisfiable(conjunction((*terms, value))) for terms in self._to_come() for value in given)

    def after(self, items: list[Any] | None) -> RepeatingState:
        """Return the state after the next item, which is the last of `items`. None: the items are not known, and no two
        are equal."""
        plan, used = self.plan, self.used
        after = min(self.index + 1, plan.horizon)
        if items is not None and not self.is_met:
            seen = [canonical(item) for item in items]
            if seen[-1] in seen[:-1]:
                used = _MET
            elif after >= self._paired:
                used = frozenset([Constant(json_text(item)) for item in items])
        found = self.values.array_state(plan, after, self.hits, used, self.follow)
        assert isinstance(found, RepeatingState)
        return found

    def met(self) -> RepeatingState:
        """Return the state after the next item where that item repeats an earlier one."""
        after = min(self.index + 1, self.plan.horizon)
        found = self.values.array_state(self.plan, after, self.hits, _MET, self.follow)
        assert isinstance(found, RepeatingState)
        return found


class RepeatDone(ItemDone):
    """The continuation after an item that may repeat an earlier one, which the text decides. `state`: if it does
    not."""

    __slots__ = ("before",)

    def __init__(self, before: RepeatingState) -> None:
        super().__init__(before.after(None), TEXT_NEEDED)
        self.before = before

    @property
    def by_text(self) -> bool:
        return True

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return (*self.before.met().between(), *self.state.between())

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        assert run.tape is not None
        assert self.guard is not None
        run.passes(self.guard, end_offset)
        return self.before.after(run.tape.items(len(run.tape.text) - end_offset)).between()

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return of_readings(self.after(outcome), at, vocabulary)


def state_of(plan: ArrayPlan) -> type[ArrayState]:
    if plan.listed is not None:
        return ListedState
    return ArrayState if plan.paired is None else RepeatingState
