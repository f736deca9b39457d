"""Continuations: what comes after a lexeme or a value. Through them a thread knows its whole stack."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sluicegate.grammar.reading import lookahead
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.mask_builder import Guard
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

if TYPE_CHECKING:
    from sluicegate.grammar.reading.readings import Reading, Run


class Continuation:
    """What comes after a lexeme or a value. `guard`: asked first."""

    __slots__ = ("_asked", "_lookahead", "branches", "guard")
    is_end = False
    outward = False
    """What follows leads out of the innermost bracket, or into its next member: asking for all of it has an end."""
    by_outcome = True
    """What follows hangs on the outcome, or may do so."""
    by_text = False
    """What follows hangs on the text, which `finish` looks at; `after` tells of all of it."""
    in_frame = False
    """The way to the end of the innermost bracket or tag leads through what follows."""

    def __init__(self, guard: Guard | None = None) -> None:
        self.guard = guard
        self.branches: tuple[Continuation, ...] = (self,)
        self._lookahead: dict[int, Lookahead] = {}
        self._asked: int | None = None

    @abstractmethod
    def after(self, outcome: int) -> tuple[Reading, ...]:
        """Threads at what follows `outcome`, `guard` not asked. Held to be there by the type checker alone: `ABCMeta`
        would slow every `isinstance`."""

    def __call__(self) -> tuple[Reading, ...]:
        """As the move of a `ByteChoice`."""
        return self.after(0)

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        if self.guard is not None and not run.passes(self.guard, end_offset):
            return ()
        return self.after(outcome)

    def pointer(self) -> str:
        """Pointer to the schema of what ends here or comes next, for messages; "" where this cannot tell."""
        return ""

    def least(self, words: Callable[[Any, Any], Any]) -> int | None:
        """Bytes to the end at least, where this can tell; `words`: short ends of a lexeme's state."""
        return None

    def lookahead(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        """What can be read after `outcome`, as `Reading.lookahead` tells it; remembered for the root of all places."""
        if not self.by_outcome:
            outcome = 0
        known = self._lookahead.get(outcome)
        if known is not None:
            return known
        if at is not vocabulary.punctuation.root:
            return self._find(outcome, at, vocabulary)
        if self._asked == outcome:
            return lookahead.joined([lookahead.by_walk(reading, vocabulary) for reading in self.after(outcome)])
        outer, self._asked = self._asked, outcome
        try:
            found = self._lookahead[outcome] = self._find(outcome, at, vocabulary)
        finally:
            self._asked = outer
        return found

    def outer(self) -> Continuation | None:
        """What surrounds the innermost bracket, if it is known to be this kind of thing."""
        return None

    def is_known(self) -> bool:
        """`lookahead` is answered for outcome 0, or being answered."""
        return 0 in self._lookahead or self._asked == 0

    def is_asked(self, outcome: int) -> bool:
        """`lookahead` is being answered for all places, perhaps further out on the stack of calls."""
        if not self.by_outcome:
            outcome = 0
        return self._asked == outcome and outcome not in self._lookahead

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return lookahead.of_readings(self.after(outcome), at, vocabulary)


class Many(Continuation):
    """Several continuations of the same piece of text: readings that differ only in what surrounds it."""

    __slots__ = ("is_end",)

    def __init__(self, branches: tuple[Continuation, ...]) -> None:
        super().__init__()
        self.branches = branches
        self.is_end = any(branch.is_end for branch in branches)

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for branch in self.branches for reading in branch.after(outcome)])

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        found: tuple[Reading, ...] = ()
        for branch in self.branches:
            found += branch.finish(outcome, run, end_offset)
        return found
