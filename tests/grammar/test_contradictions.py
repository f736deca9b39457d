"""A schema without a value is refused with the reason, where its keywords say one."""

from __future__ import annotations

from typing import Any

import pytest

from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.plugins.errors import Unsatisfiable

CASES: list[tuple[dict[str, Any] | bool, str]] = [
    (False, "`false` allows none"),
    ({"type": "integer", "minimum": 5, "maximum": 3}, "`minimum` 5 is above `maximum` 3"),
    ({"type": "number", "exclusiveMinimum": 3, "maximum": 3}, "`exclusiveMinimum` 3 leaves no number below"),
    ({"type": "number", "exclusiveMinimum": 3, "exclusiveMaximum": 1}, "`exclusiveMinimum` 3 leaves no number"),
    ({"type": "string", "minLength": 5, "maxLength": 3}, "`minLength` 5 is above `maxLength` 3"),
    ({"type": "array", "minItems": 3, "maxItems": 1}, "`minItems` 3 is above `maxItems` 1"),
    ({"type": "object", "minProperties": 3, "maxProperties": 1}, "`minProperties` 3 is above `maxProperties` 1"),
    ({"enum": []}, "`enum` is empty"),
    ({"enum": ["a", "b"], "type": "integer"}, "no value of `enum` is of `type` \"integer\""),
    ({"enum": [1.5, True], "type": ["integer", "null"]}, "no value of `enum` is of `type`"),
    ({"const": 1, "enum": [2, True]}, "`const` and `enum` have no value in common"),
    ({"enum": ["abc"], "maxLength": 2}, "no value of `enum` satisfies what stands beside it"),
    ({"allOf": [{"type": "string"}, {"type": "integer"}]}, '`type` "string" and `type` "integer" exclude each other'),
    ({"type": "object", "required": ["x"], "additionalProperties": False}, '"x" is `required`'),
    ({"type": "object", "required": ["x", "y"], "maxProperties": 1}, "2 names are `required`, above `maxProperties` 1"),
    ({"type": "string", "pattern": "^a$", "minLength": 3}, ""),
    ({"$ref": "#/$defs/a", "maximum": 1, "$defs": {"a": {"type": "integer", "minimum": 2}}}, "`minimum` 2 is above"),
]  # fmt: skip


def refused(schema: dict[str, Any] | bool) -> Unsatisfiable:
    with pytest.raises(Unsatisfiable) as caught:
        compile_json_schema(schema, VOCABULARY)
    return caught.value


VOCABULARY = Vocabulary.from_bytes([bytes([i]) for i in range(256)] + [b""], eos_token_ids=[256])


@pytest.mark.parametrize(("schema", "why"), CASES)
def test_the_reason_stands_in_the_message(schema: dict[str, Any] | bool, why: str) -> None:
    message = refused(schema).message
    assert message.startswith("no value satisfies this schema")
    assert why in message
    assert (": " in message) == bool(why)


@pytest.mark.parametrize(("schema", "why"), [case for case in CASES if case[1] and isinstance(case[0], dict)])
def test_the_reason_is_told_of_the_part_that_is_wrong(schema: dict[str, Any], why: str) -> None:
    part = {key: value for key, value in schema.items() if key != "$defs"}
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    whole = {"type": "object", "properties": {"ok": {}, "bad": part}, "required": ["bad"], **definitions}
    error = refused(whole)
    assert why in error.message
    assert error.pointer.startswith("/properties/bad")
