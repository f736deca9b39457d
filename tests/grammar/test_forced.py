"""Forced tokens: what must come, in the tokenizer's own words."""

from __future__ import annotations

from typing import Any

import pytest

from grammar import GrammarOptions, Vocabulary, compile_choices, compile_json_schema
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
