"""Threads: one reading of the text so far, and where it can go on.

A thread is immutable and knows its whole stack through its continuation. Several readings (`anyOf`) are several
threads. Threads of one grammar are interned, so that equal situations are the same object and their masks are worked
out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from sluicegate.grammar.budget.meter import look, tick
from sluicegate.grammar.classification import classify
from sluicegate.grammar.lexemes.base import QUOTE, Lexeme, State
from sluicegate.grammar.reading import lookahead
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.mask_builder import Guard, MaskBuilder
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.trie import TrieNode
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


class Reading(Protocol):
    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        """Threads after `byte`, which is already on the tape."""

    def root(self, builder: MaskBuilder) -> None:
        """Collect the tokens of the whole vocabulary."""

    def walk(self, branch: TrieNode, builder: MaskBuilder) -> None:
        """Collect the subtree of `branch`, without `branch` itself."""

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
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

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
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
            readings = follow.finish(outcome, run, 0)
            return (*readings, *self._over(ended, byte, run)) if ended is not None and lexeme.general else readings
        return () if ended is None else self._over(ended, byte, run)

    def _over(self, outcome: int, byte: int, run: Run) -> tuple[Reading, ...]:
        """The lexeme ended before `byte`."""
        readings: tuple[Reading, ...] = ()
        for reading in self.follow.finish(outcome, run, 1):
            readings += reading.step(byte, run)
        return readings

    def run(self, text: bytes) -> InLexeme | None:
        """After all of `text`, if that stays inside without ever being able to end."""
        if self.lexeme.outcome(self.state) is not None:
            return None
        after = self.lexeme.run(self.state, text)
        return None if after is None else InLexeme(self.lexeme, after, self.follow)

    def root(self, builder: MaskBuilder) -> None:
        tick()
        if self.lexeme.general:
            self._general_root(builder)
            return
        words = classify.rests(builder.vocabulary, self.lexeme, self.state)
        if words is not None:
            self._words_root(words, builder)
            return
        found = classify.at_root(builder.vocabulary, self.lexeme, self.state)
        if found.row is not None:
            builder.rows.append(found.row)
        builder.add(found.ids)
        ended = self.lexeme.outcome(self.state)
        outer = builder.guards
        for follow in self.follow.branches:
            if follow.guard is not None:
                builder.guards = (*outer, follow.guard)
            for ending in found.endings:
                builder.direct = self.lexeme.is_string
                builder.add(ending.closers)
                if ending.numbers.size:
                    punctuation = builder.vocabulary.punctuation
                    after = follow.lookahead(ending.outcome, punctuation.root, builder.vocabulary)
                    builder.add_boundary(after, ending, self.lexeme.is_string)
                builder.direct = False
            if ended is not None:
                for reading in follow.after(ended):
                    reading.root(builder)
            builder.guards = outer

    def _words_root(self, words: list[tuple[int, classify.Rest]], builder: MaskBuilder) -> None:
        """In a list of a few words, which ends with a closing quote or may end and cannot go on."""
        ended = self.lexeme.outcome(self.state)
        is_string = self.lexeme.is_string
        punctuation = builder.vocabulary.punctuation
        outer = builder.guards
        for _, rest in words:
            builder.add(rest.ids)
        for follow in self.follow.branches:
            if follow.guard is not None:
                builder.guards = (*outer, follow.guard)
            builder.direct = is_string
            for outcome, (_, ending) in words:
                if ending is not None:
                    builder.add(ending.closers)
                    if ending.numbers.size:
                        after = follow.lookahead(outcome, punctuation.root, builder.vocabulary)
                        builder.add_boundary(after, ending, is_string)
            builder.direct = False
            if ended is not None:
                for reading in follow.after(ended):
                    reading.root(builder)
            builder.guards = outer

    def _general_root(self, builder: MaskBuilder) -> None:
        """Outside JSON, where anything may follow a lexeme."""
        follows = self.follow.after(0)
        wanted = bytes(sorted({byte for reading in follows for byte in reading.firsts()}))
        inside, remainders = classify.at_root_general(builder.vocabulary, self.lexeme, self.state, wanted)
        if inside.row is not None:
            builder.rows.append(inside.row)
        builder.add(inside.ids)
        ended = self.lexeme.outcome(self.state)
        for reading in follows:
            if remainders.children:
                reading.walk(remainders, builder)
            if ended is not None:
                reading.root(builder)

    def walk(self, branch: TrieNode, builder: MaskBuilder) -> None:
        tick()
        lexeme = self.lexeme
        found = classify.in_subtree(lexeme, self.state, branch)
        if found.ids.size:
            builder.add(found.ids)
        ended = lexeme.outcome(self.state)
        if ended is None and not found.closers and not found.ends:
            return
        outer = builder.guards
        before = builder.direct
        for follow in self.follow.branches:
            if follow.guard is not None:
                builder.guards = (*outer, follow.guard)
                builder.direct = lexeme.is_string and _first_string(branch.path)
            for outcome, ids in found.closers:
                if follow.after(outcome):
                    builder.add(ids)
            for outcome, end in found.ends:
                for reading in follow.after(outcome):
                    reading.walk(end, builder)
            if ended is not None:
                for reading in follow.after(ended):
                    reading.walk(branch, builder)
            builder.guards = outer
            builder.direct = before

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        if self.lexeme.general:
            return lookahead.by_walk(self, vocabulary)
        return lookahead.of_lexeme(self.lexeme, self.follow, at, vocabulary)

    def firsts(self) -> Iterable[int]:
        if self.lexeme.outcome(self.state) is not None:
            return range(256)
        return self.lexeme.next_bytes(self.state)


Move = Callable[[], tuple[Reading, ...]]


class ByteChoice:
    """At punctuation: one byte out of a few, each with its own way on. `guards[byte]` is asked after that byte."""

    __slots__ = ("_known", "_lookahead", "guards", "moves")

    def __init__(self, moves: dict[int, Move], guards: dict[int, Guard] | None = None) -> None:
        self.moves = moves
        self.guards = guards
        self._known: dict[int, tuple[Reading, ...]] = {}
        self._lookahead: Lookahead | None = None

    def go(self, byte: int) -> tuple[Reading, ...]:
        known = self._known.get(byte)
        if known is None:
            move = self.moves.get(byte)
            known = self._known[byte] = move() if move is not None else ()
        return known

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        if self.guards is not None and byte in self.guards:
            if not run.passes(self.guards[byte], 0):
                return ()
            move = self.moves[byte]
            if isinstance(move, Continuation) and move.by_text:
                return move.finish(0, run, 0)
        return self.go(byte) if byte in self.moves else ()

    def root(self, builder: MaskBuilder) -> None:
        builder.add_boundary(self.situation(builder.vocabulary), builder.vocabulary.structural, False)

    def situation(self, vocabulary: Vocabulary) -> Lookahead:
        """What can be read here, from anywhere."""
        return self.lookahead(vocabulary.punctuation.root, vocabulary)

    def walk(self, branch: TrieNode, builder: MaskBuilder) -> None:
        tick()
        children, guards = branch.children, self.guards
        for byte in self.moves:
            below = children.get(byte)
            if below is None:
                continue
            readings = self.go(byte)
            if not readings:
                continue
            outer = builder.guards
            if guards is not None and byte in guards:
                builder.guards = (*outer, guards[byte])
            if below.ids is not None:
                builder.add(below.ids)
            if below.children:
                for reading in readings:
                    reading.walk(below, builder)
            builder.guards = outer

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        if self._lookahead is not None:
            return self._lookahead
        tick()
        parts = [lookahead.OVER]
        root = vocabulary.punctuation.root
        for byte, move in self.moves.items():
            if byte == QUOTE:  # strings are told from before it on
                found = self._after(move, byte, at, vocabulary)
            else:
                first, below = root.below(byte), at.below(byte)
                if first is None or below is None:
                    continue
                found = lookahead.after_byte(first, self._after(move, byte, below, vocabulary))
            parts.append(lookahead.under(self.guards.get(byte), found) if self.guards is not None else found)
        told = lookahead.joined(parts)
        if at is root:
            self._lookahead = told
        return told

    def _after(self, move: Move, byte: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        if not isinstance(move, Continuation):
            return lookahead.of_readings(self.go(byte), at, vocabulary)
        return move.lookahead(0, at, vocabulary) if move.in_frame else lookahead.outside(move, at, vocabulary)

    def firsts(self) -> Iterable[int]:
        return self.moves


class AtEnd:
    """The whole text was read; nothing but the end may follow."""

    __slots__ = ()

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        return ()

    def root(self, builder: MaskBuilder) -> None:
        pass

    def walk(self, branch: TrieNode, builder: MaskBuilder) -> None:
        pass

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return lookahead.OVER

    def firsts(self) -> Iterable[int]:
        return ()


AT_END = AtEnd()


class EndOfText(Continuation):
    """Continuation of the whole answer."""

    __slots__ = ()
    is_end = True

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return (AT_END,)
