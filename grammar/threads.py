"""Threads: one reading of the text so far, and where it can go on.

A thread is immutable and knows its whole stack through its continuation. Several readings (`anyOf`) are several
threads. Threads of one grammar are interned, so that equal situations are the same object and their masks are worked
out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np

from grammar import classify
from grammar.lexemes import Lexeme, State
from grammar.tape import Tape
from grammar.trie import I32, Branch
from grammar.vocabulary import Vocabulary


class Guard(Protocol):
    """A condition that needs the text: asked when a value ends, before what follows is allowed."""

    def allows(self, tape: Tape, end: int) -> bool:
        """`end` = offset just after the value that ends."""

    def refused(self, tape: Tape) -> frozenset[str] | None:
        """What the open string must not go on to spell before it is closed; where none is open, what the next string
        must not be. None = ask for each token."""


class Run:
    """One stepping of threads over bytes. `asked`: a guard was asked, so the outcome must not be remembered."""

    __slots__ = ("asked", "tape")

    def __init__(self, tape: Tape | None) -> None:
        self.tape = tape
        self.asked = False

    def passes(self, guard: Guard, end_offset: int) -> bool:
        """`end_offset`: 0 if the value ended with the last byte, 1 if that byte is already the next one's."""
        self.asked = True
        assert self.tape is not None
        return guard.allows(self.tape, len(self.tape.text) - end_offset)


class Gather:
    """Collects the tokens of a mask: `sure` ones, and those that hang on guards."""

    __slots__ = ("direct", "doubtful", "guards", "rows", "sure", "vocabulary")

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.rows: list[I32] = []
        self.sure: list[I32] = []
        self.doubtful: dict[tuple[tuple[Guard, ...], bool], list[I32]] = {}
        """By guards, and whether these are asked about the open string, or about the next one if none is open."""
        self.guards: tuple[Guard, ...] = ()
        self.direct = False

    def add(self, ids: I32 | None) -> None:
        if ids is not None and ids.size:
            if self.guards:
                self.doubtful.setdefault((self.guards, self.direct), []).append(ids)
            else:
                self.sure.append(ids)


class Continuation:
    """What comes after a lexeme or a value. `guard`: asked first."""

    __slots__ = ("_viable", "branches", "guard")
    is_end = False
    in_frame = False
    """The way to the end of the innermost bracket or tag leads through what follows."""

    def __init__(self, guard: Guard | None = None) -> None:
        self.guard = guard
        self.branches: tuple[Continuation, ...] = (self,)
        self._viable: dict[int, Viable] = {}

    def after(self, outcome: int) -> tuple[Thread, ...]:
        raise NotImplementedError

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Thread, ...]:
        if self.guard is not None and not run.passes(self.guard, end_offset):
            return ()
        return self.after(outcome)

    def least(self, words: Callable[[Any, Any], Any]) -> int | None:
        """Bytes to the end at least, where this can tell; `words`: short ends of a lexeme's state."""
        return None

    def viable(self, outcome: int, vocabulary: Vocabulary) -> Viable:
        """Which remainders of the vocabulary this continuation can read."""
        found = self._viable.get(outcome)
        if found is None:
            found = self._viable[outcome] = Viable.of(self.after(outcome), vocabulary)
        return found


_BRACKETS = frozenset(b"{}[]")


def _first_string(path: bytes) -> bool:
    """A token's string that begins at the end of `path` is its first, and in the bracket that is open before it."""
    return path.count(b'"') == 1 and not _BRACKETS.intersection(path)


class Many(Continuation):
    """Several continuations of the same piece of text: readings that differ only in what surrounds it."""

    __slots__ = ()

    def __init__(self, branches: tuple[Continuation, ...]) -> None:
        super().__init__()
        self.branches = branches

    @property
    def is_end(self) -> bool:  # type: ignore[override]
        return any(branch.is_end for branch in self.branches)

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Thread, ...]:
        found: tuple[Thread, ...] = ()
        for branch in self.branches:
            found += branch.finish(outcome, run, end_offset)
        return found


