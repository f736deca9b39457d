"""Personal data planted in every string of made-up schemas: what leaves is valid, or it does not leave."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
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
        | inner.map(lambda p: ({"prefixItems": [True], "unevaluatedItems": p[0]}, [1, p[1]]))
        | st.just(({"items": {"type": "string"}, "uniqueItems": True}, [EMAIL, "jon.roe@example.com"]))
        | inner.map(lambda p: ({"contains": p[0], "maxContains": 1}, [p[1], 0]))
        | inner.map(lambda p: ({"const": {"in": p[1]}}, {"in": p[1]}))
        | inner.map(lambda p: ({"enum": [0, [p[1]]]}, [p[1]]))
        | inner.map(lambda p: ({"not": {"items": {"const": "[REDACTED]"}}, "items": p[0]}, [p[1]]))
        | inner.map(lambda p: ({"if": {"items": {"minLength": 15}}, "then": {"items": p[0]}, "else": False}, [p[1]]))
        | inner.map(lambda p: ({"oneOf": [{"items": p[0]}, {"items": {"type": "string", "maxLength": 10}}]}, [p[1]]))
        | inner.map(lambda p: ({"dependentSchemas": {"k": {"properties": {"v": p[0]}}}}, {"k": 1, "v": p[1]}))
        | inner.map(lambda p: ({"patternProperties": {"^k": p[0]}}, {"k": p[1]}))
        | inner.map(lambda p: ({"anyOf": [{"type": "null"}, p[0]]}, p[1]))
    )


def draft_7(inner: st.SearchStrategy[Pair]) -> st.SearchStrategy[Pair]:
    return (
        objects(inner)
        | inner.map(lambda p: ({"items": [{"type": "integer"}, p[0]]}, [1, p[1]]))
        | inner.map(lambda p: ({"items": [{"type": "integer"}], "additionalItems": p[0]}, [1, p[1]]))
        | inner.map(lambda p: ({"dependencies": {"k": {"properties": {"v": p[0]}}}}, {"k": 1, "v": p[1]}))
    )


DEFS = {"free": {"type": "string"}, "tight": {"type": "string", "pattern": "@"}}


def leaves_valid(schema: Any, value: Any, ascii_only: bool) -> None:
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


@settings(max_examples=400, deadline=None)
@given(objects(st.recursive(strings, containers, max_leaves=5)), st.booleans())
def test_what_leaves_is_valid_and_says_nothing(pair: Pair, ascii_only: bool) -> None:
    leaves_valid({"$defs": DEFS, **pair[0]}, pair[1], ascii_only)


@settings(max_examples=150, deadline=None)
@given(objects(st.recursive(strings, draft_7, max_leaves=4)), st.booleans())
def test_the_same_under_an_older_draft(pair: Pair, ascii_only: bool) -> None:
    schema = {"$schema": "http://json-schema.org/draft-07/schema#", "$defs": DEFS, **pair[0]}
    leaves_valid(schema, pair[1], ascii_only)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"items": {"type": "string"}}, [EMAIL]),
        ({"not": {"required": ["x"]}, "properties": {"v": {"type": "string"}}}, {"v": EMAIL}),
        ({"if": {"properties": {"k": {"const": 1}}}, "then": {"required": ["v"]}}, {"k": 1, "v": EMAIL}),
        ({"oneOf": [{"type": "string"}, {"type": "integer", "enum": [1]}]}, EMAIL),
        ({"anyOf": [{"$ref": "#/properties/value"}, {"type": "string"}]}, EMAIL),
    ],
)
def test_a_free_string_is_redacted_whatever_stands_beside_it(schema: Any, value: Any) -> None:
    whole = {"type": "object", "properties": {"value": schema}}
    out, blocked, _ = run(list(json.dumps({"value": value})), PII, redactor=redactor_for(whole))
    if "$ref" in str(schema):
        assert blocked == "redaction_refused"  # refers to itself without end: cannot be told
    else:
        assert blocked is None
        assert EMAIL not in out


def test_a_branch_of_one_of_that_takes_strings_among_others_counts() -> None:
    """The replacement has ten characters: it would meet both branches where the address met one."""
    either = {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    branches = [{"items": either}, {"items": {"type": "string", "maxLength": 10}}]
    whole = {"type": "object", "properties": {"v": {"oneOf": branches}}}
    _, blocked, _ = run(list(json.dumps({"v": [EMAIL]})), PII, redactor=redactor_for(whole))
    assert blocked == "redaction_refused"
