"""Arrays of unique items that have few values, objects and arrays among them: each place leads to what is left."""

from __future__ import annotations

import gc
import json
from itertools import permutations
from typing import Any

import pytest

from sluicegate.grammar import LazyGrammar, Unsatisfiable, compile_json_schema
from sluicegate.grammar.json.few_values import few_values
from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.matching.call_limits import CallLimits
from sluicegate.grammar.options import GrammarOptions, PropertyOrder
from sluicegate.plugins.errors import GrammarTooCostly
from tests.fuzz.small_sets import case
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_masks, check_schema


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def members(required: bool = True, **properties: Any) -> dict[str, Any]:
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": list(properties)} if required else found


BOOLEAN: Any = {"type": "boolean"}


def refuses_after(schema: Any, begun: str, text: str) -> bool:
    """Return whether the mask behind `begun`, all of which masks offer, has no token that begins `text`."""
    compiled = compile_json_schema(schema, byte_vocabulary())
    matcher = compiled.matcher()
    for byte in begun.encode():
        assert byte in allowed(matcher, compiled.vocabulary), f"{begun!r} is refused at {chr(byte)!r}"
        matcher.accept(byte)
    return ord(text[0]) not in allowed(matcher, compiled.vocabulary)


@pytest.mark.parametrize(
    ("items", "begun", "refused"),
    [
        (members(a={"const": False}), '[{"a":false}', ","),
        (members(a=BOOLEAN), '[{"a":false},{"a":', "f"),
        (members(required=False, a=BOOLEAN), '[{},{"a":true},{"a":', "t"),
        (members(required=False, a={"const": []}), '[{},{"a":[]}', ","),
        (members(a=BOOLEAN, b={"enum": ["x", "y"]}), '[{"a":true,"b":"x"},{"a":true,"b":"y"},{"a":', "t"),
        (members(a={"enum": ["x", "xy"]}), '[{"a":"x"},{"a":"x', '"'),
        (members(a=members(b={"enum": [2, {}]})), '[{"a":{"b":2}},{"a":{"b":', "2"),
        ({"type": "array", "items": BOOLEAN, "maxItems": 1}, "[[true],[false],[", "t"),
        ({"enum": [{"a": 1}, [2], "s"]}, '[{"a":1},', "{"),
        ({"enum": [{"a": 1}, [2], "s"]}, '["s",[2],', '"'),
    ],
)
def test_a_value_is_not_begun_where_all_that_begin_so_were_given(items: Any, begun: str, refused: str) -> None:
    assert refuses_after(unique(items), begun, refused)


@pytest.mark.parametrize("order", ["schema", "any", "required_first"])
def test_members_come_in_the_order_that_the_options_ask_for(order: PropertyOrder) -> None:
    schema = unique(members(b={"const": 1}, a=BOOLEAN), minItems=2)
    compiled = compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(property_order=order))
    assert accepts(compiled, '[{"b":1,"a":true},{"b":1,"a":false}]')
    assert accepts(compiled, '[{"a":true,"b":1},{"b":1,"a":false}]') is (order == "any")


def test_lists_that_are_put_together_leave_the_order_free() -> None:
    both = {"allOf": [members(a=BOOLEAN, b={}), {"properties": {"b": {"enum": [1, 2]}}}]}
    check_schema(
        unique(both), [[{"b": 1, "a": True}, {"a": True, "b": 2}]], [[{"b": 1, "a": True}, {"a": True, "b": 1}]]
    )


def test_what_contains_counts_is_kept_for_later() -> None:
    """Of the five values two count; three of the first four items would leave too few places for both."""
    items = {"enum": [{"a": 1}, {"a": 2}, {"b": 1}, {"b": 2}, {"c": 1}]}
    schema = unique(items, contains={"required": ["a"]}, minContains=2, maxItems=3)
    assert refuses_after(schema, '[{"b":1},{"', "b")
    check_schema(schema, [[{"b": 1}, {"a": 1}, {"a": 2}]], [[{"b": 1}, {"b": 2}, {"a": 1}], [{"a": 1}]])
    at_most = unique(items, contains={"required": ["b"]}, minContains=0, maxContains=1, minItems=4)
    assert refuses_after(at_most, '[{"b":1},{"a":1},{"', "b")
    for schema in (
        unique(items, contains={"required": ["b"]}, maxContains=1, minItems=5),
        unique(items, contains={"required": ["b"]}, minContains=3),
        {"type": "array", "contains": {"const": 1}, "maxContains": 0},
    ):
        with pytest.raises(Unsatisfiable):
            compile_json_schema(schema, byte_vocabulary())


