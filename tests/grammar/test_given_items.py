"""Items given to an array of unique ones, and names given to an object, where these have few: what may come next."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar import LazyMatcher, compile_json_schema
from sluicegate.grammar.automata import CharDfa, utf8
from sluicegate.grammar.budget.meter import Allowance, WorkMeter
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.lexemes.number_supply import NumberSupply
from sluicegate.grammar.lexemes.string_supply import StringSupply
from sluicegate.grammar.schema.numbers import plain_text
from sluicegate.grammar.schema.strings import Strings
from sluicegate.plugins.errors import Unsatisfiable
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_masks, walk
from tests.reference.mask_by_trial import mask_by_trial


def unique(items: Any, **more: Any) -> dict[str, Any]:
    return {"type": "array", "items": items, "uniqueItems": True, **more}


def texts(pattern: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern, **more}


TEXT = {"type": "string"}
CLOSED = {"type": "object", "additionalProperties": False}
SCHEMAS: dict[str, Any] = {
    "two letters": unique(texts("^[a-j]{2}$"), minItems=3),
    "lengths": unique(texts("^[a-c]*$", minLength=2, maxLength=3)),
    "one character": unique({"type": "string", "maxLength": 1}),
    "letters that one escape may begin": unique(texts("^[@-O]$")),
    "characters of several bytes": unique(texts("^[é-ï]?[ab]$")),
    "pairs of surrogates": unique(texts("^[😀-😃]{0,2}$")),
    "integers": unique({"type": "integer", "minimum": -5, "maximum": 70}),
    "hundredths": unique({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 1}),
    "halves": unique({"type": "number", "multipleOf": 0.5, "minimum": -2, "maximum": 40}),
    "a list of strings and numbers": unique({"enum": [*range(40), *map(str, range(40))]}),
    "several types": unique({"anyOf": [{"type": "string", "maxLength": 1}, {"type": "integer", "minimum": 0}]}),
    "counted": unique({"type": "string", "maxLength": 2}, contains={"pattern": "^a"}),
    "few arrays of any length": unique({"type": "array", "items": {"type": "boolean"}, "maxItems": 2}),
    "arrays of unique items": unique(unique({"type": "integer", "minimum": 0, "maximum": 2})),
    "objects of one string": unique({**CLOSED, "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    "pairs": unique({"type": "array", "prefixItems": [{}, {"type": "string"}], "items": False, "minItems": 2}),
    "names": {"type": "object", "patternProperties": {"^[ab]{1,2}$": {}}, "additionalProperties": False},
    "short names": {"type": "object", "propertyNames": {"maxLength": 1}, "additionalProperties": {"type": "null"}},
}


@pytest.mark.parametrize("kind", SCHEMAS)
def test_masks_are_what_trying_each_token_gives_and_none_is_empty(kind: str) -> None:
    compiled = compile_json_schema(SCHEMAS[kind], byte_vocabulary())
    check_masks(compiled, 2, 14, choose=hurried)
    walk(compiled, 3, 60)


def hurried(matcher: LazyMatcher, pick: random.Random) -> int | None:
    """Choose what ends an item where that may be, so that many come."""
    vocabulary = matcher._grammar.vocabulary
    may = allowed(matcher, vocabulary) - set(vocabulary.eos_token_ids)
    ends = sorted(token for token in may if vocabulary.words[token] in (b",", b'"', b'",', b'","'))
    return pick.choice(ends or sorted(may)) if may else None


def codes(letters: str, size: int) -> list[str]:
    return ["".join(code) for code in product(letters, repeat=size)]


LISTS: dict[str, tuple[Any, list[Any]]] = {
    "codes of a pattern": (texts("^[A-J]{2}$"), codes("ABCDEFGHIJ", 2)[:90]),
    "codes of a length": ({"type": "string", "maxLength": 2}, codes("ABCDEFGHIJ", 2)[:90]),
    "bounded integers": ({"type": "integer", "minimum": 0, "maximum": 300}, list(range(0, 180, 2))),
    "prices": ({"type": "number", "multipleOf": 0.01, "minimum": 0, "maximum": 99}, [k * 37 / 100 for k in range(80)]),
    "a long list": ({"enum": [f"tag{k}" for k in range(300)]}, [f"tag{k}" for k in range(90)]),
}


@pytest.mark.parametrize("kind", LISTS)
def test_the_hundredth_item_costs_little_more_than_the_second(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No automaton is made for an item, and no call is charged a tenth of what it may be."""
    items, values = LISTS[kind]
    compiled = compile_json_schema(unique(items), byte_vocabulary())
    made, charged = count_work(monkeypatch)
    matcher = compiled.matcher()
    row = np.zeros(compiled.vocabulary.row_words, np.int32)
    for byte in json.dumps(values)[:-1].encode():
        matcher.fill_mask(row)
        assert int(row[byte >> 5]) >> (byte & 31) & 1
        matcher.accept(byte)
    few = 60  # the lexeme of the strings or numbers themselves, at the first item
    assert sum(made) < few * 10
    assert max(charged) < matcher._bounds.charges / 10
    assert matcher.shortest_completion() is not None
    assert not accepts(compiled, json.dumps([*values, values[7]]))


