"""An array of many `contains` is followed in as many readings as one item may count in, whatever came before."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from sluicegate.grammar import GrammarLimit, compile_json_schema
from tests.grammar.grammar_checks import byte_vocabulary, check_masks, check_schema, tokens_of, walk

TEN = {"type": "array", "allOf": [{"contains": {"const": n}} for n in range(10)], "maxItems": 12}
LETTERS = {
    "type": "array",
    "items": {"type": "string", "maxLength": 4},
    "allOf": [{"contains": {"pattern": letter}} for letter in "abc"],
    "maxItems": 2,
}
BOTH: dict[str, Any] = {
    "type": "array",
    "items": {"type": "integer"},
    "allOf": [
        {"contains": {"minimum": 5}, "minContains": 2},
        {"contains": {"maximum": 7}, "maxContains": 2},
        {"contains": {"const": 6}},
    ],
    "maxItems": 3,
}


def counts(items: list[int]) -> bool:
    return sum(n >= 5 for n in items) >= 2 and 1 <= sum(n <= 7 for n in items) <= 2 and 6 in items


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("schema", [TEN, LETTERS, BOTH], ids=["constants", "patterns", "at most"])
def test_masks_are_what_trying_every_token_gives(schema: Any, seed: int) -> None:
    check_masks(compile_json_schema(schema, byte_vocabulary()), seed)


@pytest.mark.parametrize("schema", [TEN, LETTERS, BOTH], ids=["constants", "patterns", "at most"])
def test_no_walk_ends_where_the_array_cannot(schema: Any) -> None:
    for seed in range(6):
        walk(compile_json_schema(schema, byte_vocabulary()), seed)


def test_items_that_count_in_several_ways_count_for_all() -> None:
    small = [0, 5, 6, 7, 8]
    arrays = [list(items) for size in range(4) for items in product(small, repeat=size)]
    valid = [items for items in arrays if counts(items)]
    check_schema(BOTH, valid[::7], [items for items in arrays if not counts(items)][::11])
    check_schema(LETTERS, [["abc"], ["ab", "c"], ["xa", "cb"]], [["ab"], ["ab", "ba"], ["a", "b", "c"]])
    numbers = list(range(10))
    check_schema(TEN, [numbers, [3, 3, *numbers], numbers[::-1]], [numbers[1:], [3, 3, 3, *numbers]])


def test_items_passed_over_leave_no_readings_behind() -> None:
    vocabulary = byte_vocabulary()
    matcher = compile_json_schema(TEN, vocabulary).matcher()
    for token in tokens_of(json.dumps(list(range(9)))[:-1] + ", ", vocabulary):
        matcher.accept(token)
        assert len(matcher._at.readings) <= 2 * 11


def test_more_ways_to_count_an_item_than_are_followed_are_refused_when_compiled() -> None:
    schema = {**LETTERS, "allOf": [{"contains": {"pattern": letter}} for letter in "abcdefgh"]}
    with pytest.raises(GrammarLimit, match="may count for 8 `contains` in more than 64 ways"):
        compile_json_schema(schema, byte_vocabulary())