def test_first_items_leave_their_values_to_each_other() -> None:
    schema = unique(False, prefixItems=[{"enum": [[1], [2]]}, {"enum": [[1], [3]]}, {"const": [1]}], minItems=3)
    assert refuses_after(schema, "[[", "1")
    check_schema(schema, [[[2], [3], [1]]], [[[1], [3], [1]], [[2], [1], [1]]])
    with pytest.raises(Unsatisfiable):
        compile_json_schema({**schema, "prefixItems": [{"const": [1]}, {"const": [1]}]}, byte_vocabulary())


def test_every_permutation_of_the_values_is_an_array_and_nothing_else() -> None:
    values: list[Any] = [{"a": 1}, [1], "a", 1, None]
    every = [list(each) for size in range(6) for each in permutations(values, size)]
    compiled = compile_json_schema(unique({"enum": values}), byte_vocabulary())
    for value in every[::7]:
        assert accepts(compiled, json.dumps(value))
        assert not value or not accepts(compiled, json.dumps([*value, value[0]]))
    for seed in range(4):
        check_masks(compiled, seed)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (members(required=False, a=BOOLEAN, b={"const": 1}), 6),
        ({**members(required=False, a=BOOLEAN, b={"const": 1}), "minProperties": 1, "maxProperties": 1}, 3),
        ({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2, "contains": {"const": 2}}, 4),
        ({"type": "object", "patternProperties": {"^[ab]$": {"type": "null"}}, "additionalProperties": False}, 4),
        ({"type": "object", "propertyNames": {"enum": ["a"]}, "additionalProperties": BOOLEAN}, 3),
        ({"anyOf": [{"const": {"a": 1, "b": 2}}, {"const": {"b": 2, "a": 1.0}}]}, 1),
        ({**members(required=False, a=BOOLEAN), "not": {"required": ["a"]}}, 1),
        ({"type": "string", "maxLength": 1, "pattern": "^[ab]*$"}, 3),
        ({"type": "object"}, None),
        (members(a={"type": "integer"}), None),
        ({"type": "array", "items": {"type": "null"}}, None),
    ],
)
def test_few_values_are_all_that_a_schema_has(schema: Any, expected: int | None) -> None:
    plans, root, _ = satisfiable_values(schema, GrammarOptions())
    found = few_values(plans, root)
    assert (None if found is None else len(found)) == expected


def test_the_whole_array_is_finished_at_once() -> None:
    values = [{"id": k, "name": f"n{k}"} for k in range(60)]
    compiled = compile_json_schema(unique({"enum": values}, minItems=60), byte_vocabulary())
    matcher = compiled.matcher()
    for byte in b'[{"id":7,"name":"n7"},{"id":5':
        matcher.accept(byte)
    found = matcher.shortest_completion()
    assert found is not None
    assert sorted(json.loads(b'[{"id":7,"name":"n7"},{"id":5' + found.text), key=lambda each: each["id"]) == values


@pytest.mark.parametrize("more", [{}, {"contains": {"properties": {"id": {"minimum": 200}}}, "minContains": 210}])
def test_hundreds_of_constants_are_each_given_once(more: dict[str, Any]) -> None:
    """Not by recursion, which would nest too deeply."""
    values = [{"id": k} for k in range(420)]
    compiled = compile_json_schema(unique({"enum": values}, minItems=420, **more), byte_vocabulary())
    matcher = compiled.matcher()
    matcher.bound(20.0)
    found = matcher.shortest_completion()
    assert found is not None
    assert sorted(each["id"] for each in json.loads(found.text)) == list(range(420))
    with pytest.raises(Unsatisfiable):
        compile_json_schema(unique({"enum": values}, minItems=421), byte_vocabulary())


@pytest.mark.parametrize("seed", range(60))
def test_masks_are_what_a_list_of_all_texts_says(seed: int) -> None:
    assert not case(seed).startswith("FINDING"), case(seed)


def test_a_call_that_takes_too_much_keeps_nothing_alive() -> None:
    def given_up() -> None:
        compiled = compile_json_schema({"enum": [{"id": k} for k in range(300)]}, byte_vocabulary())
        matcher = compiled.matcher()
        matcher._bounds = CallLimits(charges=10.0, step=1.0)
        with pytest.raises(GrammarTooCostly):
            allowed(matcher, compiled.vocabulary)

    def alive() -> int:
        gc.collect()
        return sum(type(found) is LazyGrammar for found in gc.get_objects())

    before = alive()
    given_up()
    assert alive() == before
