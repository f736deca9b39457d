"""Every text that masks lead to can be finished: kinds of schemas that were once left to a check of the whole value."""

from __future__ import annotations

import json
from itertools import pairwise, product
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.grammar import GrammarOptions, Unsatisfiable, compile_json_schema
from sluicegate.grammar.json.arrays.plan import ArrayPlan
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.options import PropertyOrder
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_schema, walk

LETTERS = "abcdefghij"
NAMES = {"type": "array", "items": {"type": "object", "maxProperties": 1}, "minItems": 1, "uniqueItems": True}
LISTED = {name: {"type": "integer"} for name in LETTERS}

KINDS: dict[str, dict[str, Any]] = {
    "one of several overlapping kinds of objects": {
        "type": "object",
        "oneOf": [
            {"properties": LISTED, "required": ["a", "b", "c"], "additionalProperties": False},
            {"required": ["c", "d", "e", "k"]},
            {"properties": {"a": {"type": "string"}, "l": {}, "m": {}}, "required": ["a", "l", "m"]},
        ],
    },
    "what lacks one of many names or has another value": {
        "type": "object",
        "properties": LISTED,
        "not": {"properties": LISTED, "required": list(LETTERS), "maxProperties": 12},
    },
    "a chain of dependencies": {
        "type": "object",
        "properties": {name: {"type": "boolean"} for name in LETTERS},
        "dependentRequired": {here: [there] for here, there in pairwise(LETTERS)},
        "maxProperties": 4,
    },
    "dependent schemas": {
        "type": "object",
        "properties": {name: {} for name in LETTERS},
        "dependentSchemas": {
            name: {"properties": {"j": {"type": ["null", "integer"]}}, "required": ["i"]} for name in "abcdef"
        },
    },
    "what follows from one of many constants": {
        "type": "object",
        "required": ["kind"],
        "properties": {"kind": {"enum": list(LETTERS)}, "value": {"type": ["integer", "string"]}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": name}}},
                "then": {"required": ["value"], "properties": {"value": {"minimum": k, "minLength": k % 3}}},
            }
            for k, name in enumerate(LETTERS)
        ],
    },
    "no property has a value of a kind, by patterns of names": {
        "type": "object",
        "not": {"not": {"patternProperties": {"^a": {"type": "null"}}, "additionalProperties": {"type": "integer"}}},
        "minProperties": 2,
        "propertyNames": {"maxLength": 3},
    },
    "few arrays and objects that come once": {
        "type": "array",
        "items": {"enum": [1, "1", [1], [12], {"a": [1]}, {"a": 2, "b": None}]},
        "minItems": 4,
        "uniqueItems": True,
    },
    "few arrays that come once, of several kinds": {
        "allOf": [
            {"type": "array", "uniqueItems": True, "items": {"enum": [1, "1", [1], [12], [1, 2]]}, "minItems": 2},
            {"anyOf": [{"items": {"type": "array", "maxItems": n}} for n in range(4)]},
        ],
    },
    "items that come once, one of them counted": {
        "type": "array",
        "contains": {"type": "string"},
        "uniqueItems": True,
        "maxItems": 4,
    },
    "two of the few items that come once counted, by two lists": {
        "type": "array",
        "items": {"type": ["boolean", "null", "integer"]},
        "contains": {"type": "boolean"},
        "minContains": 2,
        "allOf": [{"contains": {"type": "null"}}],
        "uniqueItems": True,
        "maxItems": 4,
    },
    "names of two letters, of which each comes once": {
        "type": "object",
        "patternProperties": {"^[a-k]{2}$": {"type": "null"}},
        "additionalProperties": False,
        "minProperties": 3,
    },
    "one of two kinds that repeat, by reference, what is said of a list": {
        "$defs": {"names": NAMES},
        "type": "object",
        "additionalProperties": False,
        "properties": {"names": {"$ref": "#/$defs/names"}, "name": {"type": "string"}},
        "oneOf": [
            {"properties": {"names": {"$ref": "#/$defs/names"}}, "required": ["names"]},
            {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        ],
    },
    "one of two kinds that repeat what is said of a list": {
        "type": "object",
        "additionalProperties": False,
        "properties": {"names": NAMES, "name": {"type": "string"}},
        "oneOf": [
            {"properties": {"names": NAMES}, "required": ["names"]},
            {"properties": {"name": {"type": "string"}}, "required": ["name"]},
        ],
    },
    "arrays outside one of several overlapping kinds": {
        "type": "array",
        "not": {
            "minItems": 1,
            "oneOf": [
                {"prefixItems": [{"type": "string"}]},
                {"items": {"type": ["integer", "array"]}, "contains": {"const": 7}},
            ],
        },
    },
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", ["schema", "any"])
def test_masks_alone_say_what_is_valid_and_always_lead_to_an_end(kind: str, order: PropertyOrder) -> None:
    schema = KINDS[kind]
    values, root, _ = satisfiable_values(schema, GrammarOptions())
    domain = values.value_set(root)
    plans: list[ObjectPlan | ArrayPlan | None] = [values.object_plan(spec) for spec in domain.objects]
    plans += [values.array_plan(spec) for spec in domain.arrays]
    assert all(plan.check is None for plan in plans if plan is not None), "a check of the whole value is left"
    judge = jsonschema_rs.validator_for(schema)
    compiled = compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(property_order=order))
    for seed in range(12):
        text = walk(compiled, seed, limit=80)
        if text is not None:
            assert judge.is_valid(json.loads(text)), text


