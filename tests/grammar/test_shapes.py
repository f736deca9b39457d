"""Masks taken from a configuration of the same shape are those that would have been gathered."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from grammar import GrammarOptions, compile_json_schema
from grammar.remembered import Remembered
from tests.grammar.grammar_checks import byte_vocabulary

SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}, "required": ["a"]},
    {"type": "object", "properties": {"c": {"type": "string"}, "d": {"type": "number"}}, "required": ["c"]},
    {"type": "object", "properties": {"id": {"type": "string"}, "name": {}}, "additionalProperties": False},
    {"properties": {"name": {"properties": {"id": {"type": "array"}}}, "the": {"items": {"type": "string"}}}},
    {"type": "array", "items": {"type": "array", "items": {"enum": ["", "a", "ab", 1, None]}, "minItems": 1}},
    {"type": "array", "items": {"type": "string", "maxLength": 3}, "uniqueItems": True},
    {"type": "array", "items": {"type": "number"}, "uniqueItems": True, "maxItems": 3},
    {"anyOf": [{"properties": {"a": {"const": "x"}}}, {"properties": {"a": {"type": "array"}}, "required": ["a"]}]},
    {"type": "object", "properties": {"": {"type": "string"}, '"': True, "é": {"type": "boolean"}}, "maxProperties": 2},
    {"type": "object", "additionalProperties": {"type": "object", "propertyNames": {"pattern": "^[a-c]*$"}}},
    {"contains": {"type": "string", "pattern": "b"}, "minContains": 2, "type": "array"},
    {
        "$defs": {"n": {"properties": {"a": {"$ref": "#/$defs/n"}, "b": {"items": {"$ref": "#/$defs/n"}}}}},
        "$ref": "#/$defs/n",
    },
]


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_a_shared_mask_is_the_one_that_would_be_gathered(schema: Any, order: Any) -> None:
    vocabulary = byte_vocabulary()
    grammar = compile_json_schema(schema, vocabulary, options=GrammarOptions(property_order=order))
    row = np.zeros(vocabulary.row_words, np.int32)
    for seed in range(4):
        pick, matcher = random.Random(seed), grammar.matcher()
        for _ in range(60):
            shared, gathered = matcher._configs._mask(matcher._at), matcher._configs._gathered(matcher._at)
            assert np.array_equal(shared.base, gathered.base)
            assert set(shared.ids.tolist()) == set(gathered.ids.tolist())
            assert [(d.guards, d.direct, set(d.ids.tolist())) for d in shared.doubts] == [
                (d.guards, d.direct, set(d.ids.tolist())) for d in gathered.doubts
            ]
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            if matcher.is_finished or not allowed:
                break
            token = pick.choice(allowed)
            if token in vocabulary.eos_token_ids:
                break
            matcher.accept(token)


def test_what_is_remembered_is_bounded_in_bytes_and_the_oldest_goes_first() -> None:
    kept = Remembered(10_000)
    for number in range(100):
        kept.put(number, str(number), 1_000)
        assert kept.get(0) == "0" or number > 90  # used every time, so never the oldest
        assert kept.bytes <= 10_000
    assert kept.get(99) == "99"
    assert kept.get(50) is None
    kept.put(99, "new", 2_000)
    assert kept.get(99) == "new"
    assert kept.bytes <= 10_000
