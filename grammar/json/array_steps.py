"""Continuations inside an array: after an item, and after one of a few constants."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.reading import Reading, Run
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sluicegate.grammar.json.arrays import ArrayState


class ItemDone(Continuation):
    """After an item; `guard` asks whether it is new where items must be unique. `state` knows of it but where the plan
    is tight: then the text is asked what the item was."""

    __slots__ = ("state",)
    by_outcome = False

    def __init__(self, state: ArrayState, guard: Guard | None) -> None:
        super().__init__(guard)
        self.state = state

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return self.state.between()

    def outer(self) -> Continuation:
        return self.state.follow

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return self.state.between_lookahead(vocabulary) or super()._find(outcome, at, vocabulary)

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        readings = super().finish(outcome, run, end_offset)
        if not readings or not self.state.plan.tight:
            return readings
        assert run.tape is not None
        item = run.tape.items(len(run.tape.text) - end_offset)[-1]
        return self.state.without(item).between()


class ConstantDone(Continuation):
    """After one of the constants that were left; outcome k = `offered[k]`."""

    __slots__ = ("offered", "state")

    def __init__(self, state: ArrayState, offered: list[int]) -> None:
        super().__init__()
        self.state = state
        self.offered = offered

    def after(self, outcome: int) -> tuple[Reading, ...]:
        state = self.state
        assert isinstance(state.used, int)
        return state.values.array_state(
            state.plan,
            min(state.index + 1, state.plan.horizon),
            state.hits,
            state.used | 1 << self.offered[outcome],
            state.follow,
        ).between()
