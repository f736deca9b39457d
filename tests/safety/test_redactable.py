"""Personal data planted in every string of made-up schemas: what leaves is valid, or it does not leave."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from sluicegate.safety import MatchPolicy, MatchRail, compile_pii, redactor_for
from tests.safety.test_json_text import run

PII = MatchRail("pii", compile_pii(), MatchPolicy())
EMAIL = "jane.roe@example.com"
ADDRESS = "203.0.113.77"

Pair = tuple[Any, Any]
"""A schema and a value of it with personal data in every string."""

strings: st.SearchStrategy[Pair] = st.sampled_from(
    [
        ({"type": "string"}, f"write to {EMAIL}!"),
        ({"type": "string", "maxLength": 40}, f"to {EMAIL}"),
        ({"type": "string", "minLength": 12}, f"to {EMAIL}"),
        ({"type": "string", "minLength": 1, "maxLength": 200}, EMAIL),
        ({"type": "string", "format": "email"}, EMAIL),
        ({"type": "string", "format": "email", "maxLength": 20}, EMAIL),
        ({"type": "string", "format": "ipv4"}, ADDRESS),
        ({"type": "string", "format": "ipv6"}, "2001:db8::8a2e:370:7334"),
        ({"type": "string", "format": "uri"}, f"https://{ADDRESS}/"),
        ({"type": "string", "pattern": "^[a-z.]+@"}, EMAIL),
        ({"type": "string", "pattern": "."}, EMAIL),
        ({"enum": [EMAIL, "nobody"]}, EMAIL),
        ({"const": ADDRESS}, ADDRESS),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, EMAIL),
        ({"oneOf": [{"format": "email", "maxLength": 99}, {"type": "integer"}]}, EMAIL),
        ({"allOf": [{"type": "string"}, {"maxLength": 10}]}, "a@b.co"),
        ({"$ref": "#/$defs/free"}, EMAIL),
        ({"$ref": "#/$defs/tight"}, EMAIL),
        ({"not": {"const": "[REDACTED]"}}, EMAIL),
        (True, EMAIL),
        ({}, EMAIL),
    ]
)


def objects(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    def made(fields: dict[str, Pair], closed: bool) -> Pair:
        schema = {"type": "object", "properties": {k: s for k, (s, _) in fields.items()}, "required": list(fields)}
        return schema | ({"additionalProperties": False} if closed else {}), {k: v for k, (_, v) in fields.items()}

    return st.builds(made, st.dictionaries(st.sampled_from(["name", "note", "ünï"]), inner, min_size=1), st.booleans())


def containers(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return (
        objects(inner)
        | inner.map(lambda p: ({"type": "array", "items": p[0], "minItems": 1}, [p[1]]))
        | inner.map(lambda p: ({"prefixItems": [{"type": "integer"}, p[0]]}, [1, p[1]]))
        | inner.map(lambda p: ({"type": "object", "additionalProperties": p[0]}, {"any": p[1]}))
        | inner.map(lambda p: ({"patternProperties": {"^k": p[0]}}, {"k": p[1]}))
        | inner.map(lambda p: ({"anyOf": [{"type": "null"}, p[0]]}, p[1]))
    )


DEFS = {"free": {"type": "string"}, "tight": {"type": "string", "pattern": "@"}}


@settings(max_examples=250, deadline=None)
@given(objects(st.recursive(strings, containers, max_leaves=5)), st.booleans())
def test_what_leaves_is_valid_and_says_nothing(pair: Pair, ascii_only: bool) -> None:
    schema, value = {"$defs": DEFS, **pair[0]}, pair[1]
    validator = jsonschema_rs.validator_for(schema, validate_formats=True)
    assume(validator.is_valid(value))
    out, blocked, _ = run(list(json.dumps(value, ensure_ascii=ascii_only)), PII, redactor=redactor_for(schema))
    event("blocked" if blocked else "redacted")
    assert EMAIL not in out
    assert ADDRESS not in out
    if blocked is None:
        assert validator.is_valid(json.loads(out)), out
    else:
        assert blocked == "redaction_refused"
