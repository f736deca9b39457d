"""Keywords that the draft of a schema does not know: enforced where they only narrow it, refused where they do more."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.grammar import UnsupportedGrammar, compile_json_schema
from tests.grammar.grammar_checks import byte_vocabulary, check_schema, walk

DRAFT_4 = {"$schema": "http://json-schema.org/draft-04/schema#"}
DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
DRAFT_2019 = {"$schema": "https://json-schema.org/draft/2019-09/schema"}
CLOSED = {"unevaluatedProperties": False}
KIND = {"type": "object", "required": ["k"]}
PAIR = {"prefixItems": [{"const": 1}, {"const": 2}]}

REFUSED: list[tuple[Any, str]] = [
    (DRAFT_4 | {"type": "integer", "not": {"const": 3}}, "/not/const"),
    (DRAFT_4 | {"type": "integer", "not": {"allOf": [{"const": 3}]}}, "/not/allOf/0/const"),
    (
        DRAFT_4 | {"oneOf": [KIND | {"properties": {"k": {"enum": [1]}}}, KIND | {"properties": {"k": {"const": 2}}}]},
        "/oneOf/1/properties/k/const",
    ),
    (DRAFT_7 | {"oneOf": [KIND | CLOSED, CLOSED]}, "/oneOf/1/unevaluatedProperties"),
    (DRAFT_4 | {"not": {"$ref": "#/definitions/a"}, "definitions": {"a": {"const": 1}}}, "/definitions/a/const"),
    (DRAFT_7 | {"if": PAIR, "then": {"minItems": 3}}, "/if/prefixItems"),
    (DRAFT_7 | PAIR | {"items": {"type": "integer"}}, "/prefixItems"),
    (DRAFT_7 | {"contains": {"type": "integer"}, "minContains": 0}, "/minContains"),
    (DRAFT_2019 | PAIR | {"unevaluatedItems": False}, "/prefixItems"),
    (DRAFT_2019 | {"type": "array", "contains": PAIR, "maxContains": 1}, "/contains/prefixItems"),
    ({"type": "integer", "not": {"divisibleBy": 2}}, "/not/divisibleBy"),
]
ENFORCED: list[tuple[Any, list[Any], list[Any]]] = [
    (DRAFT_4 | {"properties": {"k": {"const": "a"}}}, [{"k": "a"}], [{"k": "b"}]),
    (DRAFT_4 | {"if": {"required": ["a"]}, "then": {"required": ["b"]}}, [{}, {"a": 1, "b": 1}], [{"a": 1}]),
    (DRAFT_4 | {"if": {"not": {"const": 1}}, "then": {"type": "string"}}, [1, "a"], [2]),
    (DRAFT_7 | PAIR | {"maxItems": 2}, [[], [1, 2]], [[2]]),
    (DRAFT_7 | {"dependentRequired": {"a": ["b"]}}, [{"a": 1, "b": 1}], [{"a": 1}]),
    (DRAFT_7 | {"contains": {"const": 1}, "maxContains": 1}, [[1]], [[1, 1], []]),
    (
        DRAFT_7
        | {
            "oneOf": [
                KIND | CLOSED | {"properties": {"k": {"const": "a"}}},
                KIND | CLOSED | {"properties": {"k": {"enum": ["b", "c"]}}},
            ]
        },
        [{"k": "a"}, {"k": "c"}],
        [{"k": "d"}, {"k": "a", "x": 1}],
    ),
    (
        DRAFT_7 | {"anyOf": [{"type": "integer"}, {"type": "object", "unevaluatedProperties": False}]},
        [1, {}],
        [{"a": 1}],
    ),
]


@pytest.mark.parametrize(("schema", "pointer"), REFUSED, ids=[pointer for _, pointer in REFUSED])
def test_a_keyword_that_validators_ignore_is_refused_where_it_does_not_only_narrow(schema: Any, pointer: str) -> None:
    """Masks followed it and the judge of whole answers did not: each answer was refused as a fault of the gateway."""
    with pytest.raises(UnsupportedGrammar) as raised:
        compile_json_schema(schema, byte_vocabulary())
    assert raised.value.pointer == pointer
    assert pointer.rpartition("/")[2] in raised.value.reason


@pytest.mark.parametrize(("schema", "valid", "invalid"), ENFORCED, ids=range(len(ENFORCED)))
def test_elsewhere_it_is_enforced_and_validators_agree(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    check_schema(schema, valid, invalid)
    compiled, judge = compile_json_schema(schema, byte_vocabulary()), jsonschema_rs.validator_for(schema)
    for seed in range(6):
        text = walk(compiled, seed)
        assert text is None or judge.is_valid(json.loads(text)), text


def test_a_newer_draft_or_none_knows_it() -> None:
    for schema, _ in REFUSED[:-1]:
        compile_json_schema({key: value for key, value in schema.items() if key != "$schema"}, byte_vocabulary())
