"""Forced tokens: what must come, in the tokenizer's own words."""

from __future__ import annotations

import json
import random
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate import engine
from sluicegate.engine.text.prompt import render_chat
from sluicegate.grammar import GrammarOptions, LazyGrammar, Vocabulary, compile_choices, compile_json_schema
from tests.grammar.grammar_checks import allowed
from tests.grammar.test_vocabulary import bpe

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "kind": {"const": "a longer constant"}},
    "required": ["name", "age", "kind"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return bpe()


@pytest.mark.parametrize("whitespace", ["compact", "flexible"])
def test_forced_tokens_are_those_of_the_tokenizer(tokenizer: Any, whitespace: str) -> None:
    """Following them where they are offered, and the canonical tokens elsewhere, gives the canonical tokenisation; and
    no other first byte was possible but that of an escape."""
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    text = '{"name":"Zoë","age":12,"kind":"a longer constant"}'
    if whitespace == "flexible":
        text = text.replace(":", ": ").replace(",", ", ")
    canonical = tokenizer.encode(text, add_special_tokens=False)
    matcher = compile_json_schema(SCHEMA, vocabulary, options=GrammarOptions(whitespace=whitespace)).matcher()
    forced_in_all, at = 0, 0
    while at < len(canonical):
        forced = matcher.forced_tokens()
        assert forced == canonical[at : at + len(forced)]
        forced_in_all += len(forced)
        for token in forced or [canonical[at]]:
            assert token in allowed(matcher, vocabulary)
            matcher.accept(token)
            at += 1
    assert matcher.is_finished
    assert forced_in_all > (5 if whitespace == "compact" else 0)


def test_nothing_is_forced_where_there_is_a_choice_or_no_tokenizer(tokenizer: Any) -> None:
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    assert compile_json_schema(True, vocabulary).matcher().forced_tokens() == []
    assert compile_choices(["yes", "no"], vocabulary).matcher().forced_tokens() == []
    mute = Vocabulary.from_bytes([bytes([b]) for b in range(256)] + [b""], eos_token_ids=[256])
    assert compile_json_schema(SCHEMA, mute).matcher().forced_tokens() == []


def test_asking_changes_nothing(tokenizer: Any) -> None:
    vocabulary = Vocabulary.from_tokenizer(tokenizer)
    matcher = compile_json_schema(SCHEMA, vocabulary, options=GrammarOptions(whitespace="compact")).matcher()
    before = allowed(matcher, vocabulary)
    assert matcher.forced_tokens() == matcher.forced_tokens() != []
    assert allowed(matcher, vocabulary) == before


BUNDLED = Path(engine.__file__).parent / "bundled"
LISTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "active": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "inner": {
            "type": "object",
            "properties": {"tags": {"type": "array", "items": {"type": "object"}}},
            "required": ["tags"],
        },
    },
    "required": ["name", "active", "tags", "inner"],
    "additionalProperties": False,
}
_texts = st.text('ab :,[]{}é0"\\', max_size=4)
INSTANCES = st.builds(
    lambda name, active, tags, inner: {"name": name, "active": active, "tags": tags, "inner": {"tags": inner}},
    _texts,
    st.booleans(),
    st.lists(_texts, max_size=2),
    st.lists(st.just({}), max_size=2),
)


@pytest.fixture(scope="module")
def bundled() -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(BUNDLED)


@pytest.fixture(scope="module")
def vocabulary(bundled: Any) -> Vocabulary:
    return Vocabulary.from_tokenizer(bundled, len(bundled))


@settings(max_examples=60, deadline=None)
@given(instance=INSTANCES, compact=st.booleans())
def test_what_is_forced_begins_the_tokenization_of_every_text_that_can_follow(
    bundled: Any, vocabulary: Vocabulary, instance: dict[str, Any], compact: bool
) -> None:
    """Found with the bundled model: `:[` was forced before `"`, where its tokenizer writes `:["` as one token, and the
    model, led where it never was, went on with nonsense."""
    options = GrammarOptions(whitespace="compact" if compact else "flexible")
    matcher = compile_json_schema(LISTS, vocabulary, options=options).matcher()
    separators = (",", ":") if compact else None
    canonical = bundled.encode(
        json.dumps(instance, ensure_ascii=False, separators=separators), add_special_tokens=False
    )
    for at, token in enumerate(canonical):
        forced = matcher.forced_tokens()
        assert forced == canonical[at : at + len(forced)]
        matcher.accept(token)
    assert matcher.can_stop


