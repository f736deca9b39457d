"""A search for the shortest text that finishes what a matcher has begun, and the tokens to write it with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import chain
from typing import NamedTuple

from sluicegate.grammar.blocked.watch import Watch
from sluicegate.grammar.completion.costs import NEVER, Costs
from sluicegate.grammar.completion.words import steps
from sluicegate.grammar.json.layout import Between
from sluicegate.grammar.json.object_steps import Named
from sluicegate.grammar.matching.state import Config, Configs
from sluicegate.grammar.reading.readings import AT_END, Choice, InLexeme, Thread
from sluicegate.grammar.reading.text import Place, Tape
from sluicegate.grammar.reading.value_start import Start
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_MOST_TRIES = 2_000
_MOST_VALUES = 1_000
_OPENERS, _CLOSERS = (b"{", b"["), (b"}", b"]")
_MOST_BYTES = 100_000
_SECOND_KEY = re.compile(rb',[ \t\r\n]*"(?:[^"\\]|\\.)*"')


class Completion(NamedTuple):
    """Accepting `tokens` one after the other finishes the text with `text`. Their number bounds the least number that
    is needed; where the grammar leaves checks to guards it may be more than that."""

    text: bytes
    tokens: tuple[int, ...]


def shortest_completion(
    configs: Configs, config: Config, tape: Tape | None, costs: Costs, watch: Watch | None = None
) -> Completion | None:
    """None if no way was found within 4,000 tries; `tape` is left as it was."""
    place = tape.place() if tape is not None else None
    try:
        with costs.lock:
            costs.left = _MOST_VALUES
            text = _Search(configs, config, tape, costs, watch).run()
    except RecursionError:
        return None
    finally:
        if tape is not None and place is not None:
            tape.restore(place)
    if text is None:
        return None
    tokens = spell(configs.vocabulary, text)
    return None if tokens is None else Completion(text, tokens)


class _Node(NamedTuple):
    config: Config
    place: Place | None
    text: bytes
    ways: Iterator[tuple[Config, bytes]]


class _Search:
    """Every step is a real one, so guards are asked."""

    def __init__(
        self, configs: Configs, config: Config, tape: Tape | None, costs: Costs, watch: Watch | None = None
    ) -> None:
        self.configs = configs
        self.tape = tape
        self.costs = costs
        self.watch = watch
        self.config = config
        self.place = tape.place() if tape is not None else None

    def run(self) -> bytes | None:
        found = self._deep()
        return self._wide() if found is None else found

    def _first(self) -> _Node:
        return _Node(self.config, self.place, b"", self._ways(self.config))

    def _deep(self) -> bytes | None:
        """Depth first along the cheapest ways."""
        stack = [self._first()]
        for _ in range(_MOST_TRIES):
            if not stack:
                return None
            node = stack[-1]
            if node.config.can_stop:
                return node.text
            way = next(node.ways, None)
            if way is None or len(node.text) > _MOST_BYTES:
                stack.pop()
                continue
            after = self._take(node, *way)
            if after is not None:
                stack.append(after)
        return None

    def _wide(self) -> bytes | None:
        """First where few choices were other than the cheapest, and few brackets refused: a check of a whole value may
        refuse all that begins in one way, without end."""
        heap = [(0, 0, 0, self._first())]
        for count in range(1, _MOST_TRIES):
            if not heap:
                return None
            late, depth, _, node = heappop(heap)
            if node.config.can_stop:
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

    def _take(self, node: _Node, reading: Config, text: bytes) -> _Node | None:
        """After `text`, from wherever the tape is."""
        if self.tape is not None and self.place is not None and node.place is not None:
            _go_back(self.tape, node.place, node.text, self.place)
        after, _ = self.configs.take(reading, text, self.tape)
        if after is None or (self.watch is not None and not self.watch.is_clear(node.text + text)):
            return None
        place = self.tape.place() if self.tape is not None else None
        return _Node(after, place, node.text + text, self._ways(after))

    def _ways(self, config: Config) -> Iterator[tuple[Config, bytes]]:
        found = iter(_ways(self.configs, config, self.costs))
        return found if self.watch is None else chain(found, _bytes(self.configs, config))


def _go_back(tape: Tape, place: Place, text: bytes, first: Place) -> None:
    """To an earlier place of the search, whose bytes may be gone from the tape."""
    del tape.text[first.size :]
    tape.text += text
    tape.restore(place)


def _ways(configs: Configs, config: Config, costs: Costs) -> list[tuple[Config, bytes]]:
    """Texts to go on with, each up to the next decision and in the one reading it is so cheap in, cheapest first."""
    found: dict[tuple[bytes, int], int] = {}
    for k, thread in enumerate(config.threads):
        for cost, way in _of_thread(thread, costs):
            if way and cost < found.get((way, k), NEVER):
                found[way, k] = cost
    ordered = sorted(found, key=lambda each: (found[each], each))
    readings = [configs.intern((thread,)) for thread in config.threads]
    return [(readings[k], way) for way, k in ordered]


def _bytes(configs: Configs, config: Config) -> Iterator[tuple[Config, bytes]]:
    """Where all words of a string were blocked: its next byte, nearest to the end first."""
    for thread in config.threads:
        if isinstance(thread, InLexeme) and thread.lexeme.is_string:
            reading = configs.intern((thread,))
            for byte in steps(thread.lexeme, thread.state):
                yield reading, bytes([byte])


def _of_thread(thread: Thread, costs: Costs) -> Iterator[tuple[int, bytes]]:
    if isinstance(thread, Start):
        outside = costs.follow(thread.follow, 0)
        for below in thread.threads():
            for cost, way in _of_thread(below, costs):
                yield cost + outside * (way in _OPENERS), way  # what opens a bracket counts its own frame only
    elif isinstance(thread, Choice):
        for byte in thread.moves:
            yield costs.move(thread, byte), bytes([byte])
    elif isinstance(thread, Between):
        for choice in thread.threads():
            yield from _of_thread(choice, costs)
    elif isinstance(thread, InLexeme):
        yield from _of_lexeme(thread, costs)
    else:
        assert thread is AT_END


def _of_lexeme(thread: InLexeme, costs: Costs) -> Iterator[tuple[int, bytes]]:
    if thread.lexeme.is_blank and thread.state == thread.lexeme.start:
        return  # whatever may follow blanks may come without them
    if isinstance(thread.follow, Named):
        for cost, word in costs.names(thread):
            yield cost, word.text
        return
    for word in costs.words.of(thread.lexeme, thread.state):
        if word.text:
            yield len(word.text) + costs.follow(thread.follow, word.outcome), word.text
        else:  # it may end here; what follows begins with the next byte
            for follow in thread.follow.branches:
                for below in follow.after(word.outcome):
                    yield from _of_thread(below, costs)


def spell(vocabulary: Vocabulary, text: bytes) -> tuple[int, ...] | None:
    """`text` in the longest tokens, but none of a comma and a whole string, which no mask offers; None where a byte has
    no token."""
    trie, tokens, at = vocabulary.trie, [], 0
    while at < len(text):
        node, best, end = -1, -1, at
        for i in range(at, len(text)):
            node = trie.child(node, text[i])
            if node < 0:
                break
            if trie.exact[node] and not _SECOND_KEY.search(text[at : i + 1]):
                best, end = int(trie.ids[trie.first[node]]), i + 1
        if best < 0:
            return None
        tokens.append(best)
        at = end
    return tuple(tokens)
