"""Keep texts out of the strings and names of a JSON value, by a schema that says so."""

from __future__ import annotations

import re
from typing import Any

_SYNTAX = re.compile(r"[\^$\\.*+?()\[\]{}|/]")
_INSIDE = "urn:sluicegate:inside"
_PLAIN = "without-texts"
WRAPPED = "/allOf/0"
"""Where the schema of the caller stands in the one of `without_texts`."""
_REF_ALONE = ("draft-04", "draft-06", "draft-07")


def without_texts(schema: dict[str, Any] | bool, texts: tuple[str, ...]) -> dict[str, Any] | bool:
    """Return a schema of the same values, but for those with one of `texts` in a string or a name, as decoded."""
    if not texts or schema is False:
        return schema
    schema = schema if isinstance(schema, dict) else {}
    holds = "|".join(_SYNTAX.sub(r"\\\g<0>", text) for text in texts)
    plain = {
        "pattern": rf"^(?![\s\S]*(?:{holds}))",
        "patternProperties": {holds: {"not": {}}},
        "additionalProperties": {"$ref": f"#/definitions/{_PLAIN}"},
        "items": {"$ref": f"#/definitions/{_PLAIN}"},
    }
    whole = {"definitions": {_PLAIN: plain}, "allOf": [_apart(schema), {"$ref": f"#/definitions/{_PLAIN}"}]}
    return whole | ({"$schema": schema["$schema"]} if "$schema" in schema else {})


def _apart(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema as a document of its own, in which references from its root stay what they were."""
    draft = str(schema.get("$schema", ""))
    name = "id" if "draft-04" in draft else "$id"
    if "$ref" in schema and any(known in draft for known in _REF_ALONE):  # nothing beside it is read
        definitions: dict[str, Any] = {key: schema[key] for key in ("$defs", "definitions") if key in schema}
        return {name: _INSIDE, "allOf": [{"$ref": schema["$ref"]}], **definitions}
    return {name: _INSIDE, **schema}
