"""Threads: one reading of the text so far, and where it can go on.

A thread is immutable and knows its whole stack through its continuation. Several readings (`anyOf`) are several
threads. Threads of one grammar are interned, so that equal situations are the same object and their masks are worked
out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from sluicegate.grammar.budget.meter import look, tick
from sluicegate.grammar.lexemes.base import QUOTE, Lexeme, State
from sluicegate.grammar.reading import lookahead as reach
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.lookahead import Reach
from sluicegate.grammar.reading.mask_builder import Gather, Guard
from sluicegate.grammar.reading.text import Tape
from sluicegate.grammar.vocabulary import classify
from sluicegate.grammar.vocabulary.punctuation import Place
from sluicegate.grammar.vocabulary.trie import Branch
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary


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
        look()
        return guard.allows(self.tape, len(self.tape.text) - end_offset)


class Thread(Protocol):
    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        """Threads after `byte`, which is already on the tape."""

    def root(self, gather: Gather) -> None:
        """Collect the tokens of the whole vocabulary."""

    def walk(self, branch: Branch, gather: Gather) -> None:
        """Collect the subtree of `branch`, without `branch` itself."""

    def reach(self, at: Place, vocabulary: Vocabulary) -> Reach:
        """What `walk` would collect of all places. Below `at` the answer must be right; it may hold more."""

    def firsts(self) -> Iterable[int]:
        """Bytes that `step` may accept; a superset is allowed."""


_BRACKETS = frozenset(b"{}[]")


def _first_string(path: bytes) -> bool:
    """A token's string that begins at the end of `path` is its first, and in the bracket that is open before it."""
    return path.count(b'"') == 1 and not _BRACKETS.intersection(path)


class InLexeme:
    """Inside `lexeme`, in `state`. A lexeme of JSON ends where it cannot go on, which is all that JSON needs; a general
    one may end wherever it accepts, and is then read in both ways."""

    __slots__ = ("follow", "lexeme", "state")

    def __init__(self, lexeme: Lexeme, state: State, follow: Continuation) -> None:
        self.lexeme = lexeme
        self.state = state
        self.follow = follow

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        tick()
        lexeme, follow = self.lexeme, self.follow
        after = lexeme.next(self.state, byte)
        ended = lexeme.outcome(self.state)
        if after is not None:
            if lexeme.grows(after):
                inside = InLexeme(lexeme, after, follow)
                if ended is None or not lexeme.general:
                    return (inside,)
                return (inside, *self._over(ended, byte, run))
            outcome = lexeme.outcome(after)
            assert outcome is not None
            threads = follow.finish(outcome, run, 0)
            return (*threads, *self._over(ended, byte, run)) if ended is not None and lexeme.general else threads
        return () if ended is None else self._over(ended, byte, run)

    def _over(self, outcome: int, byte: int, run: Run) -> tuple[Thread, ...]:
        """The lexeme ended before `byte`."""
        threads: tuple[Thread, ...] = ()
        for thread in self.follow.finish(outcome, run, 1):
            threads += thread.step(byte, run)
        return threads

    def run(self, text: bytes) -> InLexeme | None:
        """After all of `text`, if that stays inside without ever being able to end."""
        if self.lexeme.outcome(self.state) is not None:
            return None
        after = self.lexeme.run(self.state, text)
        return None if after is None else InLexeme(self.lexeme, after, self.follow)

    def root(self, gather: Gather) -> None:
        tick()
        if self.lexeme.general:
            self._general_root(gather)
            return
        words = classify.rests(gather.vocabulary, self.lexeme, self.state)
        if words is not None:
            self._words_root(words, gather)
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
                    places = gather.vocabulary.places
                    after = follow.reach(ending.outcome, places.root, gather.vocabulary)
                    gather.add_ways(after, ending, self.lexeme.is_string)
                gather.direct = False
            if ended is not None:
                for thread in follow.after(ended):
                    thread.root(gather)
            gather.guards = outer

    def _words_root(self, words: list[tuple[int, classify.Rest]], gather: Gather) -> None:
        """In a list of a few words, which ends with a closing quote or may end and cannot go on."""
        ended = self.lexeme.outcome(self.state)
        is_string = self.lexeme.is_string
        places = gather.vocabulary.places
        outer = gather.guards
        for _, rest in words:
            gather.add(rest.ids)
        for follow in self.follow.branches:
            if follow.guard is not None:
                gather.guards = (*outer, follow.guard)
            gather.direct = is_string
            for outcome, (_, ending) in words:
                if ending is not None:
                    gather.add(ending.closers)
                    if ending.numbers.size:
                        after = follow.reach(outcome, places.root, gather.vocabulary)
                        gather.add_ways(after, ending, is_string)
            gather.direct = False
            if ended is not None:
                for thread in follow.after(ended):
                    thread.root(gather)
            gather.guards = outer

    def _general_root(self, gather: Gather) -> None:
        """Outside JSON, where anything may follow a lexeme."""
        follows = self.follow.after(0)
        wanted = bytes(sorted({byte for thread in follows for byte in thread.firsts()}))
        inside, remainders = classify.at_root_general(gather.vocabulary, self.lexeme, self.state, wanted)
        if inside.row is not None:
            gather.rows.append(inside.row)
        gather.add(inside.ids)
        ended = self.lexeme.outcome(self.state)
        for thread in follows:
            if remainders.children:
                thread.walk(remainders, gather)
            if ended is not None:
                thread.root(gather)

    def walk(self, branch: Branch, gather: Gather) -> None:
        tick()
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

    def reach(self, at: Place, vocabulary: Vocabulary) -> Reach:
        if self.lexeme.general:
            return reach.by_walk(self, vocabulary)
        return reach.of_lexeme(self.lexeme, self.follow, at, vocabulary)

    def firsts(self) -> Iterable[int]:
        if self.lexeme.outcome(self.state) is not None:
            return range(256)
        return self.lexeme.next_bytes(self.state)


