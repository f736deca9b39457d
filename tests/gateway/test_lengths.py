"""What cannot fit is refused from its bytes; what is long is tokenised no further than the model reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from sluicegate.gateway.prompts.lengths import COMPOSED, SHORT, Lengths, count_tokens, encode, longest_token
from sluicegate.plugins import ContextLengthExceeded, Message

BUNDLED: Any = AutoTokenizer.from_pretrained(Path(__file__).parents[2] / "engine" / "bundled")


@dataclass
class Model:
    name: str = "m"
    version: str = "1"
    context_length: int = 1000
    vocab_size: int = len(BUNDLED)
    eos_token_ids: tuple[int, ...] = (1,)
    tokenizer: Any = BUNDLED
    default_temperature: float = 1.0
    defaults: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    remote: bool = False
    base: None = None


class Counting:
    """A tokenizer that notes how many characters it was given."""

    def __init__(self) -> None:
        self.chars = 0

    def __call__(self, text: str, *, add_special_tokens: bool) -> dict[str, list[int]]:
        self.chars += len(text)
        return {"input_ids": [0] * (len(text) // 2)}


def made(normalizer: Any = None, pre: Any = None, added: AddedToken | None = None) -> Any:
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    tokenizer = Tokenizer(models.BPE(vocab=letters, merges=[]))
    tokenizer.pre_tokenizer = pre or pre_tokenizers.ByteLevel(add_prefix_space=False)
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    if added is not None:
        tokenizer.add_tokens([added])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400) | st.text(alphabet="ab <|endpad>\n", max_size=400))
def test_no_text_has_fewer_tokens_than_its_bytes_allow(text: str) -> None:
    """The bound that refuses without tokenising is never wrong; and the quick way finds the same tokens."""
    text = text.encode("utf-8", "replace").decode()
    slow = BUNDLED(text, add_special_tokens=False)["input_ids"]
    assert len(slow) * longest_token(BUNDLED) >= len(text.encode())
    long = text * (1 + SHORT // max(1, len(text)) + 1) if text else ""
    assert encode(BUNDLED, long, special=False) == BUNDLED(long, add_special_tokens=False)["input_ids"]
    assert encode(BUNDLED, long, special=True) == BUNDLED(long)["input_ids"]


def test_the_longest_token_is_known_only_where_no_byte_is_lost() -> None:
    assert longest_token(BUNDLED) == max(len(BUNDLED.decode([token]).encode()) for token in range(len(BUNDLED)))
    assert longest_token(made()) == 1
    assert longest_token(made(normalizers.NFC())) == COMPOSED
    assert longest_token(made(added=AddedToken("<mark>"))) == 6
    assert longest_token(made(normalizers.NFKC())) == 0
    assert longest_token(made(normalizers.Strip())) == 0
    assert longest_token(made(added=AddedToken("<mark>", rstrip=True))) == 0
    dropping = pre_tokenizers.Sequence([pre_tokenizers.Split(" ", "removed"), pre_tokenizers.ByteLevel()])
    assert longest_token(made(pre=dropping)) == 0
    assert longest_token(made(pre=pre_tokenizers.WhitespaceSplit())) == 0
    assert longest_token(Counting()) == 0


def test_composition_makes_no_more_than_four_bytes_one() -> None:
    text = "\u03b1\u0313\u0301\u0345" * 50  # one letter once composed
    tokenizer = made(normalizers.NFC())
    assert len(encode(tokenizer, text, special=False)) * longest_token(tokenizer) >= len(text.encode())


def test_messages_that_fit_no_model_are_refused_with_both_numbers() -> None:
    lengths, small, large = Lengths(), Model("small"), Model("large", context_length=5000)
    said = [Message("user", "x" * 20_000)]
    lengths.check(said, [small, large])  # the larger one may read it
    with pytest.raises(
        ContextLengthExceeded,
        match=rf"at least {-(-20_000 // longest_token(BUNDLED))} tokens \(20000 characters\).*'small'.* 1000 ",
    ):
        lengths.check(said, [small])
    with pytest.raises(ContextLengthExceeded, match="'large'"):
        lengths.check([Message("user", "x" * 100_000)], [small, large])
    lengths.check([Message("assistant", "x" * 100_000)], [small])  # its template may leave thoughts out
    lengths.check([Message("user", "x" * 100_000)], [small, Model("unknown", tokenizer=Counting())])


def test_of_a_text_that_is_far_too_long_little_is_tokenised() -> None:
    tokenizer = Counting()
    with pytest.raises(ContextLengthExceeded, match="more than"):
        Lengths().token_ids("x" * 8_000_000, Model(tokenizer=tokenizer), special=False)
    assert tokenizer.chars <= 40_000
    assert count_tokens(tokenizer, "x" * 100_000, 10**9) == 50_000


def test_a_text_a_little_too_long_is_refused_with_its_true_number() -> None:
    """Only what is clearly too long is refused by a count of windows: borders may cut tokens in two."""
    model = Model(tokenizer=Counting())
    assert len(Lengths().token_ids("x" * 1998, model, special=False)) == 999
    with pytest.raises(ContextLengthExceeded, match="has 1000 tokens"):
        Lengths().token_ids("x" * 2000, model, special=False)
