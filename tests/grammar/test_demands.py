"""What is demanded of some property, or of some item: masks lead only where the demand can still be met."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.grammar import Unsatisfiable, compile_json_schema
from tests.grammar.grammar_checks import allowed, byte_vocabulary, check_schema, walk

_NAME = {"type": "object", "propertyNames": {"pattern": "^..$"}, "maxProperties": 2}


def named(*patterns: str) -> dict[str, Any]:
    """Make a schema in which each pattern is met by some property name."""
    return {"allOf": [{"not": {"propertyNames": {"not": {"pattern": p}}}} for p in patterns]}


def test_some_property_has_a_name_that_matches() -> None:
    schema = {**_NAME, **named("a", "b", "c", "d")}
    valid: list[Any] = [{"ab": 1, "cd": 2}, {"da": 1, "bc": {}}]
    check_schema(schema, valid, [{}, {"ab": 1}, {"ab": 1, "ac": 2}, {"abc": 1, "d": 2}])
    with pytest.raises(Unsatisfiable):
        compile_json_schema({**_NAME, **named("a", "b", "c", "d", "e")}, byte_vocabulary())


def test_some_property_has_another_value() -> None:
    schema = {"type": "object", "not": {"additionalProperties": {"type": "integer"}, "properties": {"a": {}}}}
    check_schema(schema, [{"b": "x"}, {"a": 1, "c": 2, "b": None}], [{}, {"a": "x"}, {"b": 1}])
    schema = {"type": "object", "not": {"patternProperties": {"^x": {"type": "string"}}}, "maxProperties": 1}
    check_schema(schema, [{"x": 1}, {"xy": []}], [{}, {"x": "s"}, {"a": 1}])


def test_what_differs_from_an_object_may_lack_have_more_or_hold_something_else() -> None:
    schema = {"type": "object", "not": {"const": {"a": {"b": [1]}, "c": 2}}}
    other = [{}, {"a": {"b": [1]}}, {"a": {"b": [1, 1]}, "c": 2}, {"a": {"b": [1]}, "c": 2, "d": 0}]
    check_schema(schema, other, [{"a": {"b": [1]}, "c": 2}], property_order="any")


def test_one_of_many_listed_properties_must_differ() -> None:
    listed = {name: {"type": "integer"} for name in "abcdefghijkl"}
    schema = {"type": "object", "properties": {name: {} for name in listed}, "not": {"properties": listed}}
    check_schema(schema, [{"a": "x"}, {"a": 1, "l": None}, {"c": [], "d": []}], [{}, {"a": 1, "l": 2}, {"z": "x"}])


def test_items_past_the_listed_ones_may_have_to_differ() -> None:
    schema = {"type": "array", "not": {"prefixItems": [{"type": "null"}], "items": {"type": "integer"}}}
    check_schema(schema, [[1], [None, "x"], [None, 1, "x"]], [[], [None], [None, 1, 2]])


def test_an_item_that_must_be_somewhere_is_asked_for_where_it_still_can_be() -> None:
    schema = {"prefixItems": [{}], "items": {"type": "string"}, "contains": {"type": "integer"}, "type": "array"}
    compiled = check_schema(schema, [[1], [1, "x"]], [[], ["x"], ["x", 1]])
    matcher = compiled.matcher()
    matcher.accept(ord("["))
    assert ord('"') not in allowed(matcher, byte_vocabulary())


WALKED: list[Any] = [
    {"type": "array", "prefixItems": [{}], "items": {"type": "string"}, "contains": {"enum": [1, [1]]}},
    {"type": "array", "maxItems": 2, "allOf": [{"contains": {"type": t}} for t in ("string", "array")]},
    {"type": "array", "maxItems": 3, "items": {"enum": [1, 2]}, "contains": {"const": 1}, "minContains": 2,
     "not": {"contains": {"const": 2}, "minContains": 2}},
    {**_NAME, **named("a", "b", "c", "d")},
    {"type": "object", "not": {"additionalProperties": {"type": "integer"}}, "maxProperties": 3},
    {"type": "object", "properties": {"a": {"const": 1}, "b": {"enum": [1, 2]}}, "additionalProperties": False,
     "not": {"properties": {"a": {}, "b": {"const": 1}}, "additionalProperties": {"type": "null"}}},
    {"type": "object", "required": ["a"], "not": {"const": {"a": {"a": {}}}},
     "properties": {"a": {"type": "object", "properties": {"a": {"const": {}}}, "additionalProperties": False}},
     "additionalProperties": False},
]  # fmt: skip


@pytest.mark.parametrize("schema", WALKED, ids=range(len(WALKED)))
def test_every_way_leads_to_an_object_that_meets_its_demands(schema: Any) -> None:
    compiled, validator = compile_json_schema(schema, byte_vocabulary()), jsonschema_rs.validator_for(schema)
    for seed in range(12):
        text = walk(compiled, seed)
        assert text is None or validator.is_valid(json.loads(text)), text
