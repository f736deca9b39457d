"""Arrays of which two items must be equal: the negation of `uniqueItems`."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema_rs
import pytest

from sluicegate.grammar import Unsatisfiable, compile_json_schema
from sluicegate.grammar.json.root import satisfiable_values
from sluicegate.grammar.options import GrammarOptions
from tests.grammar.grammar_checks import accepts, byte_vocabulary, check_masks, check_schema, walk

REPEATING: dict[str, Any] = {"type": "array", "not": {"uniqueItems": True}}
KINDS: dict[str, dict[str, Any]] = {
    "any": REPEATING,
    "two": {**REPEATING, "maxItems": 2},
    "three": {**REPEATING, "maxItems": 3, "items": {"type": ["integer", "string", "array"]}},
    "first and last": {
        **REPEATING,
        "prefixItems": [{"type": "integer"}, {"type": "string"}, {"enum": [1, 20, "a"]}],
        "items": False,
    },
    "the first must be able to come again": {
        **REPEATING,
        "prefixItems": [{"type": ["integer", "string"]}, {"enum": [3, "b", None]}],
        "items": False,
    },
    "a place for one before, or for one to come": {
        **REPEATING,
        "prefixItems": [
            {"type": ["integer", "null"]},
            {"type": "integer", "minimum": 3},
            {"multipleOf": 2},
            {"maximum": 9},
        ],
        "maxItems": 4,
    },
    "objects": {**REPEATING, "maxItems": 2, "items": {"type": "object", "properties": {"a": {"type": "boolean"}}}},
    "one of two": {
        "type": "array",
        "oneOf": [{"uniqueItems": True, "minItems": 2}, {"items": {"type": "integer"}, "maxItems": 3}],
    },
    "under another not": {"type": "array", "items": {"not": {"not": REPEATING}}, "maxItems": 2},
}
ITEMS: list[Any] = [0, 1, 3, 4, "a", "b", None, True, [], [1], [[]], {}, {"a": True}, 1.0, 20]


@pytest.mark.parametrize("kind", KINDS)
def test_the_masks_are_what_trying_every_token_gives(kind: str) -> None:
    compiled = compile_json_schema(KINDS[kind], byte_vocabulary())
    for seed in range(6):
        check_masks(compiled, seed, 30)


@pytest.mark.parametrize("kind", KINDS)
def test_every_text_can_be_finished_and_is_valid(kind: str) -> None:
    schema = KINDS[kind]
    compiled, judge = compile_json_schema(schema, byte_vocabulary()), jsonschema_rs.validator_for(schema)
    for seed in range(25):
        text = walk(compiled, seed, limit=60)
        if text is not None:
            assert judge.is_valid(json.loads(text)), text
        matcher, pick = compiled.matcher(), random.Random(seed)
        for byte in (text or "[").encode()[: pick.randrange(1, 30)]:
            matcher.accept(byte)
            assert matcher.shortest_completion() is not None, text


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_are_judged_as_a_validator_does(kind: str) -> None:
    compiled, judge = compile_json_schema(KINDS[kind], byte_vocabulary()), jsonschema_rs.validator_for(KINDS[kind])
    pick = random.Random(1)
    values: list[Any] = [[], *([item] for item in ITEMS), *map(list, product(ITEMS, ITEMS))]
    values += [[pick.choice(ITEMS) for _ in range(pick.choice([3, 3, 4, 4, 5]))] for _ in range(150)]
    if kind == "under another not":
        values = [[one, other] for one, other in zip(values, values[::-1], strict=True)]
    for value in values:
        assert accepts(compiled, json.dumps(value)) is judge.is_valid(value), value


def test_an_item_is_free_while_one_before_it_may_come_again() -> None:
    valid = [[1, "b", 1], [20, "b", 20], [5, "a", "a"], [1.0, "a", 1]]
    check_schema(KINDS["first and last"], valid, [[5, "b", 20], [5, "a", 20], [1, "b", "a"], [1, "b"]])


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_to_a_check(kind: str) -> None:
    values, root, _ = satisfiable_values(KINDS[kind], GrammarOptions())
    plans = [values.array_plan(spec) for spec in values.value_set(root).arrays]
    assert all(plan.check is None for plan in plans if plan is not None)


def test_where_no_two_items_can_be_equal_there_is_no_value() -> None:
    for more in (
        {"maxItems": 1},
        {"uniqueItems": True},
        {"prefixItems": [{"type": "integer"}, {"type": "null"}], "items": False},
    ):
        with pytest.raises(Unsatisfiable):
            compile_json_schema({**REPEATING, **more}, byte_vocabulary())


def test_beside_contains_a_check_tells() -> None:
    schema = {**REPEATING, "contains": {"type": "integer"}}
    check_schema(schema, [[1, 1], ["a", 2, "a"]], [["a", "a"], [1, 2], [1]])
