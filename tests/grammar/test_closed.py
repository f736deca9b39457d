"""`close_objects`: what lists its properties and says nothing of others has no others; and closing only narrows."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.grammar import (
    GrammarError,
    GrammarOptions,
    InvalidGrammar,
    UnsupportedGrammar,
    compile_json_schema,
    compile_lark,
    compile_structural_tags,
)
from tests.fuzz import made
from tests.fuzz.grammar import walk
from tests.grammar.grammar_checks import accepts, byte_vocabulary

CLOSED = GrammarOptions(close_objects=True)
A = {"properties": {"a": {"type": "integer"}}}
EXTRA, PLAIN = '{"a":1,"b":2}', '{"a":1}'


@pytest.mark.parametrize(
    ("schema", "passing", "failing"),
    [
        (A, [PLAIN, "{}", "3"], [EXTRA]),
        ({"type": "object"}, [EXTRA], []),
        ({**A, "additionalProperties": True}, [EXTRA], []),
        ({**A, "unevaluatedProperties": {}}, [EXTRA], []),
        ({**A, "patternProperties": {"^b": {}}}, [EXTRA], []),
        ({"items": A}, [f"[{PLAIN}]"], [f"[{EXTRA}]"]),
        ({"prefixItems": [A]}, [f"[{PLAIN}]"], [f"[{EXTRA}]"]),
        ({"properties": {"x": A}}, ['{"x":{"a":1}}'], [f'{{"x":{EXTRA}}}', '{"y":1}']),
        ({"additionalProperties": A}, [f'{{"x":{PLAIN}}}'], [f'{{"x":{EXTRA}}}']),
        ({"anyOf": [A, {"type": "string"}]}, [PLAIN, '"s"'], [EXTRA]),
        ({"oneOf": [{**A, "type": "object"}, {"type": "string"}]}, [PLAIN, '"s"'], [EXTRA]),
        ({"$ref": "#/$defs/x~1y", "$defs": {"x/y": A}}, [PLAIN], [EXTRA]),
        ({"$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"},
         ['{"n":{"n":{}}}'], ['{"n":{"m":{}}}']),
        ({"properties": {"n": {"$ref": "#"}}}, ['{"n":{"n":{}}}'], ['{"n":{"m":{}}}']),
        ({"definitions": {"x": A}, "items": {"$ref": "#/definitions/x"}}, [f"[{PLAIN}]"], [f"[{EXTRA}]"]),
    ],
)  # fmt: skip
def test_objects_that_list_properties_are_closed(schema: Any, passing: list[str], failing: list[str]) -> None:
    compiled = compile_json_schema(schema, byte_vocabulary(), options=CLOSED)
    for text in passing:
        assert accepts(compiled, text), text
    for text in failing:
        assert not accepts(compiled, text), text
        assert accepts(compile_json_schema(schema, byte_vocabulary()), text), text


def test_where_a_schema_is_asked_about_nothing_is_closed() -> None:
    """Below `not` and `if` closing would let in what the caller's own validator refuses."""
    refused = {"type": "object", "not": {"properties": {"a": {"const": 1}}, "required": ["a"]}}
    compiled = compile_json_schema(refused, byte_vocabulary(), options=CLOSED)
    assert not accepts(compiled, EXTRA)
    asked = {"if": {**A, "required": ["a"]}, "then": {"required": ["c"]}}
    assert not accepts(compile_json_schema(asked, byte_vocabulary(), options=CLOSED), EXTRA)


def test_of_one_of_exactly_one_branch_holds_as_it_was_written() -> None:
    both = {"oneOf": [{**A, "type": "object"}, {"type": "object", "required": ["b"]}]}
    compiled = compile_json_schema(both, byte_vocabulary(), options=CLOSED)
    assert not accepts(compiled, EXTRA)  # closed, only the second branch would hold; as written, both do
    assert accepts(compiled, PLAIN)


@pytest.mark.parametrize("seed", range(60))
def test_closing_only_narrows(seed: int) -> None:
    """Whatever is written under a closed random schema is valid under the one that was given."""
    pick = random.Random(seed)
    schema = made.schema(pick)
    options = GrammarOptions(close_objects=True, property_order="any")
    try:
        compiled = compile_json_schema(schema, byte_vocabulary(), options=options)
    except GrammarError:
        return
    validator = jsonschema_rs.validator_for(schema, validate_formats=False)
    for _ in range(4):
        assert validator.is_valid(json.loads(walk(compiled, pick), parse_float=Decimal))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"$ref": "https://example.com/other"}, "references such as"),
        ({"$ref": "#name", "$defs": {"x": {"$anchor": "name"}}}, "references such as"),
        ({"items": {"$id": "https://example.com/x", **A}}, "another"),
        ({"items": {"$dynamicRef": "#x"}}, "dynamicRef"),
        ({"$ref": "#/$defs/gone"}, "leads nowhere"),
    ],
)
def test_what_cannot_be_closed_is_refused_with_its_place(schema: Any, message: str) -> None:
    with pytest.raises((UnsupportedGrammar, InvalidGrammar), match=message) as caught:
        compile_json_schema(schema, byte_vocabulary(), options=CLOSED)
    assert caught.value.pointer


def test_schemas_inside_tags_and_grammars_are_closed_too() -> None:
    tag = {"format": {"type": "json_schema", "json_schema": A}}
    for compiled in (
        compile_structural_tags(tag, byte_vocabulary(), options=CLOSED),
        compile_lark('start: %json {"properties": {"a": {"type": "integer"}}}', byte_vocabulary(), options=CLOSED),
    ):
        assert accepts(compiled, PLAIN)
        assert not accepts(compiled, EXTRA)


def test_the_option_is_a_flag() -> None:
    with pytest.raises(InvalidGrammar, match="true or false"):
        GrammarOptions.from_mapping({"close_objects": "yes"})
