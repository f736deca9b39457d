"""Make a schema partial: what holds for every part of a value that the schema takes, made of whole leaves in order.

It says less than could be said: a keyword that a part may break is dropped, and so is a reference into one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sluicegate.plugins.json_schema import KEYWORDS

WHOLE_ONLY = frozenset(
    (
        *("required", "dependentRequired", "dependentSchemas", "dependencies", "minProperties", "minItems"),
        *("contains", "minContains", "maxContains", "uniqueItems", "not", "if", "then", "else", "oneOf"),
        *("unevaluatedProperties", "unevaluatedItems"),
    )
)
"""Keywords that a part of a valid value may break."""


def partial_schema(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return schema
    found = {name: _below(name, value) for name, value in schema.items() if name not in WHOLE_ONLY}
    listed = [*found.get("enum", ()), found.get("const")]
    if any(isinstance(value, dict | list) for value in listed):  # a part of one is none of them
        found.pop("enum", None)
        found.pop("const", None)
    if WHOLE_ONLY & set(str(found.get("$ref", "")).split("/")):
        del found["$ref"]
    if "oneOf" in schema:
        ways = {"anyOf": [partial_schema(way) for way in schema["oneOf"]]}
        found["allOf"] = [*found.get("allOf", ()), ways]
    return found


def _below(name: str, value: Any) -> Any:
    form = KEYWORDS[name].form if name in KEYWORDS else "any"
    if form in ("table", "definitions"):
        return {key: partial_schema(one) for key, one in value.items()}
    if form in ("schemas", "items") and isinstance(value, list):
        return [partial_schema(one) for one in value]
    return partial_schema(value) if form in ("schema", "items") else value
