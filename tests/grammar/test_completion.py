"""From wherever a matcher stands there is a short way to the end, and it is given as tokens."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.grammar import (
    GrammarOptions,
    LazyGrammar,
    LazyMatcher,
    Vocabulary,
    compile_json_schema,
    compile_lark,
    compile_regex,
    compile_structural_tags,
)
from sluicegate.grammar.completion.search import spell
from tests.grammar.grammar_checks import allowed, byte_vocabulary
from tests.grammar.test_lark import EMPTY, LISTS, SUMS
from tests.grammar.test_matcher import SCHEMAS
from tests.grammar.test_tags import TREES

ANY = GrammarOptions(property_order="any")
HARD: list[Any] = [
    {
        "$defs": {"n": {"type": "object", "properties": {"v": {}, "next": {"$ref": "#/$defs/n"}}, "required": ["v"]}},
        "$ref": "#/$defs/n",
    },
    {
        "type": "object",
        "properties": {name: {"type": "string", "minLength": 3} for name in "abcdefgh"},
        "required": list("bdfh"),
    },
    {"type": "array", "minItems": 40, "items": {"anyOf": [{"type": "array", "minItems": 2}, {"enum": ["long", 17]}]}},
    {"type": "string", "pattern": "^(ab){4,}c$"},
    {"type": "string", "format": "uuid"},
    {"type": "array", "items": {"type": "string"}, "uniqueItems": True, "minItems": 3},
    {"type": "object", "minProperties": 3, "propertyNames": {"minLength": 2}, "additionalProperties": {"minimum": 7}},
    {"type": "object", "properties": {"a": {}, "b": {"type": "integer"}}, "dependentRequired": {"a": ["b"]}},
    {"type": "string", "minLength": 500},
    True,
]


def end_of(matcher: LazyMatcher) -> bytes:
    """Follow the completion on a fork; every one of its tokens must be in the mask."""
    found = matcher.shortest_completion()
    assert found is not None
    fork, vocabulary = matcher.fork(), byte_vocabulary()
    for token in found.tokens:
        assert token in allowed(fork, vocabulary)
        fork.accept(token)
    assert fork.can_stop
    assert b"".join(vocabulary.words[token] for token in found.tokens) == found.text
    return found.text


def from_everywhere(compiled: LazyGrammar, judge: Callable[[bytes], bool], seeds: int = 3, steps: int = 25) -> None:
    vocabulary = byte_vocabulary()
    for seed in range(seeds):
        matcher, pick, text = compiled.matcher(), random.Random(seed), b""
        for _ in range(steps):
            assert judge(text + end_of(matcher))
            if matcher.is_finished:
                break
            tokens = allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids)
            if not tokens:
                break
            token = pick.choice(sorted(tokens))
            matcher.accept(token)
            text += vocabulary.words[token]


@pytest.mark.parametrize("schema", [*SCHEMAS, *HARD], ids=range(len(SCHEMAS) + len(HARD)))
def test_any_begun_instance_can_be_finished_and_is_then_valid(schema: Any) -> None:
    validator = jsonschema_rs.validator_for(schema)
    from_everywhere(compile_json_schema(schema, byte_vocabulary()), lambda text: validator.is_valid(json.loads(text)))


@pytest.mark.parametrize("text", [SUMS, LISTS, EMPTY])
def test_any_begun_text_of_a_grammar_can_be_finished(text: str) -> None:
    from_everywhere(compile_lark(text, byte_vocabulary()), lambda _: True)


@pytest.mark.parametrize("value", TREES, ids=range(len(TREES)))
def test_any_begun_tag_can_be_finished(value: Any) -> None:
    from_everywhere(compile_structural_tags(value, byte_vocabulary()), lambda _: True)


@pytest.mark.parametrize(
    ("schema", "begun", "end"),
    [
        (SCHEMAS[0], b"", b'{"abc":""}'),
        (SCHEMAS[0], b'{"a', b'bc":""}'),
        (SCHEMAS[0], b'{"abc": "x', b'"}'),
        (True, b'[[{"a', b'":0}]]'),
        (True, b"[1, tr", b"ue]"),
        (True, b'"x\\u00', b'00"'),
        (HARD[0], b'{"v": 1, "next": {', b'"v":0}}'),
        ({"type": "integer", "minimum": 100}, b"1", b"00"),
    ],
)
def test_the_way_is_the_shortest(schema: Any, begun: bytes, end: bytes) -> None:
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    for byte in begun:
        matcher.accept(byte)
    assert len(end_of(matcher)) == len(end)


def test_where_the_text_may_stop_nothing_is_added() -> None:
    matcher = compile_regex("a*", byte_vocabulary()).matcher()
    assert end_of(matcher) == b""
    matcher.accept(byte_vocabulary().eos_token_ids[0])
    assert end_of(matcher) == b""


def test_asking_moves_nothing_and_deep_nesting_is_no_obstacle() -> None:
    matcher = compile_json_schema(True, byte_vocabulary()).matcher()
    for _ in range(500):
        matcher.accept(ord("["))
    before = allowed(matcher, byte_vocabulary())
    found = matcher.shortest_completion()
    assert found is not None
    assert found.text == b"]" * 500
    assert allowed(matcher, byte_vocabulary()) == before


@pytest.mark.parametrize("text", ['{"a', '{"ab', '{"a b', '{\n "ab', '{"xab": {"c": "99"},'])
def test_a_search_with_nothing_known_yet_finds_members_that_meet_demands(text: str) -> None:
    """Values of any kind are as short as a number: looking into their objects first used all of its questions up."""
    nines = {"type": "object", "required": ["c"], "properties": {"c": {"type": "string", "pattern": "99"}}}
    sevens = {"type": "object", "properties": {"c": {"type": "string", "pattern": "77"}}}
    pairs = (("a", nines, sevens), ("b", sevens, nines))
    schema = {
        "type": "object",
        "oneOf": [
            {"patternProperties": {name: every}, "not": {"patternProperties": {name: {"not": some}}}}
            for name, every, some in pairs
        ],
    }
    compiled = compile_json_schema(schema, byte_vocabulary())
    matcher = compiled.matcher()
    for byte in text.encode():
        matcher.accept(byte)
    assert jsonschema_rs.is_valid(schema, json.loads(text.encode() + end_of(matcher)))
    assert compiled.costs.left > 500


@pytest.mark.parametrize("pattern", ["^a*$", "^(a|b.*)$", "^[ab]{1,9}$"])
def test_a_string_goes_on_where_all_its_short_ends_were_given(pattern: str) -> None:
    schema = {"type": "array", "uniqueItems": True, "items": {"type": "string", "pattern": pattern}}
    compiled = compile_json_schema(schema, byte_vocabulary())
    first = compiled.matcher()
    for byte in b'["':
        first.accept(byte)
    text = b'["'
    for _ in range(5):
        found = first.shortest_completion()
        assert found is not None, text
        text += found.text[:-1] + b',"'
        first = compiled.matcher()
        for byte in text:
            first.accept(byte)
    assert len(set(json.loads(text + b'"]')[:-1])) == 5


WIDE: dict[str, Any] = {"type": "object", "properties": {f"name {n}": {"type": "integer"} for n in range(300)}}


@pytest.mark.parametrize(
    ("schema", "begun", "size"),
    [
        ({**WIDE, "required": sorted(WIDE["properties"])}, b'{"name 7":1', 300),
        ({"type": "array", "minItems": 1_000, "items": {"type": "number"}}, b"[8", 1_000),
        ({"type": "array", "minItems": 300, "items": {"type": "array", "minItems": 2}}, b"[[", 300),
    ],
)
def test_what_many_members_or_items_need_is_spelled_at_once(schema: Any, begun: bytes, size: int) -> None:
    """Without a bound of its own a matcher may do 50 ms of work: 300 names were too many, member by member."""
    matcher = compile_json_schema(schema, byte_vocabulary(), options=ANY).matcher()
    for byte in begun:
        matcher.accept(byte)
    found = matcher.shortest_completion()
    assert found is not None
    value = json.loads(begun + found.text)
    assert jsonschema_rs.is_valid(schema, value)
    assert len(value) == size


def test_a_rest_that_a_check_refuses_is_left_for_the_search() -> None:
    """Whether just one branch holds is asked when the object closes: the shortest values meet both."""
    names = {"a": {"type": "integer"}, "b": {}}
    one = {"properties": {"b": {"type": "integer"}}}
    other = {"properties": {"b": {"maximum": 9}, "a": {"maximum": 50}}}
    schema = {"type": "object", "properties": names, "required": ["a", "b"], "oneOf": [one, other]}
    for begun in (b"{", b'{"a":0'):
        matcher = compile_json_schema(schema, byte_vocabulary(), options=ANY).matcher()
        for byte in begun:
            matcher.accept(byte)
        assert jsonschema_rs.is_valid(schema, json.loads(begun + end_of(matcher)))


def test_an_escape_in_one_of_many_words_is_finished_from_the_list() -> None:
    schema = {"enum": [f"{n * n:05d}" for n in range(2_000)]}
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    for byte in b'"\\u00':
        matcher.accept(byte)
    assert json.loads(b'"\\u00' + end_of(matcher)) in schema["enum"]


def test_tokens_are_the_longest_that_do_not_hold_a_whole_second_string() -> None:
    words = [bytes([value]) for value in range(256)] + [b"ab", b"abc", b'","', b'","a"', b"abd", b""]
    vocabulary = Vocabulary.from_bytes(words, eos_token_ids=[len(words) - 1])
    for text in (b'["abc","a","abd"]', b"abab", b"", b"\xff"):
        spelled = spell(vocabulary, text)
        assert spelled is not None
        expected, at = [], 0
        while at < len(text):
            fitting = [word for word in words if word and word != b'","a"' and text.startswith(word, at)]
            expected.append(max(fitting, key=len))
            at += len(expected[-1])
        assert [words[token] for token in spelled] == expected
