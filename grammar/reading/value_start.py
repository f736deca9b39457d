"""Before a value: threads that become others with its first byte, and what stands for whatever follows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.reading import lookahead
from sluicegate.grammar.reading.continuations import Continuation, Many
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.reading.readings import AT_END, InLexeme, Reading, Run
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.trie import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary


class ValueStart:
    """Before the first byte of a value that satisfies `terms`. Readings that differ only in `follow` are put together
    by `Configs.intern`, so that alternatives do not multiply as values nest."""

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
        builder.add_boundary(self.situation(builder.vocabulary), builder.vocabulary.structural, False)
        for lexeme in self.source.numbers(self.terms):
            InLexeme(lexeme, lexeme.start, self.follow).root(builder)

    def situation(self, vocabulary: Vocabulary) -> Lookahead:
        """What can be read here, from anywhere, but for numbers."""
        return self.lookahead(vocabulary.punctuation.root, vocabulary)

    def walk(self, branch: TrieNode, builder: MaskBuilder) -> None:
        tick()
        for reading in self.readings():
            reading.walk(branch, builder)

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        if self._lookahead is not None:
            return self._lookahead
        value = self.source.value_lookahead(self.terms, at, vocabulary)
        found = lookahead.followed(value, self.follow, 0, at, vocabulary)
        if at is vocabulary.punctuation.root:
            self._lookahead = found
        return found

    def firsts(self) -> Iterable[int]:
        return range(256)


class Hole(Continuation):
    """Stands for whatever follows a value, while the value's shape is found for all that may follow it."""

    __slots__ = ()

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return (AT_END,)

    def lookahead(self, outcome: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return lookahead.HOLE


class ValueSource(Protocol):
    """What `ValueStart` asks for threads; `values.Values` is the one implementation."""

    def value(self, terms: Any, follow: Continuation) -> tuple[Reading, ...]: ...

    def value_lookahead(self, terms: Any, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead: ...

    def numbers(self, terms: Any) -> tuple[Lexeme, ...]: ...

    def start(self, terms: Any, follow: Continuation) -> ValueStart: ...

    def many(self, branches: tuple[Continuation, ...]) -> Many: ...

    def pointer(self, terms: Any) -> str: ...
