"""What a vocabulary with whole words promises."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer

from training.examples import rendered
from training.mix import sample_mixed
from training.model import build_model
from training.names import Names
from training.tables import words
from training.tokenizer import train_tokenizer
from training.vocabulary import corpus, whole_words, widened, with_words

BUNDLED = Path(__file__).resolve().parents[2] / "engine" / "bundled"


@pytest.fixture(scope="module")
def pieces() -> Any:
    """Train a tokenizer that knows few words."""
    return train_tokenizer(700, documents=150)


@pytest.fixture(scope="module")
def chosen(pieces: Any) -> list[str]:
    return whole_words(pieces, corpus(2000), often=2)


def test_words_that_decide_a_label_are_one_token_each_with_a_capital_or_without(pieces: Any, chosen: list[str]) -> None:
    tokenizer = with_words(pieces, chosen)
    for word in ("broken", "positive", "negative", "refund", "Invoice"):
        assert len(pieces.encode(word).ids) > 1
        assert len(tokenizer.encode(word).ids) == 1


def test_names_stay_in_pieces(chosen: list[str]) -> None:
    """A name that is one token in training would be known by it, and one never seen would not."""
    names = {name.lower() for kind in ("first", "last", "city", "country") for name in words(kind)}
    assert not names & set(chosen)
    made_up = [Names(random.Random(seed), "made").first() for seed in range(300)]
    assert len(set(made_up) & set(chosen)) < 6  # syllables that happen to be a word


def test_a_text_comes_back_unchanged_in_fewer_tokens(pieces: Any, chosen: list[str]) -> None:
    tokenizer = with_words(pieces, chosen)
    before = after = 0
    for seed in range(40):
        for text in rendered(AutoTokenizer.from_pretrained(BUNDLED), sample_mixed(random.Random(seed), 2, 7))[0:1]:
            ids = tokenizer.encode(text, add_special_tokens=False).ids
            assert tokenizer.decode(ids, skip_special_tokens=False) == text
            before += len(pieces.encode(text, add_special_tokens=False).ids)
            after += len(ids)
    assert after < before


def test_a_widened_model_keeps_its_rows_and_begins_a_word_at_the_mean_of_its_pieces(
    pieces: Any, chosen: list[str]
) -> None:
    class Sized:
        eos_token_id, pad_token_id = 1, 0

        def __len__(self) -> int:
            return int(pieces.get_vocab_size())

    model = build_model(Sized(), 64, 1, 2)
    kept = model.model.embed_tokens.weight.detach().clone()
    after = with_words(pieces, chosen)
    rows = widened(model, pieces, after).model.embed_tokens.weight.detach()
    assert torch.equal(rows[: len(kept)], kept)
    word = after.token_to_id("refund")
    mean = kept[pieces.encode("refund", add_special_tokens=False).ids].mean(0)
    assert torch.cosine_similarity(rows[word], mean, 0) > 0.999
    assert model.lm_head.weight is model.model.embed_tokens.weight
    assert model.config.vocab_size == after.get_vocab_size()


def test_the_bundled_tokenizer_has_whole_words() -> None:
    tokenizer = AutoTokenizer.from_pretrained(BUNDLED)
    assert tokenizer.tokenize("positive") == ["positive"]
    assert len(tokenizer.tokenize("Wojciechowska")) > 2
