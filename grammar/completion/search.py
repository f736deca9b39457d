"""Search for the shortest completion of a matcher's text, and the tokens that spell it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np

from sluicegate.grammar.blocked.watch import Watch
from sluicegate.grammar.budget.meter import charge, left
from sluicegate.grammar.completion.costs import NEVER, Costs
from sluicegate.grammar.completion.outright import WrittenText
from sluicegate.grammar.completion.words import steps
from sluicegate.grammar.json.container import PartDone
from sluicegate.grammar.json.layout import Between
from sluicegate.grammar.json.objects.state import ListedName
from sluicegate.grammar.matching.state import ParserState, ParserStates
from sluicegate.grammar.parsing.parser import ParserReading
from sluicegate.grammar.reading.reading import Reading
from sluicegate.grammar.reading.readings import AT_END, ByteChoice, InLexeme
from sluicegate.grammar.reading.tape import Checkpoint, Tape
from sluicegate.grammar.reading.value_start import ValueStart
from sluicegate.grammar.vocabulary import kernels
from sluicegate.grammar.vocabulary.special_words import without_special
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_OF_TRY, _OF_PIECE, _OF_WAYS = 8, 7, 7
"""Work charged for a step of the search, for each piece of it, and for its continuations."""
_SPARED = 0.1
"""Share of the work allowed for a call that completions leave: a unit of theirs takes longer than one of masks."""
_READ_A_CHARGE = 8
"""Bytes of a piece read per unit charged."""
_PIECES = re.compile(rb'[^"\\{}\[\],:]+|.', re.DOTALL)
_LONG, _MOST_REFUSED = 20, 4
"""Bytes of a long text, and refused long texts after which no rest of an object or array is tried at once."""
_MOST_TRIES = 2_000
_MOST_ALIKE = 250
"""Refused texts after which the search goes best first: a check of a whole value may refuse all texts of one
beginning."""
_MOST_VALUES = 1_000
_OPENERS, _CLOSERS = (b"{", b"["), (b"}", b"]")
_MOST_BYTES = 100_000
_OF_SPELLING, _SPELLED_A_CHARGE = 20, 20
"""Work charged for spelling a text in tokens, and bytes spelled per unit charged."""


class Completion(NamedTuple):
    """A completion: accepting `tokens` in order appends `text`, which finishes the value; special tokens have none. Not
    always the fewest tokens, since guards are not foreseen."""

    text: bytes
    tokens: tuple[int, ...]


def shortest_completion(
    states: ParserStates, state: ParserState, tape: Tape | None, costs: Costs, watch: Watch | None = None
) -> Completion | None:
    """Return the shortest completion found, or None if there was none within 4,000 tries. `tape` is left unchanged."""
    checkpoint = tape.checkpoint() if tape is not None else None
    try:
        with costs.lock:
            if left() < inf:
                charge(left() * _SPARED)
            costs.left, costs.reserve = _MOST_VALUES, left() / 2
            text = _Search(states, state, tape, costs, watch).run()
    except RecursionError:
        return None
    finally:
        if tape is not None and checkpoint is not None:
            tape.restore(checkpoint)
    if text is None:
        return None
    tokens = spell(states.vocabulary, text)
    return None if tokens is None else Completion(without_special(text), tokens)


class _Node(NamedTuple):
    state: ParserState
    checkpoint: Checkpoint | None
    text: bytes
    ways: Iterator[tuple[ParserState, bytes]]


class _Search:
    """A search for a completion. Mutable. Every step is read onto the tape, so that guards are asked."""

    def __init__(
        self, states: ParserStates, state: ParserState, tape: Tape | None, costs: Costs, watch: Watch | None = None
    ) -> None:
        self.states = states
        self.tape = tape
        self.costs = costs
        self.watch = watch
        self.state = state
        self.refused = 0
        """Number of long texts refused so far."""
        self.checkpoint = tape.checkpoint() if tape is not None else None
        self.before = bytes(tape.text) if tape is not None else b""

    def run(self) -> bytes | None:
        found = self._deep()
        return self._wide() if found is None else found

    def _first(self) -> _Node:
        return _Node(self.state, self.checkpoint, b"", self._ways(self.state, self.checkpoint, b""))

    def _deep(self) -> bytes | None:
        """Search depth first, cheapest continuations first."""
        stack, refused = [self._first()], 0
        for _ in range(_MOST_TRIES):
            if not stack or refused > _MOST_ALIKE:
                return None
            node = stack[-1]
            if node.state.can_stop:
                return node.text
            way = next(node.ways, None)
            if way is None or len(node.text) > _MOST_BYTES:
                stack.pop()
                continue
            after = self._take(node, *way)
            if after is None:
                refused += 1
            else:
                stack.append(after)
        return None

    def _wide(self) -> bytes | None:
        """Search best first, by the number of choices that were not the cheapest: a check of a whole value may refuse
        endlessly many texts of one beginning."""
        heap = [(0, 0, 0, self._first())]
        for count in range(1, _MOST_TRIES):
            if not heap:
                return None
            late, depth, _, node = heappop(heap)
            if node.state.can_stop:
                return node.text
            way = next(node.ways, None)
            if way is None or len(node.text) > _MOST_BYTES:
                continue
            after = self._take(node, *way)
            refused = after is None and way[1] not in _CLOSERS
            heappush(heap, (late + (not refused), depth, count, node))
            if after is not None:
                heappush(heap, (late, depth - 1, count, after))
        return None

    def _take(self, node: _Node, alone: ParserState, text: bytes) -> _Node | None:
        """Return the node after `text`; None if it is refused."""
        if alone is _WHOLE:
            return _Node(_WHOLE, node.checkpoint, node.text + text, iter(()))
        if self.tape is not None and self.checkpoint is not None and node.checkpoint is not None:
            _go_back(self.tape, node.checkpoint, node.text, self.checkpoint)
        charge(_OF_TRY)
        after = self._read(alone, text)
        if after is None or (self.watch is not None and not self.watch.is_clear(node.text + text)):
            self.refused += len(text) > _LONG
            return None
        checkpoint = self.tape.checkpoint() if self.tape is not None else None
        written = node.text + text
        return _Node(after, checkpoint, written, self._ways(after, checkpoint, written))

    def _read(self, state: ParserState, text: bytes) -> ParserState | None:
        """Return the state after `text`; None if it is refused. The text between quotes is read as one piece."""
        for found in _PIECES.finditer(text):
            piece = found.group()
            charge(_OF_PIECE + len(piece) / _READ_A_CHARGE)
            after = self.states.take(state, piece, self.tape)
            if after is None:
                return None
            state = after
        return state

    def _ways(
        self, state: ParserState, checkpoint: Checkpoint | None, text: bytes
    ) -> Iterator[tuple[ParserState, bytes]]:
        """Yield completions of the open object or array, then shorter texts, each computed on demand."""
        if self.refused < _MOST_REFUSED and checkpoint is not None:
            yield from self._outright(state, checkpoint, text)
        yield from _ways(self.states, state, self.costs)
        if self.watch is not None or self.tape is not None:
            yield from _bytes(self.states, state)

    def _outright(self, state: ParserState, checkpoint: Checkpoint, text: bytes) -> Iterator[tuple[ParserState, bytes]]:
        """Yield states with the text that closes the open object or array and those around it."""
        written = WrittenText(self.before + text, checkpoint[1].bracket)
        for reading in state.readings:
            for below in _where_it_may_end(reading):
                if not isinstance(below, Between) or not isinstance(below.done, PartDone):
                    continue
                rest = self.costs.outright.rest(below.done, written)
                if rest.too_long:
                    self.refused = _MOST_REFUSED
                alone = self.states.intern((reading,))
                if rest.sure and rest.whole and self.watch is None:
                    if not _is_asked_at_end(reading) or self._may_end(alone, checkpoint, text, rest.text[:1]):
                        yield _WHOLE, rest.text
                elif len(rest.text) > 1:
                    yield alone, rest.text

    def _may_end(self, state: ParserState, checkpoint: Checkpoint, text: bytes, byte: bytes) -> bool:
        """Return whether the number or word that is open in `state` may end with `byte`, which follows it."""
        if self.tape is not None and self.checkpoint is not None:
            _go_back(self.tape, checkpoint, text, self.checkpoint)
        return self.states.take(state, byte, self.tape) is not None


_WHOLE = ParserState((AT_END,))
"""The state after a text that need not be read, since nothing could refuse it."""


def _go_back(tape: Tape, checkpoint: Checkpoint, text: bytes, first: Checkpoint) -> None:
    """Restore the tape to an earlier node of the search, whose bytes may have been overwritten."""
    del tape.text[first[0] :]
    tape.text += text
    tape.restore(checkpoint)


def _ways(states: ParserStates, state: ParserState, costs: Costs) -> list[tuple[ParserState, bytes]]:
    """Return (reading, text up to the next decision), cheapest first, each text in its cheapest reading."""
    charge(_OF_WAYS * len(state.readings))
    found: dict[tuple[bytes, int], int] = {}
    for k, reading in enumerate(state.readings):
        for cost, way in _of_reading(reading, costs):
            if way and cost < found.get((way, k), NEVER):
                found[way, k] = cost
    ordered = sorted(found, key=lambda each: (found[each], each))
    readings = [states.intern((reading,)) for reading in state.readings]
    return [(readings[k], way) for way, k in ordered]


def _where_it_may_end(reading: Reading) -> Iterator[Reading]:
    """Yield `reading`, or the readings after it if it is a number or word that may end here."""
    outcome = reading.lexeme.outcome(reading.state) if isinstance(reading, InLexeme) else None
    if outcome is None or not isinstance(reading, InLexeme):
        yield reading
        return
    for follow in reading.follow.branches:
        yield from follow.after(outcome)


def _bytes(states: ParserStates, state: ParserState) -> Iterator[tuple[ParserState, bytes]]:
    """Yield the next bytes of strings and of new numbers, nearest to acceptance first, for when all short words were
    refused."""
    for reading in _of_values(state.readings):
        if isinstance(reading, InLexeme) and (reading.lexeme.is_string or _is_asked(reading)):
            alone = states.intern((reading,))
            for byte in steps(reading.lexeme, reading.state):
                yield alone, bytes([byte])


def _is_asked_at_end(reading: Reading) -> bool:
    """Return whether a guard may refuse the end of the number or word that is open."""
    return isinstance(reading, InLexeme) and any(branch.guard is not None for branch in reading.follow.branches)


def _is_asked(reading: InLexeme) -> bool:
    """Return whether a guard may refuse the number read so far, so that it cannot end here."""
    return not reading.lexeme.general and any(branch.guard is not None for branch in reading.follow.branches)


def _of_values(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Yield `readings`, each start of a value replaced by the readings at its first byte."""
    for reading in readings:
        if isinstance(reading, ValueStart):
            yield from reading.readings()
        else:
            yield reading


