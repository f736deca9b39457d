"""A parser: rules over lexemes, followed byte by byte and token by token, and the readings that stand for its states.

The automaton of `configurations` reads lexemes; values of another kind (JSON inside a grammar) and what follows a whole
text are readings of their own beside it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import numpy as np

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.lexemes.base import DfaLexeme
from sluicegate.grammar.parsing.configurations import REFUSED, Configuration, Configurations
from sluicegate.grammar.parsing.costs import ParseCosts, settled
from sluicegate.grammar.parsing.frames import ParseFrame, ParseFrames
from sluicegate.grammar.parsing.lexer import LexemeTable
from sluicegate.grammar.parsing.lexer_tables import OVER
from sluicegate.grammar.parsing.loops import MASK_KERNELS, NETWORK_KERNELS, load
from sluicegate.grammar.parsing.rewriting.ambiguity import untangled, without_nested_loops
from sluicegate.grammar.parsing.rewriting.networks import as_networks
from sluicegate.grammar.parsing.rules import NumberedRules, Production, SymbolCodes, ways_of
from sluicegate.grammar.parsing.symbols import Symbols
from sluicegate.grammar.parsing.token_limits import TokenCounts, TokenLimits
from sluicegate.grammar.parsing.tokens import TokenParts
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.reading.lookahead import Lookahead
from sluicegate.grammar.reading.mask_builder import MaskBuilder
from sluicegate.grammar.reading.reading import MANY_BYTES, Reading, Run, by_walk
from sluicegate.grammar.reading.readings import EndOfText
from sluicegate.grammar.vocabulary.punctuation import PunctuationNode
from sluicegate.grammar.vocabulary.trie_node import TrieNode
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary
from sluicegate.plugins.errors import Unsatisfiable

_OF_WALK, _OF_BESIDE, _CHILDREN_A_CHARGE = 2, 1, 8
"""Work charged for a node that is walked beside other readings, and for each of these that goes on from there; and the
nodes below it per unit charged."""
_OF_TERMINAL = 1.0
"""Work charged for a terminal that a completion may go on with."""
_MOST_COUNTING = 10_000
_WRITTEN = re.compile(r"[\w-]+")


class EmbeddedValue(Protocol):
    """A terminal that is a JSON value instead of a lexeme."""

    def readings(self, follow: Continuation) -> tuple[Reading, ...]: ...

    def renew(self) -> None:
        """Forget what was made for earlier texts."""


class ParserTables:
    """All of a grammar that does not depend on a text or on what follows one. `values`: JSON values by the name of the
    terminal that they stand for."""

    def __init__(
        self,
        rules: list[Production],
        lexemes: Mapping[str, DfaLexeme],
        ignored: Iterable[str],
        start: str,
        values: Mapping[str, EmbeddedValue],
    ) -> None:
        names = [*lexemes, *values]
        load(*NETWORK_KERNELS, *MASK_KERNELS)  # not in the first mask: they take as long as one may
        self.symbols = Symbols(_numbered(rules, start, names), names)
        self.lexer = LexemeTable([*(lexemes.get(name) for name in names), None])
        self.ignored = frozenset(names.index(name) for name in ignored)
        self.start = self.symbols.start
        self.start_name = start
        self.values = {names.index(name): value for name, value in values.items()}
        self.limits = TokenLimits(self.lexer)
        self.sizes = settled(self.symbols, self._terminal_sizes())  # takes as long as there are rules: not in a call

    def _terminal_sizes(self) -> dict[int, int]:
        """Return the least size in bytes of each terminal that can be finished."""
        sizes = dict.fromkeys(self.values, 1)
        lexer = self.lexer
        for number, start in enumerate(lexer.starts):
            if start >= 0 and lexer.distances[start] >= 0:
                sizes[number] = lexer.distances[start]
        return sizes


def _numbered(rules: list[Production], start: str, terminals: list[str]) -> NumberedRules:
    codes = SymbolCodes()
    begin = codes.of((False, start))
    ways = ways_of(rules, codes)
    if begin not in ways:
        raise Unsatisfiable(f"no text can be finished: every way from `{start}` recurses without end")
    return as_networks(untangled(without_nested_loops(ways, begin), codes), begin, codes, terminals)


class Parser:
    """The parse of the texts of one grammar. `follow`: what comes after a whole text.

    What it works out is shared by all texts, and forgotten by `start_readings`.
    """

    def __init__(self, tables: ParserTables, follow: Continuation | None = None) -> None:
        self.tables = tables
        self.follow = follow or EndOfText()
        self.goes_on = not isinstance(self.follow, EndOfText)
        self._costs: ParseCosts | None = None
        self._renew()
        self._is_new = True

    def _renew(self) -> None:
        tables = self.tables
        self.frames = ParseFrames(tables.symbols)
        self.configurations = Configurations(
            self.frames, tables.lexer, tables.ignored, frozenset(tables.values), self.goes_on
        )
        self._tokens: TokenParts | None = None
        self._outside: dict[ParseFrame, tuple[Reading, ...]] = {}
        self._after: dict[ParseFrame, AfterValue] = {}
        self._counting: dict[tuple[Configuration, TokenCounts], ParserReading] = {}
        self.starting = self.frames.start(tables.start)

    def start_readings(self) -> tuple[Reading, ...]:
        """Return the readings before the first byte."""
        for value in self.tables.values.values():
            value.renew()
        if not self._is_new:
            self._renew()
        self._is_new = False
        return self.before(self.starting)

    @property
    def restarts(self) -> bool:
        """Return whether a text may begin with a JSON value."""
        return self.begins_value(self.starting)

    def before(self, frame: ParseFrame) -> tuple[Reading, ...]:
        """Return the readings at the beginning of `frame`."""
        return (self.reading(self.configurations.at(frame)), *self.outside(frame))

    def reading(self, at: Configuration) -> ParserReading:
        if at.reading is None:
            at.reading = ParserReading(self, at)
        found: ParserReading = at.reading
        return found

    def counting(self, at: Configuration, token_counts: TokenCounts) -> ParserReading:
        """Return the reading of `at` where terminals that have a limit took so many tokens."""
        if not token_counts:
            return self.reading(at)
        found = self._counting.get((at, token_counts))
        if found is None:
            if len(self._counting) >= _MOST_COUNTING:
                self._counting.clear()
            found = self._counting[at, token_counts] = ParserReading(self, at, token_counts)
        return found

    # --- outside the automaton ----------------------------------------------------------------------------------------

    def outside(self, frame: ParseFrame) -> tuple[Reading, ...]:
        """Return the readings of values that may come next in `frame`, and of what follows a whole text."""
        if not (self.goes_on or self.tables.values):
            return ()
        found = self._outside.get(frame)
        if found is None:
            found = self._outside[frame] = tuple(self._beside(frame))
        return found

    def _beside(self, frame: ParseFrame) -> Iterator[Reading]:
        opened = self.frames.opened(frame)
        for terminal in opened.terminals:
            value = self.tables.values.get(terminal)
            if value is not None:
                yield from value.readings(self._after_value(self.frames.shift(frame, terminal)))
        if self.goes_on and opened.is_whole:
            yield from self.follow.after(0)

    def _after_value(self, frame: ParseFrame) -> AfterValue:
        found = self._after.get(frame)
        if found is None:
            found = self._after[frame] = AfterValue(self, frame)
        return found

    def begins_value(self, frame: ParseFrame) -> bool:
        """Return whether a JSON value may come next."""
        return bool(self.tables.values) and not self.tables.values.keys().isdisjoint(
            self.frames.opened(frame).terminals
        )

    def leave(self, frame: ParseFrame, run: Run, end_offset: int) -> tuple[Reading, ...]:
        """Return `outside`, and restart the tape where a value begins; `end_offset` as in `Run.passes`."""
        if self.begins_value(frame):
            run.reads_text()  # the tape moves, so this step is taken anew each time
            run.tape.restart(end_offset)  # type: ignore[union-attr]  # values come with their own tape
        elif self.goes_on and self.frames.opened(frame).is_whole:
            self.follow.finish(0, run, end_offset)
        return self.outside(frame)

    # --- tokens and costs ---------------------------------------------------------------------------------------------

    def tokens(self, vocabulary: Vocabulary) -> TokenParts:
        if self._tokens is None:
            wanted = np.zeros(256, np.bool_)
            if self.goes_on:
                wanted[[byte for reading in self.follow.after(0) for byte in reading.firsts()]] = True
            for value in self.tables.values.values():
                wanted[[byte for reading in value.readings(EndOfText()) for byte in reading.firsts()]] = True
            self._tokens = TokenParts(self.configurations, vocabulary, wanted)
        return self._tokens

    @property
    def costs(self) -> ParseCosts:
        """Return the costs of finishing a text."""
        if self._costs is None:
            self._costs = ParseCosts(self.tables.symbols, self.tables.sizes)
        return self._costs


class AfterValue(Continuation):
    """After a JSON value: what `frame` holds."""

    __slots__ = ("frame", "parser")

    def __init__(self, parser: Parser, frame: ParseFrame) -> None:
        super().__init__()
        self.parser = parser
        self.frame = frame

    @property
    def restarts(self) -> bool:
        return self.parser.begins_value(self.frame)

    def after(self, outcome: int) -> tuple[Reading, ...]:
        return self.parser.before(self.frame)

    def finish(self, outcome: int, run: Run, end_offset: int) -> tuple[Reading, ...]:
        self.parser.leave(self.frame, run, end_offset)
        return self.after(outcome)

    def least(self, words: Callable[[Any, Any], Any]) -> int:
        return self.parser.costs.of_frame(self.parser.frames, self.frame)

    @property
    def is_end(self) -> bool:
        return self.parser.frames.opened(self.frame).is_whole and self.parser.follow.is_end


class ParserReading(Reading):
    """One configuration of a parser: all that a text can mean but for what is read outside the automaton.

    `token_counts`: how many tokens each terminal that has a limit took, see `TokenLimits`.
    """

    __slots__ = ("at", "parser", "token_counts")

    def __init__(self, parser: Parser, at: Configuration, token_counts: TokenCounts = ()) -> None:
        self.parser = parser
        self.at = at
        self.token_counts = token_counts

    @property
    def can_stop(self) -> bool:
        return self.at.is_whole and self.parser.follow.is_end

    def _ended(self) -> list[ParseFrame]:
        """Return the frames after lexemes that may end here but could go on. Other readings represent lexemes that have
        ended for good."""
        accepts = self.parser.tables.lexer.accepts
        return [frame for state, frame in self.at.parts if state != OVER and accepts[state]]

    def step(self, byte: int, run: Run) -> tuple[Reading, ...]:
        parser, at = self.parser, self.at
        byte_class = int(parser.tables.lexer.classes[byte])
        after = parser.configurations.step(at, byte_class)
        found: tuple[Reading, ...] = ()
        if after is not None:
            limits = parser.tables.limits
            if limits.by_state:
                counts = limits.after_byte(at.parts, self.token_counts, byte_class, parser.configurations)
                found = (parser.counting(after, counts),)
            else:
                found = (parser.reading(after),)
        if at.leaves:
            for frame in self._ended():
                for reading in parser.leave(frame, run, 1):
                    found += reading.step(byte, run)
        if after is not None and after.leaves and after.parts[0][0] == OVER:
            found += parser.leave(after.parts[0][1], run, 0)
        return found

    def run(self, text: bytes) -> ParserReading | None:
        """Return the reading after all of `text`. None where it is refused, where something outside the automaton can
        read it as well, or where tokens are counted."""
        parser = self.parser
        if parser.goes_on or parser.tables.values or parser.tables.limits.by_state:
            return None
        at: Configuration | None = self.at
        step = parser.configurations.step
        for byte_class in text.translate(parser.tables.lexer.translation):
            assert at is not None
            at = at.steps[byte_class] if byte_class in at.steps else step(at, byte_class)
            if at is None:
                return None
        assert at is not None
        return parser.reading(at)

    # --- limits of tokens ---------------------------------------------------------------------------------------------

    @property
    def counts(self) -> bool:
        return bool(self.token_counts)

    def after_token(self) -> tuple[Reading, ...]:
        if not self.token_counts:
            return (self,)
        parser = self.parser
        parts, counts = parser.tables.limits.after_token(self.at.parts, self.token_counts)
        return (parser.counting(parser.configurations.of(parts), counts),)

    def uncounted(self) -> Reading:
        return self.parser.reading(self.at)

    # --- masks ----------------------------------------------------------------------------------------------------

    def root(self, builder: MaskBuilder) -> None:
        parts = self.parser.tokens(builder.vocabulary)
        for places, frame in parts.add(self.at, builder):
            outside = self.parser.outside(frame)
            remainders = parts.remainders(places) if outside else None
            if remainders is not None and remainders.children:
                for reading in outside:
                    reading.walk(remainders, builder)
        if self.at.leaves:
            for frame in self._ended():
                for reading in self.parser.outside(frame):
                    reading.root(builder)

    def walk(self, node: TrieNode, builder: MaskBuilder) -> None:
        parser = self.parser
        classes = parser.tables.lexer.classes
        pending: list[tuple[TrieNode, ParserReading]] = [(node, self)]
        while pending:
            above, reading = pending.pop()
            charge(_OF_WALK + len(above.children) / _CHILDREN_A_CHARGE)
            at = reading.at
            for byte, below in above.children.items():
                after = parser.configurations.step(at, int(classes[byte]))
                if after is not None:
                    builder.add(below.ids)
                    if below.children:
                        pending.append((below, parser.reading(after)))
            if at.leaves:
                frames = reading._ended()
                if at.parts[0][0] == OVER and reading is not self:
                    frames.append(at.parts[0][1])
                for beside in [each for frame in frames for each in parser.outside(frame)]:
                    charge(_OF_BESIDE)
                    beside.walk(above, builder)

    def lookahead(self, at: PunctuationNode, vocabulary: Vocabulary) -> Lookahead:
        return by_walk(self, vocabulary)

    def firsts(self) -> Iterable[int]:
        found = set(self._bytes())
        for frame in self._ended() if self.at.leaves else ():
            found.update(byte for reading in self.parser.outside(frame) for byte in reading.firsts())
        return found

    def _bytes(self) -> list[int]:
        """Return the bytes that the automaton can read next."""
        classes = self.parser.tables.lexer.classes
        row = self.parser.configurations.row(self.at)
        found: list[int] = np.flatnonzero((row != REFUSED)[classes]).tolist()
        return found

    def usual_bytes(self) -> set[int]:
        return MANY_BYTES if self.at.leaves or self.at.is_whole else set(self._bytes())

    # --- ends and names ---------------------------------------------------------------------------------------------

    def ways(self, words: Callable[[Any, Any], Any]) -> Iterator[tuple[int, bytes]]:
        """Yield texts up to the next decision, each with the cost of it and all behind it up to the end."""
        parser = self.parser
        lexer, frames, costs = parser.tables.lexer, parser.frames, parser.costs
        for state, frame in self.at.parts:
            if state != OVER:
                terminal = lexer.terminal(state)
                inside = words(lexer.lexemes[terminal], state - lexer.offsets[terminal])
                yield from _costed(inside, costs.of_frame(frames, frame))
            if lexer.accepts[state]:
                terminals = frames.opened(frame).terminals
                charge(_OF_TERMINAL * len(terminals))
                for terminal in terminals:
                    lexeme = lexer.lexemes[terminal]
                    if lexeme is not None:
                        behind = costs.of_frame(frames, frames.shift(frame, terminal))
                        yield from _costed(words(lexeme, lexeme.start), behind)

    def beside(self) -> list[Reading]:
        """Return readings outside the automaton behind lexemes that may end here."""
        return [reading for frame in self._ended() for reading in self.parser.outside(frame)]

    def label(self) -> str:
        lexer = self.parser.tables.lexer
        tables = self.parser.tables
        names = [tables.symbols.terminals[lexer.terminal(state)] for state, _ in self.at.parts if state]
        names += [name for _, frame in self.at.parts for name in self.parser.frames.names(frame)]
        return next(filter(_is_written, names), tables.start_name)


def _is_written(name: str) -> bool:
    """Return whether a name is one of those in the grammar's text: a hint, for messages."""
    return bool(_WRITTEN.fullmatch(name)) and not name.startswith("_")


def _costed(words: Iterable[Any], behind: int) -> Iterator[tuple[int, bytes]]:
    for word in words:
        if word.text:
            yield len(word.text) + behind, word.text
