"""Handle whitespace between the lexemes of a JSON text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache

from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.budget.remembered import remembered
from sluicegate.grammar.classification.openings import of_scalar
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.options import GrammarOptions
from sluicegate.grammar.reading.continuations import Continuation, outside
from sluicegate.grammar.reading.guards import Guard, all_of
from sluicegate.grammar.reading.lookahead import OVER, Lookahead, after_byte, behind, joined, under
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.reading.reading import MANY_BYTES, Place, Reading, Run, of_readings, usual_bytes
from sluicegate.grammar.reading.readings import ByteChoice, InLexeme, LastBracket
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode, PunctuationTrie
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import GrammarError, InvalidGrammar

# Where pretty-printers break lines. Both ends are bounded so that a weak model cannot spin on blanks.
_FLEXIBLE_BLOCK = r" |\r?\n(?: {0,64}|\t{1,32})"
_FLEXIBLE_COLON = r" "
_MOST_CLOSED = 20_000


class Then(Continuation):
    """A continuation whose readings come from a function, which is called once."""

    __slots__ = ("_known", "_place", "readings")
    in_frame = True

    def __init__(self, readings: Callable[[], tuple[Reading, ...]], place: Place | None = None) -> None:
        super().__init__()
        self.readings = readings
        self._place = place
        self._known: tuple[Reading, ...] | None = None

    @property
    def place(self) -> Place | None:
        return self._place

    def after(self, outcome: int) -> tuple[Reading, ...]:
        if self._known is None:
            self._known = self.readings()
        return self._known


class Between(Reading):
    """The reading after a member or an item: a comma or the closing bracket. Its lookahead is that of `done`, the
    continuation at the same point, so that it is computed once for both."""

    __slots__ = ("_known", "_readings", "done")

    def __init__(self, done: Continuation, readings: Callable[[], tuple[ByteChoice, ...]]) -> None:
        self.done = done
        self._readings = readings
        self._known: tuple[ByteChoice, ...] | None = None

    def readings(self) -> tuple[ByteChoice, ...]:
        if self._known is None:
            self._known = self._readings()
        return self._known

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        found: tuple[Reading, ...] = ()
        for reading in self.readings():
            if byte in reading.moves:
                found += reading.step(byte, run)
        return found

    def root(self, builder: MaskBuilder) -> None:
        _, ahead = self.situation(builder.vocabulary)
        builder.add_boundary(ahead, builder.vocabulary.structural, False)

    def situation(self, vocabulary: Vocabulary) -> tuple[None, Lookahead]:
        return None, self.done.lookahead(0, vocabulary.punctuation.root, vocabulary)

    def walk(self, node: TrieNode, builder: MaskBuilder) -> None:
        for reading in self.readings():
            reading.walk(node, builder)

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return of_readings(self.readings(), at, vocabulary)

    def place(self) -> Place | None:
        return self.done.place

    def firsts(self) -> Iterable[int]:
        return [byte for reading in self.readings() for byte in reading.moves]

    def usual_bytes(self) -> set[int]:
        return usual_bytes(self.readings()) or MANY_BYTES


class Layout:
    """The whitespace that one grammar allows. `block`: after `{ [ ,` and before `} ]`; `colon`: after `:`."""

    def __init__(self, options: GrammarOptions) -> None:
        self.block, self.colon = _lexemes(options.whitespace)
        self._closed: dict[tuple[int, Continuation], Lookahead] = {}

    def optional(self, lexeme: DfaLexeme | None, follow: Then) -> tuple[Reading, ...]:
        """Return the readings of `follow`, with or without whitespace before it."""
        if lexeme is None:
            return follow.after(0)
        return (*follow.after(0), InLexeme(lexeme, lexeme.start, follow))

    def before_close(self, close: Then) -> tuple[Reading, ...]:
        """Return the readings of non-empty whitespace followed by the closing bracket."""
        return () if self.block is None else (InLexeme(self.block, self.block.start, close),)

    def spaced(self, lexeme: DfaLexeme | None, found: int, punctuation: PunctuationTrie) -> int:
        """Return the punctuation nodes read from `found`, with or without whitespace before."""
        return found if lexeme is None else of_scalar(lexeme, punctuation)[0] | self.delayed(lexeme, found, punctuation)

    def spaced_lookahead(self, lexeme: DfaLexeme | None, found: Lookahead, punctuation: PunctuationTrie) -> Lookahead:
        """Return the lookahead of `found`, with or without whitespace before it."""
        if lexeme is None:
            return found
        read, ends = of_scalar(lexeme, punctuation)
        return joined([found, Lookahead(read), behind(punctuation, ends, found)])

    def delayed(self, lexeme: DfaLexeme | None, found: int, punctuation: PunctuationTrie) -> int:
        """Return `found` together with `found` after whitespace."""
        return found if lexeme is None else found | punctuation.behind(of_scalar(lexeme, punctuation)[1], found)

    def close_lookahead(self, byte: int, follow: Continuation, vocabulary: Vocabulary) -> Lookahead:
        """Return the lookahead of the closing bracket, with or without whitespace before it."""
        known = self._closed.get((byte, follow))
        if known is None:
            nested = any(branch.is_asked(0) for branch in follow.branches)
            known = self._close_lookahead(byte, follow, vocabulary)
            if not nested:  # else it is valid for one node only
                if len(self._closed) >= _MOST_CLOSED:
                    self._closed.clear()
                self._closed[byte, follow] = known
        return known

    def _close_lookahead(self, byte: int, follow: Continuation, vocabulary: Vocabulary) -> Lookahead:
        punctuation = vocabulary.punctuation
        bracket = punctuation.root.below(byte)
        if bracket is None:
            return OVER
        parts = []
        for branch in follow.branches:
            after = outside(branch, bracket, vocabulary)
            parts.append(under(branch.guard, after_byte(bracket, after)))
        found = parts[0] if len(parts) == 1 else joined(parts)
        return self.spaced_lookahead(self.block, found, punctuation)


def _lexemes(whitespace: str) -> tuple[DfaLexeme | None, DfaLexeme | None]:
    if whitespace == "compact":
        return None, None
    if whitespace == "flexible":
        return _flexible()
    lexeme = _space_lexeme(whitespace)
    return lexeme, lexeme


@lru_cache(maxsize=1)
def _flexible() -> tuple[DfaLexeme | None, DfaLexeme | None]:
    return _space_lexeme(_FLEXIBLE_BLOCK), _space_lexeme(_FLEXIBLE_COLON)


@remembered(64)
def _space_lexeme(pattern: str) -> DfaLexeme | None:
    """Return the lexeme of the non-empty matches of `pattern`. Raises `InvalidGrammar` if it can match anything but
    JSON's whitespace, another `GrammarError` if it cannot be read."""
    blank = CharDfa.from_pattern(r"[ \t\r\n]+", anchored=True)
    try:
        found = CharDfa.from_pattern(pattern, anchored=True)
    except GrammarError as error:
        raise error.about("whitespace") from error
    if not found.difference(CharDfa.from_literal("")).is_subset(blank):
        raise InvalidGrammar(f"whitespace pattern {pattern!r} matches more than JSON's blanks", param="whitespace")
    inside = found.intersection(blank)
    return None if inside.is_empty() else DfaLexeme(utf8(inside), is_blank=True)


def closing(byte: int, check: Guard | None, follow: Continuation) -> ByteChoice:
    """Return the choice of a closing bracket, guarded by `check` (of the closed container) and by the continuation's
    guard."""
    guard = all_of(check, follow.guard)
    if follow.restarts:
        return LastBracket(byte, follow, guard)
    return ByteChoice({byte: follow}, None if guard is None else {byte: guard})
