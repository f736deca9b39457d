"""Parts of a text whose tokens no longer change: the same in every cut, and tokenised as the whole is."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from sluicegate.plugins.testing import chunkings
from sluicegate.safety.judging.stable_text import LONGEST, StableCutter, Words, words_of

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
BITS = [
    *["a", "word", "don't", "I'LL", "'", "'s", "123", "4", "x1", "\u00e9", "e\u0301", "\u0301", "caf\u00e9", "_", "."],
    *[" ", "  ", "\n", "\n\n", " \n", "\r\n", "\t", "\u00a0", "\u2003", "!?", "...", "->", '{"k":', "\\", "\u200b"],
    *[
        "漢字",
        "。",
        "\u1112\u1161\u11ab",
        "한",
        "नमस्ते",
        "🙂",
        "👩\u200d👩\u200d👧",
        "🇮🇹",
        "\U0001f44d\U0001f3fd",
        "\x00",
    ],
]


class Split:
    """What a `transformers` tokenizer shows of how it splits words."""

    def __init__(self, pattern: str) -> None:
        split = pre_tokenizers.Split(Regex(pattern), "isolated")
        self.backend_tokenizer = Tokenizer(models.BPE())
        self.backend_tokenizer.normalizer = normalizers.NFC()
        self.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
        )
        self.backend_tokenizer.decoder = decoders.ByteLevel()

    def words(self, text: str) -> list[str]:
        """Return words as the tokenizer makes them: of the composed text, in its letters for bytes."""
        composed = self.backend_tokenizer.normalizer.normalize_str(text)
        return [word for word, _ in self.backend_tokenizer.pre_tokenizer.pre_tokenize_str(composed)]


def text_of(chance: random.Random, size: int) -> str:
    return "".join(chance.choice(BITS) for _ in range(size))


def parts(words: Words, pieces: Any) -> list[str]:
    cutter = StableCutter(words)
    return [part for piece in pieces for part in cutter.feed(piece)] + list(cutter.close())


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("pattern", [QWEN, LLAMA, None])
def test_parts_depend_on_the_text_alone_and_lose_nothing(seed: int, pattern: str | None) -> None:
    text = text_of(random.Random(seed), 40)
    words = words_of(None if pattern is None else Split(pattern))
    whole = parts(words, [text])
    assert "".join(whole) == text
    assert all(0 < len(part) <= 2 * LONGEST for part in whole)
    for chunking in chunkings(text, seed=seed):
        assert parts(words, chunking.pieces) == whole, chunking.name


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("pattern", [QWEN, LLAMA])
def test_parts_have_the_words_of_the_whole_text(seed: int, pattern: str) -> None:
    tokenizer, text = Split(pattern), text_of(random.Random(seed), 30)
    found = parts(words_of(tokenizer), [text])
    assert [word for part in found for word in tokenizer.words(part)] == tokenizer.words(text)


def test_a_word_waits_for_the_next_one_and_no_longer() -> None:
    cutter = StableCutter(words_of(Split(QWEN)))
    text = "It was a poison. Really, 42 times!\n\nSo: bring 1,000 of them (or not) to the river."
    held = []
    for end in accumulate(1 for _ in text):
        list(cutter.feed(text[end - 1]))
        held.append(len(cutter._rest))
    assert max(held) == len(" Really")
    assert sum(held) / len(held) < 4


@pytest.mark.parametrize(
    "text", ["a" * 1000, "漢" * 500, " " * 700, "\n" * 300, "e" + "\u0301" * 400, "🙂" * 300, "\x00" * 200]
)
def test_what_has_no_end_is_cut_before_long(text: str) -> None:
    found = parts(words_of(Split(QWEN)), [text])
    assert "".join(found) == text
    assert max(map(len, found)) <= 2 * LONGEST


def test_an_empty_text_has_no_parts() -> None:
    assert parts(words_of(Split(QWEN)), []) == parts(words_of(None), ["", ""]) == []
