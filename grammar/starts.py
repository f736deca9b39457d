"""Before a value: threads that become others with its first byte, and what stands for whatever follows it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from grammar import shapes
from grammar.gather import Gather
from grammar.shapes import Shape
from grammar.threads import AT_END, Continuation, Many, Run, Thread
from grammar.trie import Branch
from grammar.vocabulary import Vocabulary


class Start:
    """Before the first byte of a value that satisfies `terms`. Readings that differ only in `follow` are put together
    by `Configs.intern`, so that alternatives do not multiply as values nest."""

    __slots__ = ("_shapes", "_threads", "follow", "source", "terms")

    def __init__(self, source: ValueSource, terms: Any, follow: Continuation) -> None:
        self.source = source
        self.terms = terms
        self.follow = follow
        self._threads: tuple[Thread, ...] | None = None
        self._shapes: dict[Branch, Shape | None] = {}

    def threads(self) -> tuple[Thread, ...]:
        if self._threads is None:
            self._threads = self.source.value(self.terms, self.follow)
        return self._threads

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        found: tuple[Thread, ...] = ()
        for thread in self.threads():
            found += thread.step(byte, run)
        return found

    def root(self, gather: Gather) -> None:
        for thread in self.threads():
            thread.root(gather)

    def walk(self, branch: Branch, gather: Gather) -> None:
        for thread in self.threads():
            thread.walk(branch, gather)

    def shape(self, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
        if branch is vocabulary.after_colon:
            branch = vocabulary.places
        if branch not in self._shapes:
            self._shapes[branch] = self._shape(branch, vocabulary)
        return self._shapes[branch]

    def _shape(self, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
        follow = self.follow
        if follow.guard is None and len(follow.branches) == 1 and type(follow) is not Hole:
            shape = self.source.value_shape(self.terms, branch, vocabulary)
            if shape is not None:
                return shapes.filled(shape, follow, vocabulary)
        return shapes.together(self.threads(), branch, vocabulary)

    def firsts(self) -> Iterable[int]:
        return range(256)


class Hole(Continuation):
    """Stands for whatever follows a value, while the value's shape is found for all that may follow it."""

    __slots__ = ()

    def after(self, outcome: int) -> tuple[Thread, ...]:
        return (AT_END,)

    def shape(self, outcome: int, branch: Branch, vocabulary: Vocabulary) -> Shape | None:
        return vocabulary.shapes.name(("hole", branch)), (), (branch,)


class ValueSource(Protocol):
    """What `Start` asks for threads; `values.Values` is the one implementation."""

    def value(self, terms: Any, follow: Continuation) -> tuple[Thread, ...]: ...

    def value_shape(self, terms: Any, branch: Branch, vocabulary: Vocabulary) -> Shape | None: ...

    def start(self, terms: Any, follow: Continuation) -> Start: ...

    def many(self, branches: tuple[Continuation, ...]) -> Many: ...

    def place(self, terms: Any) -> str: ...
