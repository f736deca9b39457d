"""`oneOf` whose branches are told apart by a property that is required outside of them."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from jsonschema_rs import Draft202012Validator

from sluicegate.grammar import compile_json_schema
from sluicegate.plugins.errors import Unsatisfiable
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_schema

KINDS: list[Any] = [
    {"const": "a"},
    {"enum": ["b", "c"]},
    {"const": "a"},
    {"const": 1},
    {"const": True},
    {"type": "string"},
    True,
]
VALUES: list[Any] = ["a", "b", "c", "d", 1, True, None, 2]


def branches(count: int) -> list[dict[str, Any]]:
    return [{"properties": {"kind": {"const": f"k{i}"}, f"v{i}": {"type": "integer"}}} for i in range(count)]


@pytest.mark.parametrize("count", [3, 33, 200], ids=["few", "many", "beyond comparing pairs"])
@pytest.mark.parametrize("nested", [False, True], ids=["beside", "in allOf"])
def test_a_property_required_outside_tells_branches_apart(count: int, nested: bool) -> None:
    inner: dict[str, Any] = {"oneOf": branches(count)}
    schema = {"type": "object", "required": ["kind"], **({"allOf": [inner]} if nested else inner)}
    check_schema(
        schema,
        [{"kind": "k1", "v1": 5}, {"kind": "k2", "v1": "free"}, {"kind": "k2", "v2": 0}],
        [{"kind": "k1", "v1": "x"}, {"kind": "other"}, {}, {"v1": 5}],
    )


def test_objects_without_that_property_stay_in_all_branches_where_nothing_requires_it() -> None:
    check_schema({"type": "object", "oneOf": branches(3)}, [{"kind": "k1"}], [{}, {"v1": 5}, {"kind": "other"}])
    check_schema(
        {"type": "object", "oneOf": [*branches(2), {"required": ["w"]}]},
        [{"kind": "k1"}, {"kind": "z", "w": 1}],
        [{"kind": "k1", "w": 1}, {"w": 1}, {"kind": "z"}],
    )


def test_many_branches_told_apart_take_no_time_for_pairs() -> None:
    """Two millions of those would not fit into the time that a compilation gets."""
    schema = {"required": ["kind"], "type": "object", "oneOf": branches(2_000)}
    compiled = compile_json_schema(schema, byte_vocabulary())
    assert ord("{") in allowed(compiled.matcher(), byte_vocabulary())


@pytest.mark.parametrize("seed", range(40))
def test_exactly_one_branch_whatever_requires_what(seed: int) -> None:
    """Against a validator: overlapping kinds, kinds of several types, branches that may lack the property."""
    random_ = random.Random(seed)
    inner: dict[str, Any] = {"oneOf": [branch(random_) for _ in range(random_.randint(2, 5))]}
    outer: dict[str, Any] = {"type": "object"}
    if random_.random() < 0.7:
        outer["required"] = random_.sample(["kind", "x"], random_.randint(1, 2))
    schema = {**outer, "allOf": [inner]} if random_.random() < 0.5 else {**outer, **inner}
    validator = Draft202012Validator(schema)
    try:
        compiled = compile_json_schema(schema, byte_vocabulary())
    except Unsatisfiable:
        compiled = None
    for _ in range(40):
        value = {name: random_.choice(VALUES) for name in random_.sample(["kind", "x"], random_.randint(0, 2))}
        for spelled in (value, dict(reversed(value.items()))):
            if compiled is not None and accepts(compiled, json.dumps(spelled)):
                assert validator.is_valid(value), (schema, value)
                break
        else:
            assert not validator.is_valid(value), (schema, value)


def test_exactly_one_of_many_settings_is_there_and_right() -> None:
    """Each is a branch that requires one property; the others may be there if they are wrong."""
    settings = {f"s{i}": {"type": "object", "required": ["v"]} for i in range(26)}
    one = [{"properties": {name: wanted}, "required": [name]} for name, wanted in settings.items()]
    schema = {
        "type": "object",
        "properties": dict.fromkeys(settings, True),
        "additionalProperties": False,
        "oneOf": one,
    }
    right, wrong = {"v": 1}, {"w": 1}
    check_schema(
        schema,
        [{"s3": right}, {"s0": wrong, "s3": right, "s25": 1}, {"s25": right, "s24": None}],
        [{}, {"s3": wrong}, {"s3": right, "s4": right}, {"s0": right, "s25": right}],
    )


def branch(random_: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {"properties": {"kind": random_.choice(KINDS)}}
    if random_.random() < 0.4:
        made["properties"]["x"] = random_.choice(KINDS)
    if random_.random() < 0.3:
        made["required"] = random_.sample(["kind", "x"], random_.randint(1, 2))
    return made