Move = Callable[[], tuple[Thread, ...]]


class Choice:
    """At punctuation: one byte out of a few, each with its own way on. `guards[byte]` is asked after that byte."""

    __slots__ = ("_known", "_reach", "guards", "moves")

    def __init__(self, moves: dict[int, Move], guards: dict[int, Guard] | None = None) -> None:
        self.moves = moves
        self.guards = guards
        self._known: dict[int, tuple[Thread, ...]] = {}
        self._reach: Reach | None = None

    def go(self, byte: int) -> tuple[Thread, ...]:
        known = self._known.get(byte)
        if known is None:
            move = self.moves.get(byte)
            known = self._known[byte] = move() if move is not None else ()
        return known

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        if self.guards is not None and byte in self.guards:
            if not run.passes(self.guards[byte], 0):
                return ()
            move = self.moves[byte]
            if isinstance(move, Continuation) and move.by_text:
                return move.finish(0, run, 0)
        return self.go(byte) if byte in self.moves else ()

    def root(self, gather: Gather) -> None:
        gather.add_ways(self.situation(gather.vocabulary), gather.vocabulary.structural, False)

    def situation(self, vocabulary: Vocabulary) -> Reach:
        """What can be read here, from anywhere."""
        return self.reach(vocabulary.places.root, vocabulary)

    def walk(self, branch: Branch, gather: Gather) -> None:
        tick()
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

    def reach(self, at: Place, vocabulary: Vocabulary) -> Reach:
        if self._reach is not None:
            return self._reach
        tick()
        parts = [reach.OVER]
        root = vocabulary.places.root
        for byte, move in self.moves.items():
            if byte == QUOTE:  # strings are told from before it on
                found = self._after(move, byte, at, vocabulary)
            else:
                first, below = root.below(byte), at.below(byte)
                if first is None or below is None:
                    continue
                found = reach.after_byte(first, self._after(move, byte, below, vocabulary))
            parts.append(reach.under(self.guards.get(byte), found) if self.guards is not None else found)
        told = reach.joined(parts)
        if at is root:
            self._reach = told
        return told

    def _after(self, move: Move, byte: int, at: Place, vocabulary: Vocabulary) -> Reach:
        if not isinstance(move, Continuation):
            return reach.of_threads(self.go(byte), at, vocabulary)
        return move.reach(0, at, vocabulary) if move.in_frame else reach.outside(move, at, vocabulary)

    def firsts(self) -> Iterable[int]:
        return self.moves


class AtEnd:
    """The whole text was read; nothing but the end may follow."""

    __slots__ = ()

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        return ()

    def root(self, gather: Gather) -> None:
        pass

    def walk(self, branch: Branch, gather: Gather) -> None:
        pass

    def reach(self, at: Place, vocabulary: Vocabulary) -> Reach:
        return reach.OVER

    def firsts(self) -> Iterable[int]:
        return ()


AT_END = AtEnd()


class End(Continuation):
    """Continuation of the whole answer."""

    __slots__ = ()
    is_end = True

    def after(self, outcome: int) -> tuple[Thread, ...]:
        return (AT_END,)