@pytest.mark.parametrize("kind", KINDS)
def test_a_text_that_breaks_off_anywhere_has_a_short_way_to_the_end(kind: str) -> None:
    compiled = compile_json_schema(KINDS[kind], byte_vocabulary())
    judge = jsonschema_rs.validator_for(KINDS[kind])
    text = compiled.matcher().shortest_completion()
    assert text is not None
    assert judge.is_valid(json.loads(text.text))
    for seed in range(6):
        whole = walk(compiled, seed, limit=60)
        matcher = compiled.matcher()
        for byte in (whole or "").encode():
            matcher.accept(byte)
            assert matcher.shortest_completion() is not None


def test_a_name_that_is_missing_meets_what_is_demanded_of_it() -> None:
    schema = KINDS["what lacks one of many names or has another value"]
    full = dict.fromkeys(LETTERS, 1)
    valid: list[Any] = [{}, {"a": 1}, dict.fromkeys(LETTERS[1:], 1), {**full, "x": 1, "y": 1, "z": 1}]
    check_schema({**schema, "additionalProperties": True}, valid, [full, {**full, "x": 0}])


def test_a_dependency_is_met_by_what_comes_or_by_what_does_not() -> None:
    schema = KINDS["a chain of dependencies"]
    valid: list[Any] = [{}, {"j": True}, {"h": True, "i": True, "j": False}, {"x": 1}]
    check_schema(schema, valid, [{"a": True}, {"g": True, "h": True, "i": True}, {"f": True, "j": True}])


def test_a_name_that_came_is_not_begun_where_nothing_else_begins_so() -> None:
    """All names that begin with `a` were given: none begins so any more."""
    schema = {**KINDS["names of two letters, of which each comes once"], "minProperties": 0}
    matcher = compile_json_schema(schema, byte_vocabulary()).matcher()
    given = "{" + ",".join(f'"a{second}":null' for second in "abcdefghijk") + ',"'
    for byte in given.encode():
        matcher.accept(byte)
    words = byte_vocabulary().words
    firsts = {words[token][:1] for token in allowed(matcher, byte_vocabulary())}
    assert b"a" not in firsts
    assert b"b" in firsts


def test_more_names_than_there_are_cannot_be_asked_for() -> None:
    schema = KINDS["names of two letters, of which each comes once"]
    with pytest.raises(Unsatisfiable):
        compile_json_schema({**schema, "minProperties": 122}, byte_vocabulary())
    compile_json_schema({**schema, "minProperties": 121}, byte_vocabulary())


