"""Schemas that lead back to themselves for the same value are refused when they are compiled, not while one writes."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.grammar import InvalidGrammar, compile_json_schema
from tests.grammar.grammar_checks import byte_vocabulary, check_schema

BACK = {"$ref": "#/$defs/a"}
CIRCLES: dict[str, Any] = {
    "a reference": BACK,
    "all of": {"allOf": [{"type": "object"}, BACK]},
    "any of": {"anyOf": [{"type": "null"}, BACK]},
    "one of": {"oneOf": [{"type": "null"}, BACK]},
    "not": {"not": BACK},
    "a condition": {"if": BACK, "then": {"type": "null"}},
    "a consequence": {"if": {"type": "null"}, "then": BACK},
    "an alternative": {"if": {"type": "null"}, "else": BACK},
    "a dependency": {"dependentSchemas": {"x": BACK}},
    "a dynamic reference": {"$dynamicAnchor": "here", "anyOf": [{"type": "null"}, {"$dynamicRef": "#here"}]},
    "two schemas": {"anyOf": [{"$ref": "#/$defs/b"}]},
}
WITH_VALUES: list[Any] = [
    {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"x": BACK}, "additionalProperties": False}]},
    {"anyOf": [{"type": "null"}, {"type": "array", "items": BACK, "maxItems": 1}]},
    {"type": ["null", "object"], "if": BACK | {"properties": {"x": BACK}}} | {"$comment": "a condition of nothing"},
]


@pytest.mark.parametrize("circle", CIRCLES)
def test_a_circle_is_refused_though_only_an_optional_property_leads_to_it(circle: str) -> None:
    """It was found when a text reached it: streams had begun."""
    schema = {"properties": {"p": BACK}, "$defs": {"a": CIRCLES[circle], "b": {"oneOf": [BACK]}}}
    with pytest.raises(InvalidGrammar, match="refers to itself without a value in between"):
        compile_json_schema(schema, byte_vocabulary())


@pytest.mark.parametrize("schema", WITH_VALUES, ids=range(len(WITH_VALUES)))
def test_where_a_value_lies_between_or_nothing_is_asked_there_is_none(schema: Any) -> None:
    check_schema({"properties": {"p": BACK}, "$defs": {"a": schema}}, [{}, {"p": None}], [{"p": 1}])
