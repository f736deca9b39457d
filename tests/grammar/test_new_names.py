"""New property names: masks where they end inside a token, and answers about them that are remembered."""

from __future__ import annotations

import random
from functools import lru_cache
from typing import Any

import pytest

from sluicegate.grammar import GrammarOptions, LazyMatcher, TokenRejected, Vocabulary, compile_json_schema
from tests.grammar.grammar_checks import allowed, check_masks

_PIECES = [
    '""',
    ',""',
    ', ""',
    '{""',
    '":',
    '":"',
    '": "',
    '":"",',
    '":{}',
    '":{"',
    '":{},"',
    '":[],""',
    '"},"',
    ',"",',
    ', "',
]
_WITH_COLON = ['"":', ',"":', ',"":"",', '{"":{', ', "": ']
_SCHEMAS: list[Any] = [
    {"properties": {"a": {"type": "string"}, "ab": {"type": "object"}}, "type": "object"},
    {"properties": {"": {"type": "string"}, "a": {"type": "array"}}, "type": "object"},
    {"additionalProperties": {"type": "string"}, "type": "object", "minProperties": 2},
    {"additionalProperties": {"type": "object", "properties": {"b": {"enum": ["", "a"]}}}, "type": "object"},
    {"patternProperties": {"^$|b": {"type": "string"}}, "additionalProperties": False, "type": "object"},
    {"properties": {"a": {}, "b": {"type": "string"}}, "required": ["b"], "type": "object", "maxProperties": 3},
    {"items": {"properties": {"a": {"type": "string"}}, "type": "object"}, "type": "array"},
]


@lru_cache(maxsize=2)
def vocabulary(colons: bool) -> Vocabulary:
    pieces = _PIECES + (_WITH_COLON if colons else [])
    words = [bytes([b]) for b in range(32, 127)] + [piece.encode() for piece in pieces] + [b"null", b""]
    return Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])


def likely(matcher: LazyMatcher, pick: random.Random) -> int:
    """Choose a piece of punctuation, or a letter of the names that are listed, where one may come."""
    compiled = sorted(allowed(matcher, matcher._grammar.vocabulary))
    return pick.choice([t for t in compiled if t >= 95 or chr(t + 32) in '{}[]",:ab'] or compiled)


def tokens(text: str, *spelled: str) -> list[int]:
    """Return the tokens of `text`: each of `spelled` is one, and every byte elsewhere."""
    words = vocabulary(False).words
    found: list[int] = []
    at = 0
    while at < len(text):
        piece = next((each for each in spelled if text.startswith(each, at)), text[at])
        found.append(words.index(piece.encode()))
        at += len(piece)
    return found


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("colons", [False, True])
@pytest.mark.parametrize("schema", _SCHEMAS, ids=range(len(_SCHEMAS)))
def test_a_name_that_ends_inside_a_token_is_offered_where_trying_says_so(schema: Any, colons: bool, order: Any) -> None:
    compiled = compile_json_schema(schema, vocabulary(colons), options=GrammarOptions(property_order=order))
    for seed in range(4):
        check_masks(compiled, seed, 40, likely)


def test_a_name_is_new_for_each_text_though_the_answer_for_another_is_remembered() -> None:
    compiled = compile_json_schema({"type": "object", "properties": {"ab": {}}}, vocabulary(False))
    for _ in range(2):  # the second time with all that the first remembers
        matcher = compiled.matcher()
        for token in tokens('{"a":null,"b":null,"', '":'):
            matcher.accept(token)
        for name in ("a", "b", "ab"):  # listed names come before the others
            other = matcher.fork()
            for token in tokens(name):
                other.accept(token)
            with pytest.raises(TokenRejected):
                other.accept(tokens('":', '":')[0])
        for token in tokens('aa":null}', '":'):
            matcher.accept(token)
        assert matcher.can_stop


def test_undoing_a_token_whose_answer_was_remembered_restores_the_names_given() -> None:
    compiled = compile_json_schema({"type": "object"}, vocabulary(False))
    matcher = compiled.matcher()
    for token in tokens('{"a":1,"b', '":'):
        matcher.accept(token)
    for _ in range(3):
        matcher.accept(tokens('":', '":')[0])
        matcher.rollback(1)
    for token in tokens('":1,"b', '":'):
        matcher.accept(token)
    with pytest.raises(TokenRejected):
        matcher.accept(tokens('":', '":')[0])