def count_work(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[float]]:
    """Return what is filled with states that are made, and with what each call so far was charged."""
    made: list[int] = []
    charged = [0.0]
    states, charge, begin = WorkMeter.states, Allowance.charge, Allowance.__init__

    def count_states(self: WorkMeter, count: int = 1) -> None:
        made.append(count)
        states(self, count)

    def count_charge(self: Allowance, count: float) -> None:
        charged[-1] += count
        charge(self, count)

    def count_call(self: Allowance, *arguments: Any, **named: Any) -> None:
        charged.append(0.0)
        begin(self, *arguments, **named)

    monkeypatch.setattr(WorkMeter, "states", count_states)
    monkeypatch.setattr(Allowance, "charge", count_charge)
    monkeypatch.setattr(Allowance, "__init__", count_call)
    return made, charged


def test_an_array_ends_where_all_that_may_come_was_given() -> None:
    every = codes("abcdefgh", 2) + ["i" + letter for letter in "abcdefgh"]
    random.Random(1).shuffle(every)
    compiled = compile_json_schema(unique(texts("^[a-i][a-h]$")), byte_vocabulary())
    assert accepts(compiled, json.dumps(every))
    matcher = compiled.matcher()
    for byte in json.dumps(every)[:-1].encode():
        matcher.accept(byte)
    assert ord(",") not in allowed(matcher, compiled.vocabulary)
    assert ord("]") in allowed(matcher, compiled.vocabulary)


def test_an_object_ends_where_all_names_were_given() -> None:
    names = codes("abcdefghij", 2)
    schema = {"type": "object", "patternProperties": {"^[a-j]{2}$": {"type": "null"}}, "additionalProperties": False}
    compiled = compile_json_schema(schema, byte_vocabulary())
    assert accepts(compiled, json.dumps(dict.fromkeys(names)))
    matcher = compiled.matcher()
    for byte in json.dumps(dict.fromkeys(names[:-1]))[:-1].encode():
        matcher.accept(byte)
    found = matcher.shortest_completion()
    assert found is not None
    for byte in b', "j':
        matcher.accept(byte)
    assert allowed(matcher, compiled.vocabulary) & set(b"abcdefghij") == {ord("j")}


@pytest.mark.parametrize("text", ["[5, 5e00", "[5, 5e0", "[0, 5, 5." + "0" * 38, "[0, 5, 5." + "0" * 39])
@pytest.mark.parametrize("items", [{}, {"type": "number", "minimum": 0}])
def test_the_last_digit_of_a_number_is_offered_where_it_makes_a_new_one(text: str, items: Any) -> None:
    compiled = compile_json_schema(unique(items), byte_vocabulary())
    matcher = compiled.matcher()
    for byte in text.encode():
        if byte not in allowed(matcher, compiled.vocabulary):
            return  # exponents end with the first number that is left out
        matcher.accept(byte)
    check = [token for token in range(256) if token_taken(matcher, token)]
    assert check == sorted(token for token in allowed(matcher, compiled.vocabulary) if token < 256)
    assert check


def token_taken(matcher: LazyMatcher, token: int) -> bool:
    try:
        matcher.fork().accept(token)
    except Exception:
        return False
    return True


def dead_by_trial(every: set[str], before: set[str]) -> set[str]:
    """Return the shortest beginnings of which all texts are in `before`: the slow twin."""
    begun = {text[:size] for text in every for size in range(len(text) + 1)}
    dead = {b for b in begun if all(text in before for text in every if text.startswith(b))}
    return {b for b in dead if not any(b[:size] in dead for size in range(len(b)))}


@given(
    st.sampled_from(["^[ab]{1,3}$", "^a?b?c?$", "^(a|bc|bcd)$", "^[a-c]*$", "^x[yz]{0,2}$"]),
    st.integers(0, 2),
    st.integers(2, 3),
    st.randoms(use_true_random=False),
)
@settings(max_examples=30, deadline=None)
def test_beginnings_of_strings_are_dead_where_all_they_become_was_given(
    pattern: str, low: int, high: int, pick: random.Random
) -> None:
    part = Strings(dfa=CharDfa.from_pattern(pattern), low=low, high=high)
    every = {text for text in all_texts("abcdxyz", 3) if part.has(text)}
    order = sorted(every)
    pick.shuffle(order)
    supply, chain = StringSupply(part), GivenTexts()
    for k, text in enumerate(order):
        chain = chain.plus(text)
        assert set(chain.lists(supply).dead) == dead_by_trial(every, set(order[: k + 1]))
    assert supply.has_more(len(every) - 1)
    assert not supply.has_more(len(every))


