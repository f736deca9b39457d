"""Before a value: readings that become others with its first byte, and what stands for whatever follows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.reading.continuations import Continuation, ContinuationUnion, followed
from sluicegate.grammar.reading.lookahead import HOLE, Lookahead
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.reading.reading import MANY_BYTES, Place, Reading, Run, of_readings, usual_bytes
from sluicegate.grammar.reading.readings import AT_END, InLexeme
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary


class ValueStart(Reading):
    """Before the first byte of a value that satisfies `terms`. Readings that differ only in `follow` are put together
    by `ParserStates.intern`, so that alternatives do not multiply as values nest."""

    __slots__ = ("_lookahead", "_readings", "follow", "source", "terms")

    def __init__(self, source: ValueSource, terms: Any, follow: Continuation) -> None:
        self.source = source
        self.terms = terms
        self.follow = follow
        self._readings: tuple[Reading, ...] | None = None
        self._lookahead: Lookahead | None = None

    def readings(self) -> tuple[Reading, ...]:
        if self._readings is None:
            self._readings = self.source.value(self.terms, self.follow)
        return self._readings

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        tick()
        found: tuple[Reading, ...] = ()
        for reading in self.readings():
            found += reading.step(byte, run)
        return found

    def root(self, builder: MaskBuilder) -> None:
        vocabulary = builder.vocabulary
        ahead = self.lookahead(vocabulary.punctuation.root, vocabulary)
        builder.add_boundary(ahead, vocabulary.structural, False)
        for lexeme in self.source.numbers(self.terms):
            InLexeme(lexeme, lexeme.start, self.follow).root(builder)

    def walk(self, node: TrieNode, builder: MaskBuilder) -> None:
        tick()
        for reading in self.readings():
            reading.walk(node, builder)

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        """Return all that can be read but numbers."""
        if self._lookahead is not None:
            return self._lookahead
        tick()
        if self.source.asks_items(self.terms, self.follow):
            found = of_readings(self.readings(), at, vocabulary)
        else:
            value = self.source.value_lookahead(self.terms, at, vocabulary)
            found = followed(value, self.follow, 0, at, vocabulary)
        if at is vocabulary.punctuation.root:
            self._lookahead = found
        return found

    def situation(self, vocabulary: Vocabulary) -> tuple[Lexeme | None, Lookahead] | None:
        if self.source.numbers(self.terms):
            return None
        return None, self.lookahead(vocabulary.punctuation.root, vocabulary)

    def place(self) -> Place | None:
        place = self.follow.place
        return None if place is None else ((id(self.terms), place[0]), place[1])

    def firsts(self) -> Iterable[int]:
        # Narrow: outside JSON, all tokens are taken apart that go on with one of these.
        return {byte for reading in self.readings() for byte in reading.firsts()}

    def usual_bytes(self) -> set[int]:
        return usual_bytes(self.readings()) or MANY_BYTES

    def pointer(self) -> str:
        return self.source.pointer(self.terms)


class Hole(Continuation):
    """Stands for whatever follows a value, while the value's lookahead is worked out for all that may follow it."""

    __slots__ = ()

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return (AT_END,)

    def lookahead(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return HOLE


class ValueSource(Protocol):
    """Where readings of values come from; `terms` are a conjunction of facts about the value."""

    def value(self, terms: Any, follow: Continuation) -> tuple[Reading, ...]: ...

    def value_lookahead(self, terms: Any, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead: ...

    def numbers(self, terms: Any) -> tuple[Lexeme, ...]:
        """Return the lexemes of the numbers that satisfy `terms`."""

    def start(self, terms: Any, follow: Continuation) -> ValueStart:
        """Return the start for these arguments: the same object every time, as long as it is kept."""

    def asks_items(self, terms: Any, follow: Continuation) -> bool:
        """Return whether what can be read of such a value may depend on the items before it."""

    def many(self, branches: tuple[Continuation, ...]) -> ContinuationUnion: ...

    def pointer(self, terms: Any) -> str:
        """Return the pointer to the first schema among `terms`, for messages; "" if there is none."""
