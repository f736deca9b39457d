"""Completions that need values, and names, that were not given: spelled at once, within the work of one call."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.grammar import GrammarOptions, LazyMatcher, compile_json_schema
from tests.grammar.grammar_checks import allowed, byte_vocabulary

PAIRS = {"a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "boolean"}}
CLOSED: dict[str, Any] = {"type": "object", "properties": PAIRS, "required": list(PAIRS), "additionalProperties": False}
LISTS = {"type": "array", "uniqueItems": True, "minItems": 2, "items": {"type": "string", "pattern": "^[ab]{3,9}$"}}
ITEMS: dict[str, tuple[Any, int]] = {
    "anything": ({}, 50),
    "integers": ({"type": "integer"}, 100),
    "integers of a range": ({"type": "integer", "minimum": 1, "maximum": 60}, 60),
    "quarters": ({"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 10}, 41),
    "strings": ({"type": "string"}, 100),
    "strings of a pattern": ({"type": "string", "pattern": "^[a-z]{2}$"}, 60),
    "all strings of a pattern": ({"type": "string", "pattern": "^[01]{5}$"}, 32),
    "strings with a least length": ({"type": "string", "minLength": 30, "maxLength": 40}, 20),
    "words": ({"enum": [f"w{n}" for n in range(40)]}, 40),
    "constant objects": ({"enum": [{"id": n, "name": f"n{n}"} for n in range(6)]}, 6),
    "objects of flags": (CLOSED, 8),
    "objects": ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, 20),
    "lists of others": (LISTS, 10),
    "flags and null": ({"type": ["boolean", "null"]}, 3),
}


def unique(items: Any, count: int) -> dict[str, Any]:
    return {"type": "array", "uniqueItems": True, "items": items, "minItems": count}


def finished(matcher: LazyMatcher, begun: bytes) -> Any:
    """Return the value that the completion makes; each of its bytes must be taken."""
    found = matcher.shortest_completion()
    assert found is not None, begun
    fork = matcher.fork()
    for byte in found.text:
        fork.accept(byte)
    assert fork.can_stop
    return json.loads(begun + found.text)


@pytest.mark.parametrize("kind", ITEMS)
def test_an_array_of_unique_items_is_finished_wherever_it_stands(kind: str) -> None:
    """Item by item took more work than one call may do, and was given up."""
    items, count = ITEMS[kind]
    schema = unique(items, count)
    validator = jsonschema_rs.validator_for(schema)
    compiled, vocabulary = compile_json_schema(schema, byte_vocabulary()), byte_vocabulary()
    for seed in range(3):
        pick, matcher, begun = random.Random(seed), compiled.matcher(), b""
        for _ in range(15):
            value = finished(matcher, begun)
            assert validator.is_valid(value)
            assert len(value) >= count
            going_on = sorted(allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids))
            if not going_on:
                break
            byte = pick.choice(going_on)
            matcher.accept(byte)
            begun += vocabulary.words[byte]


@pytest.mark.parametrize(
    ("begun", "order"),
    [(b"", "schema"), (b'{"aaaa":1,', "schema"), (b"", "any"), (b'{"ba":1,', "any"), (b'{"bb', "any")],
)
def test_an_object_with_a_least_number_of_members_gets_names_that_were_not_given(begun: bytes, order: Any) -> None:
    schema = {
        "type": "object",
        "propertyNames": {"pattern": "^[ab]{4}$|^ba$"},
        "minProperties": 16,
        "additionalProperties": {"type": "integer"},
    }
    options = GrammarOptions(property_order=order)
    matcher = compile_json_schema(schema, byte_vocabulary(), options=options).matcher()
    for byte in begun:
        matcher.accept(byte)
    value = finished(matcher, begun)
    assert jsonschema_rs.is_valid(schema, value)
    assert len(value) >= 16


@pytest.mark.parametrize("items", [{"type": "string"}, {"type": "integer"}, {"type": "array", "minItems": 2}])
def test_many_required_members_are_spelled_within_the_work_of_a_call(items: Any) -> None:
    """Nothing can refuse them, so the text is not read: that alone was more than one call may do from 600 on."""
    names = {f"name {n}": items for n in range(1_000)}
    schema = {"type": "object", "properties": names, "required": sorted(names)}
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    for byte in b'{"name 0":':
        matcher.accept(byte)
    found = matcher.shortest_completion()
    assert found is not None
    assert jsonschema_rs.is_valid(schema, json.loads(b'{"name 0":' + found.text))


def test_more_ways_to_fill_an_array_than_may_be_tried_end_with_the_work_of_a_call() -> None:
    """Ways that give a value twice were not counted: those of five out of two hundred took minutes."""
    inner = {"type": "string", "pattern": "^[ab]{3,9}$"}
    matcher = compile_json_schema(unique(unique(inner, 5), 5), byte_vocabulary()).matcher()
    assert len(finished(matcher, b"")) == 5


@pytest.mark.parametrize("begun", [b"", b'{"', b'{"ab":2,', b'{"longer name that nothing fits', b'{"a":1,"b":2,"'])
def test_new_names_are_found_where_patterns_of_names_overlap(begun: bytes) -> None:
    """Which patterns a name matches is known only once its closing quote was read; without, every name was passed over
    for as long as a call may take."""
    schema = {
        "type": "object",
        "patternProperties": {"^a": {"type": "integer"}, "b$": {"multipleOf": 2}, "^.{3}$": {"maximum": 7}},
        "additionalProperties": False,
        "minProperties": 3,
    }
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    for byte in begun:
        matcher.accept(byte)
    assert jsonschema_rs.is_valid(schema, finished(matcher, begun))
