"""Free text up to the first of several triggers: one lexeme whose outcome tells which of them has come."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import numpy as np
import pytest

from sluicegate.grammar import LazyMatcher, Vocabulary, compile_structural_tags
from sluicegate.grammar.matching import grammar as matching
from sluicegate.grammar.tags import freetext
from tests.grammar.grammar_checks import allowed
from tests.reference.mask_by_trial import mask_by_trial

LETTERS = "ab<é"
WORDS = ["".join(letters) for size in range(1, 4) for letters in product(LETTERS, repeat=size)]
PIECES = [*WORDS, *(f"{word}{digit}" for word in WORDS for digit in "12"), "1.", "2.a", "1", "2", "."]


SPELLED = {piece.encode() for piece in PIECES}


def vocabulary() -> Vocabulary:
    words = list(dict.fromkeys([bytes([byte]) for byte in range(256)] + [piece.encode() for piece in PIECES]))
    return Vocabulary.from_bytes([*words, b""], eos_token_ids=[len(words)])


def triggers(pick: random.Random, count: int) -> list[str]:
    """Draw literals of which none holds another."""
    found: list[str] = []
    for word in pick.sample(WORDS, len(WORDS)):
        if len(found) < count and not any(word in other or other in word for other in found):
            found.append(word)
    return found


def tags(begins: list[str], **more: Any) -> dict[str, Any]:
    structures = [{"begin": begin, "schema": {"const": n % 2 + 1}, "end": "."} for n, begin in enumerate(begins)]
    return {"structures": structures, "triggers": begins, **more}


def compared(matcher: LazyMatcher, words: Vocabulary) -> list[int]:
    """Compare the mask with that of trying every token; return the tokens in it."""
    row = np.zeros(words.row_words, np.int32)
    matcher.fill_mask(row)
    assert np.array_equal(row, mask_by_trial(matcher, words)), matcher
    return sorted(allowed(matcher, words) - set(words.eos_token_ids))


@pytest.mark.parametrize("count", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_masks_are_what_trying_each_token_gives(seed: int, count: int) -> None:
    pick, words = random.Random(100 * count + seed), vocabulary()
    begins = triggers(pick, count)
    compiled = compile_structural_tags(tags(begins), words)
    for begin in begins:
        matcher, text = compiled.matcher(), b""
        for ahead in ("", begin[:1], begin):
            for _ in range(3):
                may = compared(matcher, words)
                token = pick.choice([token for token in may if words.words[token] in SPELLED] or may)
                matcher.accept(token)
                text += words.words[token]
            for byte in ahead.encode():
                if byte in compared(matcher, words):
                    matcher.accept(byte)
                    text += bytes([byte])
        assert any(each.encode() in text for each in begins)


def test_each_trigger_is_followed_by_its_own_tag() -> None:
    """Triggers with the same end, whose last state would be one and the same without a mark."""
    words = vocabulary()
    compiled = compile_structural_tags(tags(["aa<", "ab<", "bb<"]), words)
    for begin, value in (("aa<", b"1"), ("ab<", b"2"), ("bb<", b"1")):
        matcher = compiled.matcher()
        for byte in f"b {begin}".encode():
            matcher.accept(byte)
        ahead = {words.words[token][:1] for token in allowed(matcher, words)}
        assert ahead - {b" ", b"\n", b"\t", b"\r"} == {value}
        found = matcher.shortest_completion()
        assert found is not None
        assert found.text == value + b"."


def test_an_excluded_text_is_no_outcome() -> None:
    lexeme = freetext.first_of(("aa", "ab"), ("b<",))
    ends = {}
    for text in ("aa", "ab", "bab", "b<", "b<aa", "aaa", "éaa"):
        state: int | None = lexeme.start
        for byte in text.encode():
            state = None if state is None else lexeme.next(state, byte)
        ends[text] = None if state is None else lexeme.outcome(state)
    assert ends == {"aa": 0, "ab": 1, "bab": 1, "b<": None, "b<aa": None, "aaa": None, "éaa": 0}


def test_hundreds_of_triggers_take_one_walk_of_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each had a lexeme of its own: 300 took .8 s for the first mask on a vocabulary of 128,000."""
    monkeypatch.setattr(matching, "_CHARGES", 5_000)
    words = vocabulary()
    begins = [f"<fn{number:03d}>" for number in range(300)]
    compiled = compile_structural_tags(tags(begins), words)
    matcher, row = compiled.matcher(), np.zeros(words.row_words, np.int32)
    for byte in b"text <fn299>2.<fn":
        matcher.fill_mask(row)
        matcher.accept(byte)
    assert len(matcher._at.readings) <= 2