def _of_reading(reading: Reading, costs: Costs) -> Iterator[tuple[int, bytes]]:
    if isinstance(reading, ValueStart):
        outside = costs.follow(reading.follow, 0)
        for below in reading.readings():
            for cost, way in _of_reading(below, costs):
                yield cost + outside * (way in _OPENERS), way  # a bracket's cost covers its own frame only
    elif isinstance(reading, ByteChoice):
        for byte in reading.moves:
            yield costs.move(reading, byte), bytes([byte])
    elif isinstance(reading, Between):
        for choice in reading.readings():
            yield from _of_reading(choice, costs)
    elif isinstance(reading, InLexeme):
        yield from _of_lexeme(reading, costs)
    elif isinstance(reading, ParserReading):
        yield from reading.ways(costs.words.of)
        for below in reading.beside():
            yield from _of_reading(below, costs)
    else:
        assert reading is AT_END


def _of_lexeme(reading: InLexeme, costs: Costs) -> Iterator[tuple[int, bytes]]:
    if reading.lexeme.is_blank and reading.state == reading.lexeme.start:
        return  # whatever follows blanks may also come without them
    if isinstance(reading.follow, ListedName):
        for cost, word in costs.names(reading):
            yield cost, word.text
        return
    for word in costs.words.of(reading.lexeme, reading.state):
        if word.text:
            yield len(word.text) + costs.follow(reading.follow, word.outcome), word.text
        else:  # it may end here; what follows begins with the next byte
            for follow in reading.follow.branches:
                for below in follow.after(word.outcome):
                    yield from _of_reading(below, costs)


def spell(vocabulary: Vocabulary, text: bytes) -> tuple[int, ...] | None:
    """Spell `text` in the longest tokens, except tokens that end a string and hold another whole one, for which guards
    are asked one by one. Return None if a byte has no token."""
    charge(_OF_SPELLING + len(text) / _SPELLED_A_CHARGE)
    trie, found = vocabulary.trie, np.empty(len(text), np.int32)
    data, avoided = np.frombuffer(text, np.uint8), vocabulary.strings.is_crossing
    count = kernels.longest_tokens(
        data, trie.byte, trie.skip, trie.roots, trie.first, trie.exact, trie.ids, avoided, found
    )
    return None if count < 0 else tuple(found[:count].tolist())
