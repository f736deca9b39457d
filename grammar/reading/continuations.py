"""Continuations: what comes after a lexeme or a value. Through them a reading knows its whole stack."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.classification.openings import opening_of
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.reading.lookahead import Lookahead, behind, joined, under
from sluicegate.grammar.reading.reading import Place, Reading, Run, by_walk, of_readings
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode, bit_numbers
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_DEEP = 20
"""From this nesting of continuations on, the next one is walked instead: each takes about twenty frames of Python."""


_asking = threading.local()
"""`depth`: how many continuations are being asked within each other."""


class Continuation:
    """What comes after a lexeme or a value. `guard`: asked first."""

    __slots__ = ("_asked", "_lookahead", "_others", "branches", "guard")
    outward = False
    """Whether what follows leads out of the innermost bracket, or into its next member: a search for all of it ends
    there."""
    by_outcome = True
    """Whether what follows may depend on the outcome."""
    in_frame = False
    """Whether the way to the end of the innermost bracket or tag leads through what follows."""

    def __init__(self, guard: Guard | None = None) -> None:
        self.guard = guard
        self.branches: tuple[Continuation, ...] = (self,)
        self._lookahead: Lookahead | None = None
        """After outcome 0, most often the only one; `_others`: after the others."""
        self._others: dict[int, Lookahead] | None = None
        self._asked: int | None = None

    # properties, since some answer by what they hold

    @property
    def is_end(self) -> bool:
        """Return whether the whole text may end here."""
        return False

    @property
    def by_text(self) -> bool:
        """Return whether what follows depends on the text, which `finish` examines; `after` then returns what follows
        for any text."""
        return False

    @property
    def restarts(self) -> bool:
        """Return whether a JSON value may come next that is not part of the one before: `finish` restarts the tape."""
        return False

    @property
    def place(self) -> Place | None:
        """Return the place of the readings that follow, see `Reading.place`."""
        return None

    @abstractmethod
    def after(self, outcome: int) -> tuple[Reading, ...]:
        """Return the readings after `outcome`; does not ask `guard`."""

    def of(self, outcome: int) -> Continuation:
        """Return the continuation after `outcome`: itself where it is one for all."""
        return self

    def __call__(self) -> tuple[Reading, ...]:
        """Return `after(0)`: a continuation can be the move of a `ByteChoice`."""
        return self.after(0)

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        """Return `after`, or nothing where `guard` refuses; `end_offset` as in `Run.passes`."""
        if self.guard is not None and not run.passes(self.guard, end_offset):
            return ()
        return self.after(outcome)

    def pointer(self) -> str:
        """Return the JSON pointer to the schema of the value ending here or coming next, for messages; "" if
        unknown."""
        return ""

    def label(self) -> str:
        """Return `pointer`, or the name of the terminal that ends here."""
        return self.pointer()

    def least(self, words: Callable[[Any, Any], Any]) -> int | None:
        """Return the least number of bytes to the end, where this is known; `words`: short ends of a lexeme's state."""
        return None

    def lookahead(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        """Return the lookahead after `outcome`, see `Reading.lookahead`; cached for the root."""
        if not self.by_outcome:
            outcome = 0
        known = self._known_after(outcome)
        if known is not None:
            return known
        if at is not vocabulary.punctuation.root:
            return self._find(outcome, at, vocabulary)
        if self._asked == outcome:
            return self._walked(outcome, vocabulary)
        outer, self._asked = self._asked, outcome
        depth = getattr(_asking, "depth", 0)
        _asking.depth = depth + 1
        try:
            # Behind the n-th item of a hundred comes what stands behind the next: a walk does not ask further.
            deep = depth >= _DEEP
            found = self._walked(outcome, vocabulary) if deep else self._find(outcome, at, vocabulary)
            self._keep(outcome, found)
        finally:
            _asking.depth = depth
            self._asked = outer
        return found

    def _known_after(self, outcome: int) -> Lookahead | None:
        if outcome == 0:
            return self._lookahead
        return None if self._others is None else self._others.get(outcome)

    def _keep(self, outcome: int, found: Lookahead) -> None:
        if outcome == 0:
            self._lookahead = found
            return
        if self._others is None:
            self._others = {}
        self._others[outcome] = found

    def _walked(self, outcome: int, vocabulary: Vocabulary) -> Lookahead:
        return joined([by_walk(reading, vocabulary) for reading in self.after(outcome)])

    def _find(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return of_readings(self.after(outcome), at, vocabulary)

    def outer(self) -> Continuation | None:
        """Return the continuation around the innermost bracket, if known."""
        return None

    def is_known(self) -> bool:
        """Return whether `lookahead` is answered for outcome 0, or being answered."""
        return self._lookahead is not None or self._asked == 0

    def is_asked(self, outcome: int) -> bool:
        """Return whether `lookahead` is being answered for the root, perhaps further out on the stack of calls."""
        if not self.by_outcome:
            outcome = 0
        return self._asked == outcome and self._known_after(outcome) is None


class ContinuationUnion(Continuation):
    """Several continuations of the same piece of text: readings that differ only in what surrounds it."""

    __slots__ = ("_is_end",)

    def __init__(self, branches: tuple[Continuation, ...]) -> None:
        super().__init__()
        self.branches = branches
        self._is_end = any(branch.is_end for branch in branches)

    @property
    def is_end(self) -> bool:
        return self._is_end

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return tuple([reading for branch in self.branches for reading in branch.after(outcome)])

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        found: tuple[Reading, ...] = ()
        for branch in self.branches:
            found += branch.finish(outcome, run, end_offset)
        return found


def of_lexeme(lexeme: Lexeme, follow: Continuation, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
    """Return the lookahead of `lexeme`, not begun, at `at`, and of its continuations."""
    read, ended = opening_of(lexeme, vocabulary.punctuation)
    parts = [Lookahead(read)]
    for outcome, ends in ended:
        parts += _following(ends, follow, outcome, at, vocabulary, lexeme.is_string)
    return parts[0] if len(parts) == 1 else joined(parts)


def followed(
    value: Lookahead, follow: Continuation, outcome: int, at: PunctuationNode, vocabulary: Vocabulary
) -> Lookahead:
    """Return `value`, the lookahead of a value at `at`, with what `follow` reads behind its ends."""
    parts = [Lookahead(value.read)]
    if value.ends:
        parts += _following(value.ends, follow, outcome, at, vocabulary)
    for guards, direct, read, ends in value.doubtful:
        found = joined([Lookahead(read), *_following(ends, follow, outcome, at, vocabulary)])
        doubtful = [((*guards, *inner), False, r, e) for inner, _, r, e in found.doubtful]
        parts.append(Lookahead(0, 0, ((guards, direct, found.read, found.ends), *doubtful)))
    return parts[0] if len(parts) == 1 else joined(parts)


def _following(
    ends: int, follow: Continuation, outcome: int, at: PunctuationNode, vocabulary: Vocabulary, direct: bool = False
) -> list[Lookahead]:
    """Return the lookahead after `ends` of a value at `at`, one for each continuation."""
    tick()
    if at is not vocabulary.punctuation.root:
        ends &= at.domain
    if not ends:
        return []
    return [under(branch.guard, _behind(ends, branch, outcome, at, vocabulary), direct) for branch in follow.branches]


def _behind(ends: int, follow: Continuation, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
    punctuation = vocabulary.punctuation
    if at is punctuation.root or (follow.outward and not follow.is_asked(outcome)):
        return behind(punctuation, ends, follow.lookahead(outcome, punctuation.root, vocabulary))
    parts = []
    for number in bit_numbers(ends):
        end = punctuation.by_path[at.path + punctuation.all[number].path]
        parts.append(behind(punctuation, 1 << number, follow.lookahead(outcome, end, vocabulary)))
    return joined(parts)


def outside(follow: Continuation, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
    """Return the lookahead after a closing bracket, at `at`. Surrounding brackets are computed from the outermost
    inwards, so that nesting depth is not limited by recursion."""
    root = vocabulary.punctuation.root
    if follow.is_asked(0):
        return follow.lookahead(0, at, vocabulary)
    pending = [follow]
    found: dict[Continuation, None] = {}
    while pending:
        each = pending.pop()
        if not each.is_known():
            found.pop(each, None)
            found[each] = None
            outer = each.outer()
            pending += outer.branches if outer is not None else ()
    for each in reversed(found):
        each.lookahead(0, root, vocabulary)
    return follow.lookahead(0, root, vocabulary)
