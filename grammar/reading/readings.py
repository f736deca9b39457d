"""Readings inside a lexeme, at punctuation and at the end of the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sluicegate.grammar.budget.meter import charge, tick
from sluicegate.grammar.classification.automata import of_general
from sluicegate.grammar.classification.classify import at_root, in_subtree
from sluicegate.grammar.classification.words import rests
from sluicegate.grammar.lexemes.base import QUOTE, DfaLexeme, Lexeme, State
from sluicegate.grammar.lexemes.first_of import FirstOf
from sluicegate.grammar.lexemes.words import WordList
from sluicegate.grammar.reading.continuations import Continuation, of_lexeme, outside
from sluicegate.grammar.reading.guards import Guard
from sluicegate.grammar.reading.lookahead import OVER, Lookahead, after_byte, joined, under
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.reading.reading import MANY_BYTES, Place, Reading, Run, by_walk, of_readings
from sluicegate.grammar.vocabulary.boundary import Ending
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_BRACKETS = frozenset(b"{}[]")
ANY_BYTE = bytes(range(256))
_OF_GENERAL = 3
"""Work charged for a walk outside JSON, of which alternatives of tags make one at each place where another may end."""


class InLexeme(Reading):
    """Inside `lexeme`, in `state`. A lexeme of JSON ends where it cannot go on, which is all that JSON needs; a general
    one may end wherever it accepts, and is then read in both ways."""

    __slots__ = ("follow", "lexeme", "state")

    def __init__(self, lexeme: Lexeme, state: State, follow: Continuation) -> None:
        self.lexeme = lexeme
        self.state = state
        self.follow = follow

    @property
    def can_stop(self) -> bool:
        # In this order: what follows in a loop of tags asks again where the lexeme may end.
        return self.lexeme.outcome(self.state) is not None and self.follow.is_end

    @property
    def in_string(self) -> bool:
        return self.lexeme.is_string

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        tick()
        lexeme, follow = self.lexeme, self.follow
        after = lexeme.next(self.state, byte)
        if after is None:
            return self._over(byte, run)
        if lexeme.grows(after):
            inside = InLexeme(lexeme, after, follow)
            return (inside, *self._over(byte, run)) if lexeme.general else (inside,)
        outcome = lexeme.outcome(after)
        assert outcome is not None
        if not lexeme.general:
            return follow.finish(outcome, run, 0)
        # In this order: the tape begins a value anew where the last one that is asked begins.
        over = self._over(byte, run)
        return (*follow.finish(outcome, run, 0), *over)

    def _over(self, byte: int, run: Run) -> tuple[Reading, ...]:
        """Return the readings after `byte` where the lexeme may have ended before it."""
        outcome = self.lexeme.outcome(self.state)
        if outcome is None:
            return ()
        readings: tuple[Reading, ...] = ()
        for reading in self.follow.finish(outcome, run, 1):
            readings += reading.step(byte, run)
        return readings

    def run(self, text: bytes) -> InLexeme | None:
        """Return the reading after all of `text`, if that stays inside without ever being able to end."""
        if self.lexeme.outcome(self.state) is not None:
            return None
        after = self.lexeme.run(self.state, text)
        if after is self.state:  # as inside most strings
            return self
        return None if after is None else InLexeme(self.lexeme, after, self.follow)

    # --- masks ---

    def root(self, builder: MaskBuilder) -> None:
        tick()
        lexeme, vocabulary = self.lexeme, builder.vocabulary
        if lexeme.general:
            self._general_root(builder)
            return
        words = rests(vocabulary, lexeme, self.state) if isinstance(lexeme, WordList) else None
        if words is None:
            found = at_root(vocabulary, lexeme, self.state)
            if found.row is not None:
                builder.rows.append(found.row)
            builder.add(found.ids)
            self._end_root([(ending.outcome, ending) for ending in found.endings], builder)
        else:
            for _, rest in words:
                builder.add(rest.ids)
            self._end_root([(outcome, rest.ending) for outcome, rest in words if rest.ending is not None], builder)

    def _end_root(self, endings: list[tuple[int, Ending]], builder: MaskBuilder) -> None:
        """Add the tokens that end the lexeme and what may follow it, or that follow where it has ended."""
        ended = self.lexeme.outcome(self.state)
        in_string, vocabulary = self.lexeme.is_string, builder.vocabulary
        outer = builder.guards
        for follow in self.follow.branches:
            if follow.guard is not None:
                builder.guards = (*outer, follow.guard)
            builder.direct = in_string
            for outcome, ending in endings:
                builder.add(ending.closers)
                if ending.numbers.size:
                    after = follow.lookahead(outcome, vocabulary.punctuation.root, vocabulary)
                    builder.add_boundary(after, ending, in_string)
            builder.direct = False
            if ended is not None:
                for reading in follow.after(ended):
                    reading.root(builder)
            builder.guards = outer

    def _general_root(self, builder: MaskBuilder) -> None:
        """Add the tokens outside JSON, where anything may follow a lexeme."""
        lexeme = self.lexeme
        assert isinstance(lexeme, DfaLexeme)
        wanted = ANY_BYTE
        if not isinstance(lexeme, FirstOf):  # which is left seldom: to ask what may follow is more work
            wanted = bytes(sorted({byte for reading in self.follow.after(0) for byte in reading.firsts()}))
        inside, ends = of_general(builder.vocabulary, lexeme, self.state, wanted)
        if inside.row is not None:
            builder.rows.append(inside.row)
        builder.add(inside.ids)
        for outcome, remainders in ends:
            for reading in self.follow.after(outcome):
                reading.walk(remainders, builder)
        ended = lexeme.outcome(self.state)
        if ended is not None:
            for reading in self.follow.after(ended):
                reading.root(builder)

    def walk(self, node: TrieNode, builder: MaskBuilder) -> None:
        tick()
        lexeme = self.lexeme
        if lexeme.general:
            charge(_OF_GENERAL)
        found = in_subtree(lexeme, self.state, node)
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
                builder.direct = lexeme.is_string and _first_string(node.path)
            for outcome, ids in found.closers:
                if follow.after(outcome):
                    builder.add(ids)
            for outcome, end in found.ends:
                for reading in follow.after(outcome):
                    reading.walk(end, builder)
            if ended is not None:
                for reading in follow.after(ended):
                    reading.walk(node, builder)
            builder.guards = outer
            builder.direct = before

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        if self.lexeme.general:
            return by_walk(self, vocabulary)
        return of_lexeme(self.lexeme, self.follow, at, vocabulary)

    def situation(self, vocabulary: Vocabulary) -> tuple[Lexeme | None, Lookahead] | None:
        lexeme, follow = self.lexeme, self.follow
        if not lexeme.is_blank or self.state != lexeme.start or follow.guard is not None:
            return None
        return lexeme, follow.lookahead(0, vocabulary.punctuation.root, vocabulary)

    def place(self) -> Place | None:
        place = self.follow.place
        return None if place is None else ((id(self.lexeme), self.state, place[0]), place[1])

    def firsts(self) -> Iterable[int]:
        if self.lexeme.outcome(self.state) is not None:
            return range(256)
        return self.lexeme.next_bytes(self.state)

    def usual_bytes(self) -> set[int]:
        if self.lexeme.outcome(self.state) is not None:
            return MANY_BYTES
        return self.lexeme.usual_bytes(self.state) or MANY_BYTES

    def pointer(self) -> str:
        return self.follow.pointer()

    def label(self) -> str:
        return self.lexeme.place or self.follow.label()


def _first_string(path: bytes) -> bool:
    """Return whether a token's string that begins at the end of `path` is its first, and in the bracket that is open
    before it."""
    return path.count(b'"') == 1 and not _BRACKETS.intersection(path)


Move = Callable[[], tuple[Reading, ...]]


class ByteChoice(Reading):
    """At punctuation: one byte out of a few, each with its own way on. `guards[byte]` is asked after that byte."""

    __slots__ = ("_known", "_lookahead", "guards", "moves")

    def __init__(self, moves: dict[int, Move], guards: dict[int, Guard] | None = None) -> None:
        self.moves = moves
        self.guards = guards
        self._known: dict[int, tuple[Reading, ...]] = {}
        self._lookahead: Lookahead | None = None

    def go(self, byte: int) -> tuple[Reading, ...]:
        """Return the readings after `byte`; its guard is not asked."""
        known = self._known.get(byte)
        if known is None:
            move = self.moves.get(byte)
            if move is None:
                known = ()
            else:  # most are continuations, whose `__call__` would be a call by name
                known = move.after(0) if isinstance(move, Continuation) else move()
            self._known[byte] = known
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
        vocabulary = builder.vocabulary
        ahead = self.lookahead(vocabulary.punctuation.root, vocabulary)
        builder.add_boundary(ahead, vocabulary.structural, False)

    def walk(self, node: TrieNode, builder: MaskBuilder) -> None:
        tick()
        children, guards = node.children, self.guards
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
        parts = [OVER]
        root = vocabulary.punctuation.root
        for byte, move in self.moves.items():
            if byte == QUOTE:  # strings count from before it
                found = self._after(move, byte, at, vocabulary)
            else:
                first, below = root.below(byte), at.below(byte)
                if first is None or below is None:
                    continue
                found = after_byte(first, self._after(move, byte, below, vocabulary))
            parts.append(under(self.guards.get(byte), found) if self.guards is not None else found)
        union = joined(parts)
        if at is root:
            self._lookahead = union
        return union

    def _after(self, move: Move, byte: int, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        if not isinstance(move, Continuation):
            return of_readings(self.go(byte), at, vocabulary)
        return move.lookahead(0, at, vocabulary) if move.in_frame else outside(move, at, vocabulary)

    def situation(self, vocabulary: Vocabulary) -> tuple[Lexeme | None, Lookahead] | None:
        return None, self.lookahead(vocabulary.punctuation.root, vocabulary)

    def firsts(self) -> Iterable[int]:
        return self.moves

    def usual_bytes(self) -> set[int]:
        return MANY_BYTES if self.guards else {byte for byte in self.moves if self.go(byte)}


class LastBracket(ByteChoice):
    """The bracket that closes a whole value, behind which another value may begin: `follow` restarts the tape."""

    __slots__ = ("follow",)

    def __init__(self, byte: int, follow: Continuation, guard: Guard | None) -> None:
        super().__init__({byte: follow}, None if guard is None else {byte: guard})
        self.follow = follow

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        return self.follow.finish(0, run, 0) if super().step(byte, run) else ()


class AtEnd(Reading):
    """The whole text was read; nothing but the end may follow."""

    __slots__ = ()

    @property
    def can_stop(self) -> bool:
        return True

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        return ()

    def root(self, builder: MaskBuilder) -> None:
        pass

    def walk(self, node: TrieNode, builder: MaskBuilder) -> None:
        pass

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return OVER

    def firsts(self) -> Iterable[int]:
        return ()


AT_END = AtEnd()


class EndOfText(Continuation):
    """Continuation of the whole answer."""

    __slots__ = ()

    @property
    def is_end(self) -> bool:
        return True

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return (AT_END,)