@pytest.mark.parametrize("compact", [True, False])
@settings(max_examples=40, deadline=None)
@given(instance=INSTANCES, seed=st.integers(0, 1000))
def test_forcing_goes_on_after_a_spelling_that_the_tokenizer_would_not_write(
    bundled: Any, vocabulary: Vocabulary, instance: dict[str, Any], seed: int, compact: bool
) -> None:
    """A model spells as it likes, here in bytes and tokens at random. What is forced still is the text that follows,
    and where a token of the tokenizer ends, its next ones."""
    options = GrammarOptions(whitespace="compact" if compact else "flexible")
    matcher = compile_json_schema(LISTS, vocabulary, options=options).matcher()
    text = json.dumps(instance, ensure_ascii=False, separators=(",", ":") if compact else None).encode()
    pick, at, forced_in_all = random.Random(seed), 0, 0
    ends = _ends(bundled, vocabulary, text)
    while at < len(text):
        forced = matcher.forced_tokens()
        spelled = b"".join(vocabulary.words[token] for token in forced)
        assert text.startswith(spelled, at)
        if at in ends:
            assert forced == ends[at][: len(forced)]
        forced_in_all += len(forced)
        for token in forced or [pick.choice(_beginnings(vocabulary, text[at:]))]:
            matcher.accept(token)
            at += len(vocabulary.words[token])
    assert matcher.can_stop
    assert forced_in_all > 0


def _ends(bundled: Any, vocabulary: Vocabulary, text: bytes) -> dict[int, list[int]]:
    """Map each place where a token of the tokenizer begins to it and those after it."""
    tokens = bundled.encode(text.decode(), add_special_tokens=False)
    places = [0, *accumulate(len(vocabulary.words[token]) for token in tokens)]
    return {place: tokens[at:] for at, place in enumerate(places)}


def _beginnings(vocabulary: Vocabulary, text: bytes) -> list[int]:
    return [token for token, word in enumerate(vocabulary.words) if word and text.startswith(word)]


@pytest.mark.parametrize("seed", range(6))
def test_no_other_byte_was_possible_but_an_escape_of_the_same_text(vocabulary: Vocabulary, seed: int) -> None:
    """Along random answers, byte by byte through everything that is forced."""
    pick = random.Random(seed)
    singles = {word: token for token, word in enumerate(vocabulary.words) if len(word) == 1}
    matcher = compile_json_schema(LISTS, vocabulary, options=GrammarOptions(whitespace="compact")).matcher()
    seen = 0
    for _ in range(60):
        forced = b"".join(vocabulary.words[token] for token in matcher.forced_tokens())
        fork = matcher.fork()
        for byte in forced:
            possible = {token for token in allowed(fork, vocabulary) if token in singles.values()}
            assert possible - {singles[b"\\"]} == {singles[bytes([byte])]}
            fork.accept(singles[bytes([byte])])
            seen += 1
        if matcher.is_finished:
            break
        matcher.accept(pick.choice(sorted(allowed(matcher, vocabulary))))
    assert seen


@pytest.mark.parametrize("schema", [SCHEMA, LISTS], ids=["constants", "lists"])
def test_a_model_writes_the_same_with_forced_tokens_and_without(
    bundled: Any, vocabulary: Vocabulary, schema: dict[str, Any]
) -> None:
    """Greedy decoding under the masks by the bundled model, which writes as its tokenizer does."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(BUNDLED).eval()
    compiled = compile_json_schema(schema, vocabulary, options=GrammarOptions(whitespace="compact"))
    for prompt in ("Maria Lopez, aged 34, is a customer in Paris.", "Tom Reed (45) asked about parcels and letters."):
        text = render_chat(bundled, [{"role": "user", "content": prompt}], schema=schema)
        with torch.no_grad():
            drawn, _ = greedy(model, compiled, bundled.encode(text), jump=False)
            jumped, forced = greedy(model, compiled, bundled.encode(text), jump=True)
        assert jumped == drawn
        assert forced > 5


def greedy(model: Any, compiled: LazyGrammar, prompt: list[int], *, jump: bool) -> tuple[list[int], int]:
    """Write greedily. Return what is written, and how many tokens of it were forced."""
    import torch

    vocabulary, matcher = compiled.vocabulary, compiled.matcher()
    written: list[int] = []
    forced_in_all = 0
    while len(written) < 60 and not matcher.is_finished:
        tokens = matcher.forced_tokens() if jump else []
        forced_in_all += len(tokens)
        if not tokens:
            logits = model(torch.tensor([prompt + written])).logits[0, -1].numpy()
            among = np.array(sorted(allowed(matcher, vocabulary)))
            tokens = [int(among[logits[among].argmax()])]
        for token in tokens:
            matcher.accept(token)
        written += tokens
    return written, forced_in_all