def test_where_a_check_refuses_every_array_of_one_reading_another_reading_ends() -> None:
    """Found by fuzzing: items of which one reading begins arrays that a check refuses, however they go on."""
    schema = {
        "type": "array",
        "unevaluatedItems": {
            "not": {
                "minItems": 1,
                "oneOf": [
                    {"type": "array", "prefixItems": [{"type": "string"}]},
                    {"minLength": 2, "$ref": "#", "contains": False},
                ],
            }
        },
    }
    compiled, judge = compile_json_schema(schema, byte_vocabulary()), jsonschema_rs.validator_for(schema)
    for text in ("[[{},[", "[[{},[{},6,", "[[{},[{},6,\n0]", "[[[[", '[0,"a",['):
        matcher = compiled.matcher()
        for byte in text.encode():
            matcher.accept(byte)
        found = matcher.shortest_completion()
        assert found is not None, text
        assert judge.is_valid(json.loads(text + found.text.decode()))
    check_schema(schema, [[], [[]], [[1, "a"]], [[[]], 0]], [[["a"]], [0, ["a", 1]]])


CONTAINING: dict[str, dict[str, Any]] = {
    "contains or the rest": {"type": "array", "contains": {"type": "string"}, "unevaluatedItems": {"type": "integer"}},
    "beside items at places": {
        "type": "array",
        "prefixItems": [{"type": "null"}],
        "contains": {"type": "string", "minLength": 1},
        "minContains": 0,
        "unevaluatedItems": False,
    },
    "in a branch that may hold": {
        "type": "array",
        "anyOf": [{"contains": {"const": "a"}}, {"contains": {"type": "boolean"}, "maxContains": 2}],
        "unevaluatedItems": {"type": "null"},
        "maxItems": 4,
    },
    "a reference in both": {
        "$defs": {"s": {"type": "array", "maxItems": 1, "items": {"type": "null"}}},
        "type": "array",
        "contains": {"$ref": "#/$defs/s"},
        "unevaluatedItems": {"anyOf": [{"$ref": "#/$defs/s"}, {"const": 0}]},
    },
    "denied": {"type": "array", "not": {"contains": {"type": "string"}, "unevaluatedItems": {"type": "integer"}}},
}


@pytest.mark.parametrize("kind", CONTAINING)
def test_what_contains_counts_is_evaluated_while_it_is_written(kind: str) -> None:
    schema = CONTAINING[kind]
    values, root, _ = satisfiable_values(schema, GrammarOptions())
    plans = [values.array_plan(spec) for spec in values.value_set(root).arrays]
    assert all(plan.check is None for plan in plans if plan is not None)
    compiled, judge = compile_json_schema(schema, byte_vocabulary()), jsonschema_rs.validator_for(schema)
    for seed in range(12):
        text = walk(compiled, seed, limit=80)
        assert text is None or judge.is_valid(json.loads(text)), text
    items: list[Any] = ["", "a", 0, None, True, [], [None]]
    for size in range(4):
        for value in map(list, product(items, repeat=size)):
            if size < 3 or len(set(map(str, value))) == 2:
                assert accepts(compiled, json.dumps(value)) is judge.is_valid(value), value


def test_more_items_than_there_are_values_to_be_each_once_are_refused_when_compiled() -> None:
    lists = {"type": "array", "uniqueItems": True, "items": {"enum": [1, 12, "1", [1], [12], {"a": 1}]}}
    for few in ({"type": "array"}, {"type": ["object", "number"], "minimum": 2}, {"const": [1]}):
        schema = {"allOf": [{**lists, "minItems": 3}, {"items": few}]}
        with pytest.raises(Unsatisfiable):
            compile_json_schema(schema, byte_vocabulary())
    assert accepts(compile_json_schema({**lists, "minItems": 6}, byte_vocabulary()), '[{"a":1},[12],[1],"1",12,1]')
