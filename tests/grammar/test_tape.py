"""The tape of a matcher: what it follows, whether bytes come one by one or in tokens, and the way back."""

from __future__ import annotations

import json
import random

import pytest

from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.grammar.reading.region_tape import RegionTape
from sluicegate.grammar.reading.tape import OpenBracket, Tape
from sluicegate.grammar.vocabulary.string_tokens import IN_STRING, OUTSIDE

TEXTS = [
    b'{"a": [1, "x, y", {"b\\"c": null}], "d": "\\\\", "e:{": {"f": []}} ',
    '{"\\u00e9\\n": "\u00e9 [", "": {"a": "a", "b": [[["\\""]]]}}'.encode(),
    b'12, "a": [',
]
WORDS = [
    b"<eos>",
    b"",
    b'"',
    b"\\",
    b'\\"',
    b": ",
    b'{"',
    b"]}",
    b"ab",
    "\u00e9".encode(),
    b"\xc3",
    b",",
    b" 1.5",
    b'a"b',
]


def known(tape: Tape) -> tuple[object, ...]:
    """Return all that `tape` knows, by value."""
    brackets: list[object] = []
    bracket: OpenBracket | None = tape.open
    while bracket is not None:
        brackets.append((bracket.start, list(bracket.keys)))
        bracket = bracket.outer
    return bytes(tape.text), tape.mode, tape.string, tape.closed, tape.since, brackets


def pieces(text: bytes, seed: int) -> list[bytes]:
    pick, found = random.Random(seed), []
    while text:
        size = pick.randint(1, 7)
        found.append(text[:size])
        text = text[size:]
    return found


@pytest.mark.parametrize("kind", [Tape, RegionTape])
@pytest.mark.parametrize("text", TEXTS)
def test_words_are_followed_as_their_bytes_are(kind: type[Tape], text: bytes) -> None:
    for seed in range(20):
        by_words, by_bytes = kind(), kind()
        for word in pieces(text, seed):
            by_words.push_all(word)
            for byte in word:
                by_bytes.push(byte)
            assert known(by_words) == known(by_bytes)


@pytest.mark.parametrize("kind", [Tape, RegionTape])
@pytest.mark.parametrize("text", TEXTS)
def test_a_tape_comes_back_to_all_that_it_knew(kind: type[Tape], text: bytes) -> None:
    tape, places = kind(), []
    for byte in text:
        places.append((tape.checkpoint(), known(tape)))
        tape.push(byte)
    random.Random(1).shuffle(places)
    tail = bytes(tape.text)
    for checkpoint, then in places:
        tape.text[:] = tail  # what stood behind is written anew, as after a rollback
        tape.restore(checkpoint)
        assert known(tape) == then
        assert tape.checkpoint()[0] == len(tape.text)
        tape.push_all(text[len(tape.text) :])


@pytest.mark.parametrize("end_offset", [0, 1])
def test_a_region_that_began_is_what_a_tape_comes_back_to(end_offset: int) -> None:
    tape = RegionTape(on=False)
    tape.push_all(b"free {")
    off, free = tape.checkpoint(), known(tape)
    tape.restart(end_offset)
    inside, begun = tape.checkpoint(), known(tape)
    assert begun != free
    tape.push_all(b'"a"')
    tape.restore(inside)
    assert known(tape) == begun
    tape.text[:] = b"free {"
    tape.restore(off)
    assert known(tape) == free


def test_inert_tokens_change_nothing_that_a_tape_knows() -> None:
    inert = Vocabulary.from_bytes(WORDS, eos_token_ids=[0]).inert
    for token, word in enumerate(WORDS[1:], 1):
        inside = not set(word) & set(b'"\\')
        outside = not set(word) & set(b'"{}[]:')
        assert inert[token] == IN_STRING * inside + OUTSIDE * outside, word


def test_accepted_tokens_leave_the_tape_of_their_bytes() -> None:
    """Whether a token is new to its state or known."""
    text = json.dumps({"free": 'a "b" [c]: \\', "other": {"n": [1, {"x": "}"}]}}).encode()
    words = [bytes([byte]) for byte in range(256)]
    words += sorted({text[i:k] for i in range(len(text)) for k in range(i + 2, min(i + 6, len(text)) + 1)})
    vocabulary = Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])
    compiled = compile_json_schema({"type": "object"}, vocabulary)
    numbers = {word: token for token, word in enumerate(words)}
    straight = Tape()
    straight.push_all(text)
    for seed in [1, 2, 3, 1, 2, 3]:
        matcher = compiled.matcher()
        for word in pieces(text, seed):
            for piece in [word] if word in numbers else [bytes([byte]) for byte in word]:
                matcher.accept(numbers[piece])
        assert matcher._tape is not None
        assert known(matcher._tape) == known(straight)