class Viable:
    """Remainders that some threads can read: `sure` bool[remainders] (None: none can), `doubtful` by guards."""

    __slots__ = ("doubtful", "sure")

    def __init__(self, sure: Any, doubtful: list[tuple[tuple[Guard, ...], bool, Any]]) -> None:
        self.sure = sure
        self.doubtful = doubtful

    @classmethod
    def of(cls, threads: tuple[Thread, ...], vocabulary: Vocabulary) -> Viable:
        gather = Gather(vocabulary)
        for thread in threads:
            thread.walk(vocabulary.remainders, gather)
        return cls(
            _flags(gather.sure, vocabulary),
            [(guards, direct, _flags(ids, vocabulary)) for (guards, direct), ids in gather.doubtful.items()],
        )


def _flags(numbers: list[I32], vocabulary: Vocabulary) -> Any:
    if not numbers:
        return None
    flags = np.zeros(vocabulary.remainder_count, np.bool_)
    flags[classify.join(numbers)] = True
    return flags


class Thread(Protocol):
    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        """Threads after `byte`, which is already on the tape."""

    def root(self, gather: Gather) -> None:
        """Collect the tokens of the whole vocabulary."""

    def walk(self, branch: Branch, gather: Gather) -> None:
        """Collect the subtree of `branch`, without `branch` itself."""

    def firsts(self) -> Iterable[int]:
        """Bytes that `step` may accept; a superset is allowed."""


class InLexeme:
    """Inside `lexeme`, in `state`. A lexeme ends where it cannot go on, as lexers read; JSON needs no other way."""

    __slots__ = ("follow", "lexeme", "state")

    def __init__(self, lexeme: Lexeme, state: State, follow: Continuation) -> None:
        self.lexeme = lexeme
        self.state = state
        self.follow = follow

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        lexeme, follow = self.lexeme, self.follow
        after = lexeme.next(self.state, byte)
        ended = lexeme.outcome(self.state)
        if after is not None:
            if lexeme.grows(after):
                return (InLexeme(lexeme, after, follow),)
            outcome = lexeme.outcome(after)
            assert outcome is not None
            return follow.finish(outcome, run, 0)
        threads: tuple[Thread, ...] = ()
        if ended is not None:
            for thread in follow.finish(ended, run, 1):
                threads += thread.step(byte, run)
        return threads

    def run(self, text: bytes) -> InLexeme | None:
        """After all of `text`, if that stays inside without ever being able to end."""
        if self.lexeme.outcome(self.state) is not None:
            return None
        after = self.lexeme.run(self.state, text)
        return None if after is None else InLexeme(self.lexeme, after, self.follow)

    def root(self, gather: Gather) -> None:
        if self.lexeme.general:
            self._general_root(gather)
            return
        found = classify.at_root(gather.vocabulary, self.lexeme, self.state)
        if found.row is not None:
            gather.rows.append(found.row)
        gather.add(found.ids)
        ended = self.lexeme.outcome(self.state)
        outer = gather.guards
        for follow in self.follow.branches:
            if follow.guard is not None:
                gather.guards = (*outer, follow.guard)
            for ending in found.endings:
                gather.direct = self.lexeme.is_string
                gather.add(ending.closers)
                if ending.numbers.size:
                    _add_remainders(
                        gather, follow.viable(ending.outcome, gather.vocabulary), ending, self.lexeme.is_string
                    )
                gather.direct = False
            if ended is not None:
                for thread in follow.after(ended):
                    thread.root(gather)
            gather.guards = outer

    def _general_root(self, gather: Gather) -> None:
        """Outside JSON, where anything may follow a lexeme."""
        inside, remainders = classify.at_root_general(gather.vocabulary, self.lexeme, self.state)
        if inside.row is not None:
            gather.rows.append(inside.row)
        gather.add(inside.ids)
        for ending in inside.endings:
            gather.add(ending.closers)
        ended = self.lexeme.outcome(self.state)
        for thread in self.follow.after(0):
            if remainders.children:
                thread.walk(remainders, gather)
            if ended is not None:
                thread.root(gather)

    def walk(self, branch: Branch, gather: Gather) -> None:
        lexeme = self.lexeme
        found = classify.in_branch(lexeme, self.state, branch)
        if found.ids.size:
            gather.add(found.ids)
        ended = lexeme.outcome(self.state)
        if ended is None and not found.closers and not found.ends:
            return
        outer = gather.guards
        before = gather.direct
        for follow in self.follow.branches:
            if follow.guard is not None:
                gather.guards = (*outer, follow.guard)
                gather.direct = lexeme.is_string and _first_string(branch.path)
            for outcome, ids in found.closers:
                if follow.after(outcome):
                    gather.add(ids)
            for outcome, end in found.ends:
                for thread in follow.after(outcome):
                    thread.walk(end, gather)
            if ended is not None:
                for thread in follow.after(ended):
                    thread.walk(branch, gather)
            gather.guards = outer
            gather.direct = before

    def firsts(self) -> Iterable[int]:
        return range(256)


