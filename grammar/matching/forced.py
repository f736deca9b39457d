"""Text that the grammar leaves no choice about, and the tokens a tokenizer would spell it with."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate, chain

from sluicegate.grammar.matching.state import ParserState, ParserStates
from sluicegate.grammar.reading.reading import usual_bytes
from sluicegate.grammar.reading.tape import Tape
from sluicegate.grammar.vocabulary.vocabulary import Vocabulary

_MOST_BYTES = 256
_MOST_TEXT = 20_000
_MOST_WORK = 2_000
"""Readings that are asked for the one byte that must come, for all bytes together: what is found by then is sure."""


def forced_text(states: ParserStates, state: ParserState, tape: Tape | None) -> tuple[bytes, set[int]]:
    """Return the bytes that must come next, as far as they are sure and in their usual spelling, and those that may
    follow them, or more.

    A known string may always be spelled with escapes too; these spell the same text and are no choice. Stops wherever
    the text may end or a guard must be asked.
    """
    found, work = bytearray(), 0
    while len(found) < _MOST_BYTES and work < _MOST_WORK and not state.can_stop:
        work += len(state.readings)
        byte = _next_byte(state)
        if byte < 0:
            break
        after = states.take(state, bytes([byte]), tape)
        if after is None:
            break
        found.append(byte)
        state = after
    if not found:  # nearly always: nobody asks what may follow nothing
        return b"", set()
    return bytes(found), {byte for reading in state.readings for byte in reading.firsts()}


def _next_byte(state: ParserState) -> int:
    """Return the one byte that the text can go on with, -1 if there are several; remembered."""
    if state.forced is None:
        only = usual_bytes(state.readings)
        state.forced = only.pop() if len(only) == 1 else -1
    return state.forced


def canonical_tokens(vocabulary: Vocabulary, tokens: list[int], forced: bytes, following: set[int]) -> list[int]:
    """Return what the tokenizer writes for `forced` after the text of `tokens`, as far as that is the same whatever
    comes next; `following`: bytes that may. Where `tokens` end inside one of the tokenizer's (a model may spell as it
    likes), the rest of that one is spelled by itself, and all after it as the tokenizer would.

    Where BPE and unigram tokenizers end a token, they have written what stands before as if nothing followed. So either
    a token begins somewhere in `forced` and goes on past its end, or one ends with it: the prefix common to all these
    cases is sure.
    """
    if vocabulary.encode is None or not forced:
        return []
    cuts = _cuts(vocabulary, forced, following)
    first = next(cuts)
    if first == 0:  # all of it may be the beginning of one longer token
        return []
    before = b"".join([vocabulary.words[token] for token in tokens])
    if len(before) > _MOST_TEXT:
        return []
    sure: list[int] | None = None
    for size in chain((first,), cuts):
        added = _added(vocabulary, tokens, before, forced[:size])
        sure = added if sure is None else sure[: _alike(sure, added)]
        if not sure:
            return []
    assert sure is not None
    text = b"".join(vocabulary.words[token] for token in sure if token < len(vocabulary.words))
    return sure if all(vocabulary.words[token] for token in sure) and forced.startswith(text) else []


def _added(vocabulary: Vocabulary, tokens: list[int], before: bytes, forced: bytes) -> list[int]:
    """Return the tokens that spell `forced` after `tokens`, whose text is `before`; [] where that is not sure."""
    spelled = _spelled(vocabulary, before + forced)
    if spelled is None or spelled[: len(tokens)] == tokens:
        return [] if spelled is None else spelled[len(tokens) :]
    ends = list(accumulate(len(vocabulary.words[token]) for token in spelled))
    if not ends or ends[-1] != len(before) + len(forced):  # a tokenizer that adds a space, or leaves something out
        return []
    across = bisect_left(ends, len(before))
    rest = _spelled(vocabulary, forced[: ends[across] - len(before)])
    return [] if rest is None else rest + spelled[across + 1 :]


def _cuts(vocabulary: Vocabulary, forced: bytes, following: set[int]) -> Iterator[int]:
    """Yield where in `forced` a token may begin that ends after it, from its beginning on; and its end."""
    trie = vocabulary.trie
    for begin in range(max(0, len(forced) - vocabulary.longest + 1), len(forced)):
        node = trie.find(forced[begin:])
        if node >= 0 and any(trie.child(node, byte) >= 0 for byte in following):
            yield begin
    yield len(forced)


def _spelled(vocabulary: Vocabulary, text: bytes) -> list[int] | None:
    """Return the tokenizer's tokens for `text`. None where it breaks off inside a character, whose parts nothing is
    known of."""
    assert vocabulary.encode is not None
    try:
        return vocabulary.encode(text.decode())
    except UnicodeDecodeError:
        return None


def _alike(left: list[int], right: list[int]) -> int:
    """Return how many tokens both lists begin with."""
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
