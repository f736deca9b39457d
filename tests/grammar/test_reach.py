"""What can be read, told from facts, is what a walk over all places finds."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from grammar import GrammarOptions, compile_json_schema
from grammar.places import Places, numbers
from grammar.reach import Reach, by_walk
from grammar.remembered import Remembered
from grammar.threads import InLexeme
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


def read(found: Reach, places: Places) -> dict[Any, set[bytes]]:
    """Texts by guards."""
    texts: dict[Any, set[bytes]] = {}
    for guards, bits in [((), found.read), *((guards, bits) for guards, _, bits, _ in found.doubtful)]:
        spelled = {places.all[n].path for n in numbers(bits) if places.all[n].ids is not None}
        texts.setdefault(tuple(map(type, guards)), set()).update(spelled)
    return {guards: some for guards, some in texts.items() if some}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_what_can_be_read_is_what_a_walk_finds(schema: Any, order: Any) -> None:
    vocabulary = byte_vocabulary()
    places = vocabulary.places
    grammar = compile_json_schema(schema, vocabulary, options=GrammarOptions(property_order=order))
    row, compared = np.zeros(vocabulary.row_words, np.int32), 0
    for seed in range(4):
        pick, matcher = random.Random(seed), grammar.matcher()
        for _ in range(60):
            for thread in matcher._at.threads:
                if not isinstance(thread, InLexeme):
                    assert read(thread.reach(places.root, vocabulary), places) == read(
                        by_walk(thread, vocabulary), places
                    )
                    compared += 1
                elif thread.state == thread.lexeme.start or thread.lexeme.outcome(thread.state) is None:
                    pass
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            if matcher.is_finished or not allowed:
                break
            token = pick.choice(allowed)
            if token in vocabulary.eos_token_ids:
                break
            matcher.accept(token)
    assert compared


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