def all_texts(letters: str, longest: int) -> Iterator[str]:
    for size in range(longest + 1):
        yield from map("".join, product(letters, repeat=size))


@given(
    st.sampled_from([r"-?(0|[1-9])(\.\d\d?)?", r"(0|[1-9])(\.0)?", r"-?[0-3](\.[05]0?)?", r"-?(0|1\d)"]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=10, deadline=None)
def test_beginnings_of_numbers_are_dead_where_all_values_they_become_were_given(
    pattern: str, pick: random.Random
) -> None:
    spelled = CharDfa.from_pattern(pattern, anchored=True)
    every = {text: Fraction(text) for text in spelled.enumerate(5_000)}
    values = sorted(set(every.values()))
    pick.shuffle(values)
    supply, chain = NumberSupply(utf8(spelled)), GivenTexts()
    for k, value in enumerate(values[:40]):
        chain = chain.plus(plain_text(value))
        if k % 8 == 7 or k < 2:
            before = set(values[: k + 1])
            expected = dead_by_trial(set(every), {text for text, number in every.items() if number in before})
            assert set(chain.lists(supply).dead) == expected


def test_lists_that_were_forgotten_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.grammar.given.texts._KEPT", 3)
    supply, chain = StringSupply(Strings(dfa=CharDfa.from_pattern("^[ab]{2}$"))), GivenTexts()
    chains = [chain := chain.plus(text) for text in ("ab", "aa", "ba")]
    for _ in range(2):
        assert [each.lists(supply).dead for each in chains] == [["ab"], ["a"], ["a", "ba"]]
    assert chains[0].plus("aa") is chains[1]


def test_arrays_of_few_values_are_told_apart_whatever_their_length() -> None:
    compiled = compile_json_schema(
        unique({"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}), byte_vocabulary()
    )
    every = [[], [1], [2], [1, 1], [1, 2], [2, 1], [2, 2]]
    assert accepts(compiled, json.dumps(every))
    assert not accepts(compiled, json.dumps([*every, [1]]))


@pytest.mark.parametrize("items", [texts("^[a-j]{2}$"), {"type": "integer", "minimum": 1, "maximum": 100}])
def test_more_unique_items_than_there_are_values_are_refused_when_compiled(items: Any) -> None:
    compile_json_schema(unique(items, minItems=100), byte_vocabulary())
    with pytest.raises(Unsatisfiable):
        compile_json_schema(unique(items, minItems=101), byte_vocabulary())


@pytest.mark.parametrize(
    ("items", "values", "begun"),
    [
        ({"properties": {"a": TEXT}, "required": ["a"]}, [{"a": "bob"}], '{"a":"bob'),
        (
            {"properties": {"b": {}, "a": {"type": "string"}}, "required": ["a"]},
            [{"b": 1.5, "a": ""}],
            '{"b":1.50,"a":"',
        ),
        ({"prefixItems": [{"type": "integer"}, TEXT], "items": False, "minItems": 2}, [[1, ""]], '[1,"'),
        ({"type": "array", "items": TEXT, "minItems": 2, "maxItems": 2}, [["a", "é"]], r'["a","\u00e9'),
    ],
)
def test_a_string_that_would_only_repeat_an_earlier_object_or_array_goes_on(
    items: Any, values: list[Any], begun: str
) -> None:
    kind = CLOSED if "properties" in items else {"type": "array"}
    compiled = compile_json_schema(unique({**kind, **items}), byte_vocabulary())
    matcher = compiled.matcher()
    for byte in f"{json.dumps(values)[:-1]},{begun}".encode():
        assert byte in allowed(matcher, compiled.vocabulary)
        matcher.accept(byte)
    may = allowed(matcher, compiled.vocabulary)
    assert ord('"') not in may
    assert ord("z") in may
    row = np.zeros(compiled.vocabulary.row_words, np.int32)
    matcher.fill_mask(row)
    assert np.array_equal(row, mask_by_trial(matcher, compiled.vocabulary))
    found = matcher.shortest_completion()
    assert found is not None
    for token in found.tokens:
        matcher.accept(token)
    assert matcher.can_stop


def test_unique_numbers_have_a_way_to_the_end_however_many_were_given() -> None:
    """Digits can always follow: no beginning is used up, and each short number was given."""
    items = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
    compiled = compile_json_schema(unique(items, minItems=60), byte_vocabulary())
    matcher = compiled.matcher()
    for byte in json.dumps([k / 100 for k in range(1, 60)])[:-1].encode():
        matcher.accept(byte)
    found = matcher.shortest_completion()
    assert found is not None
    assert accepts(compiled, json.dumps([k / 100 for k in range(1, 60)])[:-1] + found.text.decode())