def _add_remainders(gather: Gather, viable: Viable, ending: classify.Ending, in_string: bool) -> None:
    if viable.sure is not None:
        gather.add(ending.tokens[viable.sure[ending.numbers]])
    outer = gather.guards
    for guards, direct, flags in viable.doubtful:
        gather.guards = (*outer, *guards)
        gather.direct = direct and not in_string
        gather.add(ending.tokens[flags[ending.numbers]])
    gather.guards = outer
    gather.direct = False


Move = Callable[[], tuple[Thread, ...]]


class Choice:
    """At punctuation: one byte out of a few, each with its own way on. `guards[byte]` is asked after that byte."""

    __slots__ = ("_known", "guards", "moves")

    def __init__(self, moves: dict[int, Move], guards: dict[int, Guard] | None = None) -> None:
        self.moves = moves
        self.guards = guards
        self._known: dict[int, tuple[Thread, ...]] = {}

    def go(self, byte: int) -> tuple[Thread, ...]:
        known = self._known.get(byte)
        if known is None:
            move = self.moves.get(byte)
            known = self._known[byte] = move() if move is not None else ()
        return known

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        if self.guards is not None and byte in self.guards and not run.passes(self.guards[byte], 0):
            return ()
        return self.go(byte) if byte in self.moves else ()

    def root(self, gather: Gather) -> None:
        self.walk(gather.vocabulary.structural, gather)

    def walk(self, branch: Branch, gather: Gather) -> None:
        children, guards = branch.children, self.guards
        for byte in self.moves:
            below = children.get(byte)
            if below is None:
                continue
            threads = self.go(byte)
            if not threads:
                continue
            outer = gather.guards
            if guards is not None and byte in guards:
                gather.guards = (*outer, guards[byte])
            if below.ids is not None:
                gather.add(below.ids)
            if below.children:
                for thread in threads:
                    thread.walk(below, gather)
            gather.guards = outer

    def firsts(self) -> Iterable[int]:
        return self.moves


class Start:
    """Before the first byte of a value that satisfies `terms`. Readings that differ only in `follow` are put together
    by `Configs.intern`, so that alternatives do not multiply as values nest."""

    __slots__ = ("_threads", "follow", "source", "terms")

    def __init__(self, source: ValueSource, terms: Any, follow: Continuation) -> None:
        self.source = source
        self.terms = terms
        self.follow = follow
        self._threads: tuple[Thread, ...] | None = None

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

    def firsts(self) -> Iterable[int]:
        return range(256)


class ValueSource(Protocol):
    """What `Start` asks for threads; `values.Values` is the one implementation."""

    def value(self, terms: Any, follow: Continuation) -> tuple[Thread, ...]: ...

    def start(self, terms: Any, follow: Continuation) -> Start: ...

    def many(self, branches: tuple[Continuation, ...]) -> Many: ...


class AtEnd:
    """The whole text was read; nothing but the end may follow."""

    __slots__ = ()

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        return ()

    def root(self, gather: Gather) -> None:
        pass

    def walk(self, branch: Branch, gather: Gather) -> None:
        pass

    def firsts(self) -> Iterable[int]:
        return ()


AT_END = AtEnd()


class End(Continuation):
    """Continuation of the whole answer."""

    __slots__ = ()
    is_end = True

    def after(self, outcome: int) -> tuple[Thread, ...]:
        return (AT_END,)
