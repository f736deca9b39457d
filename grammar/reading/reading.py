"""What every reading of a text can be asked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any, NamedTuple

from sluicegate.grammar.budget.meter import charge, look
from sluicegate.grammar.lexemes.base import QUOTE, Lexeme
from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.reading.lookahead import OVER, Lookahead, joined
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.token_ids import I32
from sluicegate.grammar.vocabulary.punctuation import HERE, PunctuationNode
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

MANY_BYTES = {0, 1}
"""Stands for several bytes where it does not matter which."""


Place = tuple[Any, tuple[int, ...]]
"""(what situations have in common, counters). Of two with the same first part, the one with no smaller counters can
continue in every way in which the other can."""


_OF_GUARD = 2.0
"""Work charged for asking a guard, and for the readings that its answer makes."""


class GuardResult(NamedTuple):
    """What `guard` answered after a text of `size` bytes; `end_offset` as in `Run.passes`."""

    size: int
    guard: Guard
    end_offset: int
    passed: bool


class Run:
    """One stepping of readings over bytes. `asked`: a guard was asked, or the text, so the outcome must not be
    remembered. `answers`: of all guards so far; the outcome follows from them where each is a `DistinctKey` and
    `by_text` is not set."""

    __slots__ = ("answers", "asked", "by_text", "tape")

    def __init__(self, tape: Tape | None) -> None:
        self.tape = tape
        self.asked = False
        self.by_text = False
        self.answers: list[GuardResult] = []

    def passes(self, guard: Guard, end_offset: int) -> bool:
        """Ask `guard`, and note that one was asked. `end_offset`: 0 if the value ended with the last byte, 1 if that
        byte is already the next one's."""
        self.asked = True
        assert self.tape is not None
        charge(_OF_GUARD)
        look()
        size = len(self.tape.text)
        passed = guard.allows(self.tape, size - end_offset)
        self.answers.append(GuardResult(size, guard, end_offset, passed))
        return passed

    def reads_text(self) -> None:
        """Note that the outcome depends on the text beyond what guards answered."""
        self.asked = self.by_text = True


class Reading:
    """One way to understand the text so far, and where it can go on.

    Immutable but for what it remembers; it knows its whole stack through its continuation. Several ways (`anyOf`) are
    several readings. Those of one grammar are interned: equal situations are the same object, so that their masks are
    worked out once. The abstract methods are checked by types alone: `ABCMeta` would slow every `isinstance`.
    """

    __slots__ = ()

    @property
    def can_stop(self) -> bool:
        """Return whether the text may end here."""
        return False

    @property
    def in_string(self) -> bool:
        """Return whether the text ends inside a string."""
        return False

    @property
    def counts(self) -> bool:
        """Return whether the tokens that its text takes are counted."""
        return False

    @abstractmethod
    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        """Return the readings after `byte`, which is already on the tape."""

    @abstractmethod
    def root(self, builder: MaskBuilder) -> None:
        """Collect tokens of the whole vocabulary."""

    @abstractmethod
    def walk(self, node: TrieNode, builder: MaskBuilder) -> None:
        """Collect tokens below `node`, without its own."""

    @abstractmethod
    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        """Return the lookahead that `walk` would collect from the punctuation trie. Exact below `at`; a superset
        elsewhere."""

    @abstractmethod
    def firsts(self) -> Iterable[int]:
        """Return the bytes that `step` may accept; a superset is allowed."""

    def run(self, text: bytes) -> Reading | None:
        """Return the one reading after all of `text`, where this is cheaper to find than byte by byte; else None."""
        return None

    def after_token(self) -> tuple[Reading, ...]:
        """Return the readings where another token ends here; itself where tokens are not counted."""
        return (self,)

    def uncounted(self) -> Reading:
        """Return the reading of the same text where no tokens were counted. Its masks are the same: counts matter
        between tokens only."""
        return self

    def usual_bytes(self) -> set[int]:
        """Return the bytes that may come next in the usual spelling; several, whichever they are, where that is not
        sure."""
        return MANY_BYTES

    def situation(self, vocabulary: Vocabulary) -> tuple[Lexeme | None, Lookahead] | None:
        """Return what the mask depends on where only punctuation can come: the whitespace that may begin here, and what
        can be read after it, or without it where that is None. None where other tokens may come, or a guard is
        asked."""
        return None

    def place(self) -> Place | None:
        """Return where it stands among readings that differ only in what was counted; None where nothing is."""
        return None

    def pointer(self) -> str:
        """Return the JSON pointer to the schema of the current value, for messages; "" if unknown."""
        return ""

    def label(self) -> str:
        """Return `pointer`, or the name of the terminal that is read."""
        return self.pointer()


def of_readings(readings: tuple[Reading, ...], at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
    """Return the joint lookahead of `readings` at `at`; a superset elsewhere."""
    if len(readings) == 1:
        return readings[0].lookahead(at, vocabulary)
    return joined([reading.lookahead(at, vocabulary) for reading in readings])


def by_walk(reading: Reading, vocabulary: Vocabulary) -> Lookahead:
    """Find `reading.lookahead` by a walk down the trie of punctuation: works for all readings, slowly."""
    builder = MaskBuilder(vocabulary)
    root = vocabulary.punctuation.root
    start = root.below(QUOTE) if reading.in_string else root
    if start is None:
        return OVER
    reading.walk(start, builder)
    doubtful = [(guards, direct, _bits(found), 0) for (guards, direct), found in builder.doubtful.items()]
    return Lookahead(HERE | 1 << start.number | _bits(builder.sure), 0, tuple(doubtful))


def usual_bytes(readings: Iterable[Reading]) -> set[int]:
    """Return the bytes by which `readings` can continue in the usual spelling; stops at two, since then none is
    forced."""
    found: set[int] = set()
    for reading in readings:
        found |= reading.usual_bytes()
        if len(found) > 1:
            break
    return found


def _bits(found: Iterable[I32]) -> int:
    bits = 0
    for part in found:
        for number in part.tolist():
            bits |= 1 << number
    return bits
