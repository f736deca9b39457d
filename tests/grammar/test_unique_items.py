"""What later items of an array of unique ones are kept from, and when no exclusion is needed."""

from __future__ import annotations

import json
import random
import re
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.grammar import GrammarOptions, compile_json_schema
from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.json.arrays.state import ArrayState
from sluicegate.grammar.json.arrays.unique_items import _NUMBERS
from sluicegate.grammar.json.values import Values
from sluicegate.grammar.schema.numbers import _plain_spellings, plain_text
from sluicegate.grammar.schema.strings import Strings, has_room
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_schema, walk


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


ITEMS: dict[str, tuple[Any, list[Any]]] = {
    "integers": ({"type": "integer"}, list(range(-20, 20))),
    "integers from 0 on": ({"type": "integer", "minimum": 0}, list(range(40))),
    "some integers": ({"type": "integer", "minimum": 0, "maximum": 60}, list(range(40))),
    "even integers": ({"type": "integer", "multipleOf": 2}, list(range(0, 80, 2))),
    "anything": ({}, [*range(20), *map(str, range(20)), None, True]),
    "strings of a pattern": ({"type": "string", "pattern": "^[a-z]{1,9}$"}, ["a", "ab", "b", "abcdefghi", "abcdefgh"]),
    "strings or integers": (
        {"anyOf": [{"type": "string", "pattern": "^x.{0,200}$"}, {"type": "integer"}, {"type": "null"}]},
        ["x", *range(30), "xy", None, "x" * 20],
    ),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_each_item_comes_once_and_every_text_has_a_way_on(kind: str) -> None:
    items, values = ITEMS[kind]
    compiled = check_schema(unique(items), [values], [[*values, value] for value in (values[0], values[-1])])
    begun = json.dumps(values)[:-1]
    for seed in range(8):
        pick, matcher = random.Random(seed), compiled.matcher()
        for byte in f"{begun},".encode():
            matcher.accept(byte)
        for _ in range(40):
            may = sorted(allowed(matcher, compiled.vocabulary))
            assert may, matcher
            if matcher.is_finished:
                break
            matcher.accept(pick.choice(may))
        found = matcher.shortest_completion()
        assert matcher.is_finished or found is not None


@pytest.mark.parametrize("items", [{}, {"type": "number"}, {"type": "number", "minimum": 0}])
def test_a_number_is_not_begun_where_it_can_only_be_an_earlier_one(items: Any) -> None:
    compiled = compile_json_schema(unique(items), byte_vocabulary())
    for text in ("[5,5.", "[0,5,5.", "[0,0", "[0,0.", "[0,-"):
        for digit in "0", "5":
            matcher = compiled.matcher()
            for byte in text.encode():
                if byte not in allowed(matcher, compiled.vocabulary):
                    break
                matcher.accept(byte)
            else:
                while ord(digit) in allowed(matcher, compiled.vocabulary):
                    matcher.accept(ord(digit))
            assert allowed(matcher, compiled.vocabulary)


@pytest.mark.parametrize("zero", [True, False])
def test_many_integers_are_spelled_by_their_digits_alone(zero: bool) -> None:
    compiled = compile_json_schema(unique({"type": "integer"}), byte_vocabulary())
    few, many = list(range(1, _NUMBERS + 1)), list(range(not zero, _NUMBERS + 2))
    assert accepts(compiled, f"{json.dumps(few)[:-1]}, 90.0]")
    assert not accepts(compiled, f"{json.dumps(few)[:-1]}, 3.0]")
    assert not accepts(compiled, f"{json.dumps(many)[:-1]}, 90.0]")
    assert accepts(compiled, f"{json.dumps(many)[:-1]}, 90]")
    assert accepts(compiled, f"{json.dumps(many)[:-1]}, 0]") is not zero
    assert not accepts(compiled, f"{json.dumps(many)[:-1]}, -0]")


def test_many_items_lead_to_one_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the thousandth costs what the twentieth does."""
    seen: set[ArrayState] = set()
    kept = Values._keep

    def keep(self: Values, key: Any, state: Any) -> Any:
        seen.add(state)
        return kept(self, key, state)

    monkeypatch.setattr(Values, "_keep", keep)
    items = {"anyOf": [{"type": "string", "pattern": "^.{1,200}$"}, {"type": "integer"}]}
    compiled = compile_json_schema(unique(items), byte_vocabulary())
    counts = []
    for size in (30, 60):
        assert accepts(compiled, json.dumps([*range(size), *(f"{k:03}" for k in range(size))]))
        counts.append(len(seen))
    assert counts[1] == counts[0]


def test_few_digits_leave_integers_excluded() -> None:
    options = GrammarOptions(integer_digits=2)
    compiled = compile_json_schema(unique({"type": "integer", "minimum": 0}), byte_vocabulary(), options=options)
    for seed in range(4):
        walk(compiled, seed)
    assert not accepts(compiled, json.dumps([*range(100), 5]))
    assert accepts(compiled, json.dumps([*range(100)]))


@pytest.mark.parametrize(
    ("pattern", "high", "text", "expected"),
    [
        ("^.{1,200}$", None, "ab", True),
        ("^.{1,200}$", None, "a" * 200, False),
        ("^.{1,200}$", 3, "ab", False),
        ("^[ab]*$", None, "ab", True),
        ("^[ab]{0,9}$", None, "ab", False),
        ("^a*$", None, "aa", False),
        ("^(a|b.*)$", None, "a", False),
        ("^(a|b.*)$", None, "b", True),
    ],
)
def test_a_string_has_room_where_a_million_begin_with_it(
    pattern: str, high: int | None, text: str, expected: bool
) -> None:
    part = Strings(dfa=CharDfa.from_pattern(pattern), high=high)
    assert has_room(part, text) is expected


@given(st.frozensets(st.fractions(max_denominator=8).filter(lambda n: 40 % n.denominator == 0), min_size=1, max_size=6))
def test_excluded_numbers_are_all_their_spellings(values: frozenset[Fraction]) -> None:
    texts = [re.escape(plain_text(value)) for value in values]
    ways = [text + (r"0*" if "." in text else r"(\.0+)?") for text in texts] + [r"-0(\.0+)?"] * (0 in values)
    assert _plain_spellings(values) == utf8(CharDfa.from_pattern("|".join(ways), anchored=True))
