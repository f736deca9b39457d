"""What all frames of a JSON text share: whitespace between lexemes, and the way from a schema to threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.guards import all_of
from sluicegate.grammar.reading.lookahead import (
    OVER,
    Reach,
    after_byte,
    behind,
    joined,
    of_scalar,
    of_threads,
    outside,
    under,
)
from sluicegate.grammar.reading.mask_builder import Gather, Guard
from sluicegate.grammar.reading.readings import Choice, InLexeme, Run, Thread
from sluicegate.grammar.vocabulary.punctuation import Place, Places
from sluicegate.grammar.vocabulary.trie import Branch
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import InvalidGrammar

# Where pretty-printers break lines. Both ends are bounded so that a weak model cannot spin on blanks.
_FLEXIBLE_BLOCK = r" |\r?\n(?: {0,64}|\t{1,32})"
_FLEXIBLE_COLON = r" "
_MOST_CLOSED = 20_000


class Then(Continuation):
    """Continuation given by a function; `threads` is called once."""

    __slots__ = ("_known", "threads")
    in_frame = True

    def __init__(self, threads: Callable[[], tuple[Thread, ...]]) -> None:
        super().__init__()
        self.threads = threads
        self._known: tuple[Thread, ...] | None = None

    def after(self, outcome: int) -> tuple[Thread, ...]:
        if self._known is None:
            self._known = self.threads()
        return self._known


class Between:
    """After a member of an object or an item of an array: a comma or the closing bracket. As tokens it is what `done`,
    which stands for the same place behind the value, can read; so that is asked once for both."""

    __slots__ = ("_known", "_threads", "done")

    def __init__(self, done: Continuation, threads: Callable[[], tuple[Choice, ...]]) -> None:
        self.done = done
        self._threads = threads
        self._known: tuple[Choice, ...] | None = None

    def threads(self) -> tuple[Choice, ...]:
        if self._known is None:
            self._known = self._threads()
        return self._known

    def step(self, byte: int, run: Run) -> tuple[Thread, ...]:
        found: tuple[Thread, ...] = ()
        for thread in self.threads():
            if byte in thread.moves:
                found += thread.step(byte, run)
        return found

    def root(self, gather: Gather) -> None:
        gather.add_ways(self.situation(gather.vocabulary), gather.vocabulary.structural, False)

    def situation(self, vocabulary: Vocabulary) -> Reach:
        """What can be read here, from anywhere."""
        return self.done.reach(0, vocabulary.places.root, vocabulary)

    def walk(self, branch: Branch, gather: Gather) -> None:
        for thread in self.threads():
            thread.walk(branch, gather)

    def reach(self, at: Place, vocabulary: Vocabulary) -> Reach:
        return of_threads(self.threads(), at, vocabulary)

    def firsts(self) -> Iterable[int]:
        return [byte for thread in self.threads() for byte in thread.moves]


class Layout:
    """Whitespace of one grammar. `block`: after `{ [ ,` and before `} ]`; `colon`: after `:`."""

    def __init__(self, options: GrammarOptions) -> None:
        self.block, self.colon = _lexemes(options.whitespace)
        self._closed: dict[tuple[int, Continuation], Reach] = {}

    def optional(self, lexeme: DfaLexeme | None, follow: Then) -> tuple[Thread, ...]:
        """`follow`, perhaps after whitespace."""
        if lexeme is None:
            return follow.after(0)
        return (*follow.after(0), InLexeme(lexeme, lexeme.start, follow))

    def before_close(self, close: Then) -> tuple[Thread, ...]:
        """Whitespace, not empty, and then the closing bracket."""
        return () if self.block is None else (InLexeme(self.block, self.block.start, close),)

    def spaced(self, lexeme: DfaLexeme | None, found: int, places: Places) -> int:
        """What can be read where `found` can be, perhaps after whitespace."""
        return found if lexeme is None else of_scalar(lexeme, places)[0] | self.delayed(lexeme, found, places)

    def delayed(self, lexeme: DfaLexeme | None, found: int, places: Places) -> int:
        """`found`, and `found` after whitespace."""
        return found if lexeme is None else found | places.behind(of_scalar(lexeme, places)[1], found)

    def close_reach(self, byte: int, follow: Continuation, vocabulary: Vocabulary) -> Reach:
        """Perhaps whitespace, and then the closing bracket."""
        known = self._closed.get((byte, follow))
        if known is None:
            nested = any(branch.is_asked(0) for branch in follow.branches)
            known = self._close_reach(byte, follow, vocabulary)
            if not nested:  # otherwise it was told for one place only
                if len(self._closed) >= _MOST_CLOSED:
                    self._closed.clear()
                self._closed[byte, follow] = known
        return known

    def _close_reach(self, byte: int, follow: Continuation, vocabulary: Vocabulary) -> Reach:
        places = vocabulary.places
        bracket = places.root.below(byte)
        if bracket is None:
            return OVER
        parts = []
        for branch in follow.branches:
            after = outside(branch, bracket, vocabulary)
            parts.append(under(branch.guard, after_byte(bracket, after)))
        found = parts[0] if len(parts) == 1 else joined(parts)
        if self.block is None:
            return found
        read, ends = of_scalar(self.block, places)
        return joined([found, Reach(read), behind(places, ends, found)])


@lru_cache(maxsize=64)
def _lexemes(whitespace: str) -> tuple[DfaLexeme | None, DfaLexeme | None]:
    if whitespace == "compact":
        return None, None
    if whitespace == "flexible":
        return _space_lexeme(_FLEXIBLE_BLOCK), _space_lexeme(_FLEXIBLE_COLON)
    lexeme = _space_lexeme(whitespace)
    return lexeme, lexeme


def _space_lexeme(pattern: str) -> DfaLexeme | None:
    """Non-empty matches of `pattern`. Raises `InvalidGrammar` if it can match what JSON does not take for blank."""
    blank = CharDfa.from_pattern(r"[ \t\r\n]+", anchored=True)
    found = CharDfa.from_pattern(pattern, anchored=True)
    if not found.difference(CharDfa.from_literal("")).is_subset(blank):
        raise InvalidGrammar(f"whitespace pattern {pattern!r} matches more than JSON's blanks", param="whitespace")
    inside = found.intersection(blank)
    return None if inside.is_empty() else DfaLexeme(utf8(inside), is_blank=True)


def closing(byte: int, check: Guard | None, follow: Continuation) -> Choice:
    """A closing bracket, guarded by the `check` of what it closes and by what follows."""
    guard = all_of(check, follow.guard)
    return Choice({byte: follow}, None if guard is None else {byte: guard})
