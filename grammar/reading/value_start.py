"""Before a value: threads that become others with its first byte, and what stands for whatever follows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from sluicegate.grammar.budget.meter import tick
from sluicegate.grammar.lexemes.base import Lexeme
from sluicegate.grammar.reading import lookahead as reach
from sluicegate.grammar.reading.continuations import Continuation, Many
from sluicegate.grammar.reading.lookahead import Reach
from sluicegate.grammar.reading.mask_builder import Gather
from sluicegate.grammar.reading.readings import AT_END, InLexeme, Run, Thread
from sluicegate.grammar.vocabulary.punctuation import Place
from sluicegate.grammar.vocabulary.trie import Branch
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary


class Start:
    """Before the first byte of a value that satisfies `terms`. Readings that differ only in `follow` are put together
    by `Configs.intern`, so that alternatives do not multiply as values nest."""

    __slots__ = ("_reach", "_threads", "follow", "source", "terms")

    def __init__(self, source: ValueSource, terms: Any, follow: Continuation) -> None:
        self.source = source
        self.terms = terms
        self.follow = follow
        self._threads: tuple[Thread, ...] | None = None
        self._reach: Reach | None = None

    def threads(self) -> tuple[Thread, ...]:
        if self._threads is None:
            self._threads = self.source.value(self.terms, self.follow)
        return self._threads

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        tick()
        found: tuple[Thread, ...] = ()
        for thread in self.threads():
            found += thread.step(byte, run)
        return found

    def root(self, gather: Gather) -> None:
        gather.add_ways(self.situation(gather.vocabulary), gather.vocabulary.structural, False)
        for lexeme in self.source.numbers(self.terms):
            InLexeme(lexeme, lexeme.start, self.follow).root(gather)

    def situation(self, vocabulary: Vocabulary) -> Reach:
        """What can be read here, from anywhere, but for numbers."""
        return self.reach(vocabulary.places.root, vocabulary)

    def walk(self, branch: Branch, gather: Gather) -> None:
        tick()
        for thread in self.threads():
            thread.walk(branch, gather)

    def reach(self, at: Place, vocabulary: Vocabulary) -> Reach:
        if self._reach is not None:
            return self._reach
        value = self.source.value_reach(self.terms, at, vocabulary)
        found = reach.followed(value, self.follow, 0, at, vocabulary)
        if at is vocabulary.places.root:
            self._reach = found
        return found

    def firsts(self) -> Iterable[int]:
        return range(256)


class Hole(Continuation):
    """Stands for whatever follows a value, while the value's shape is found for all that may follow it."""

    __slots__ = ()

    def after(self, outcome: int) -> tuple[Thread, ...]:
        return (AT_END,)

    def reach(self, outcome: int, at: Place, vocabulary: Vocabulary) -> Reach:
        return reach.HOLE


class ValueSource(Protocol):
    """What `Start` asks for threads; `values.Values` is the one implementation."""

    def value(self, terms: Any, follow: Continuation) -> tuple[Thread, ...]: ...

    def value_reach(self, terms: Any, at: Place, vocabulary: Vocabulary) -> Reach: ...

    def numbers(self, terms: Any) -> tuple[Lexeme, ...]: ...

    def start(self, terms: Any, follow: Continuation) -> Start: ...

    def many(self, branches: tuple[Continuation, ...]) -> Many: ...

    def place(self, terms: Any) -> str: ...
