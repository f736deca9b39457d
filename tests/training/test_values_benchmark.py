"""`benchmarks.values`: both sides of a variant ask for the same, and fields are counted as they should be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from benchmarks.values import first_object, gain_of, generated, read, right_fields, share_of
from benchmarks.values_variants import VARIANTS, Item, leaves
from sluicegate.gateway.linting.rules import advise

ITEMS = generated("held-out layouts", 60)


@pytest.mark.parametrize("name", VARIANTS)
def test_the_right_answer_is_valid_before_and_after_and_right_in_every_field(name: str) -> None:
    pairs = [pair for item in ITEMS if (pair := VARIANTS[name](item)) is not None]
    assert len(pairs) >= 5
    for pair in pairs:
        assert json.dumps(pair.before.schema) != json.dumps(pair.after.schema)
        for item in (pair.before, pair.after):
            value = _filled(item, name)
            assert jsonschema_rs.is_valid(item.schema, value), (item.schema, value)
            assert right_fields(value, item.expected, item.paths) == len(item.paths) > 0


def _filled(item: Item, name: str) -> Any:
    """Return the expected answer, with what a variant asks for besides."""
    named = item.schema.get("properties", {})
    value = {key: below for key, below in item.expected.items() if key in named}
    if name == "nullable":
        required = item.schema["required"]
        value = {key: below for key, below in value.items() if below is not None or key in required}
        value |= {key: None for key in required if key not in value}
    return {"reasoning": "so", **value} if name == "reasons-first" else value


def test_fields_of_answers_are_counted_one_by_one() -> None:
    expected = {"a": 1, "b": {"c": "x", "d": [1, 2]}, "e": None}
    paths = leaves(expected)
    assert paths == (("a",), ("b", "c"), ("b", "d"), ("e",))
    assert right_fields(expected, expected, paths) == 4
    assert right_fields({"a": 1.0, "b": {"c": "y", "d": [1, 2]}}, expected, paths) == 3
    assert right_fields({"a": True, "b": 3}, expected, paths) == 1
    assert right_fields("text", expected, paths) == 0


def test_the_first_object_counts_also_in_prose() -> None:
    assert first_object('Here: ```json\n{"a": {"b": 1}}\n``` and {"c": 2}') == {"a": {"b": 1}}
    assert first_object('{ no {"a": 1}') == {"a": 1}
    assert right_fields(first_object("none"), {"a": None}, (("a",),)) == 0


def test_intervals_hold_the_share_and_narrow_with_more_documents() -> None:
    few, many = share_of([(1, 2), (2, 2)] * 5), share_of([(1, 2), (2, 2)] * 100)
    assert few.low <= few.share == many.share == 0.75 <= few.high
    assert many.high - many.low < few.high - few.low
    gain, low, high = gain_of([(0, 2)] * 30 + [(1, 2)] * 10, [(1, 2)] * 40)
    assert 0 < low <= gain <= high


def test_lines_of_a_file_are_read_and_wrong_ones_named(tmp_path: Path) -> None:
    file = tmp_path / "data.jsonl"
    file.write_text(json.dumps({"prompt": "p", "schema": {}, "expected": {"a": 1}}) + "\n")
    (item,) = read(file, 0)
    assert (item.messages, item.paths) == (({"role": "user", "content": "p"},), (("a",),))
    file.write_text('{"prompt": "p", "schema": {}}\n')
    with pytest.raises(SystemExit, match="expected"):
        read(file, 0)


def test_no_variant_brings_what_the_linter_then_finds() -> None:
    """What comes after a change has less of that rule than what came before, where there is such a rule."""
    for name, variant in VARIANTS.items():
        pairs = [pair for item in ITEMS if (pair := variant(item)) is not None]
        counts = [
            [sum(one.rule == name for one in advise(side.schema)) for side in (pair.before, pair.after)]
            for pair in pairs
        ]
        assert all(after <= before for before, after in counts), name
