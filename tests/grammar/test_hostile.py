"""Bad schemas cannot hurt: each is answered, and refusals are typed. What they cost, `benchmarks.hostile` measures."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks.hostile import CASES, outcome
from sluicegate.grammar import (
    GrammarLimit,
    GrammarLimits,
    GrammarOptions,
    InvalidGrammar,
    TokenRejected,
    compile_json_schema,
    compile_lark,
    compile_regex,
    compile_structural_tags,
)
from sluicegate.grammar.budget.meter import within
from sluicegate.grammar.matching.call_limits import CallLimits
from tests.grammar.grammar_checks import accepts, allowed, byte_vocabulary, check_schema

SLOW = {"enum 100,000 numbers", "anyOf 10,000", "lark 100 kB", "pattern 200 kB", "pattern many lookaheads"}


@pytest.mark.parametrize("name", [name for name in CASES if name not in SLOW])
def test_every_hostile_input_is_compiled_or_refused_by_name(name: str) -> None:
    """Anything but a `GrammarError` would come through here."""
    assert outcome(CASES[name])


@pytest.mark.parametrize("options", [{"limits": GrammarLimits(cpu_s=0.0)}])
def test_one_deadline_holds_for_a_whole_compilation(options: Any) -> None:
    given = GrammarOptions(**options)
    schema = {"type": "object", "required": ["a"], "properties": {"a": {"enum": [1, 2]}}}
    for compile_it in (
        lambda: compile_json_schema(schema, byte_vocabulary(), options=given),
        lambda: compile_regex("x(a|b){1,77}", byte_vocabulary(), options=given),
        lambda: compile_lark("start: /x(a|c){1,77}/", byte_vocabulary(), options=given),
        lambda: compile_structural_tags(
            {"format": {"type": "json_schema", "json_schema": schema}}, byte_vocabulary(), options=given
        ),
    ):
        with pytest.raises(GrammarLimit, match="CPU time"):
            compile_it()


def test_more_kinds_of_objects_than_are_followed_are_refused_with_their_place() -> None:
    kinds = [{"type": "object", "required": [f"p{i}"]} for i in range(30)]
    schema = {"type": "object", "properties": {"a": {"anyOf": kinds}}}
    limits = GrammarOptions(limits=GrammarLimits(readings=20))
    with pytest.raises(GrammarLimit, match="30 kinds") as refused:
        compile_json_schema(schema, byte_vocabulary(), options=limits)
    assert refused.value.pointer == "/properties/a"


def test_too_many_readings_on_the_way_are_an_error_with_a_place() -> None:
    deep = {"anyOf": [{"items": {"anyOf": [{"maximum": i}, {"minimum": -i}]}, "maxItems": i} for i in range(1, 30)]}
    compiled = compile_json_schema(
        {"properties": {"a": deep}}, byte_vocabulary(), options=GrammarOptions(limits=GrammarLimits(readings=31))
    )
    compiled.usual = CallLimits()  # else the work for them is too much before
    with pytest.raises(GrammarLimit, match="readings") as refused:
        accepts(compiled, '{"a": [1, 1]}', 1)
    assert (refused.value.pointer or "").startswith("/properties/a")


def test_the_deadline_ends_with_the_compilation() -> None:
    with within(0.0):
        pass
    compile_json_schema({"enum": [3, 4]}, byte_vocabulary())


def test_a_schema_as_text_is_bounded() -> None:
    limits = GrammarOptions(limits=GrammarLimits(characters=10))
    with pytest.raises(GrammarLimit, match="characters"):
        compile_json_schema(json.dumps({"title": "x" * 20}), byte_vocabulary(), options=limits)
    with pytest.raises(GrammarLimit, match="too deeply"):
        compile_json_schema("[" * 100_000, byte_vocabulary())


def test_numbers_that_must_not_be_integers_are_none_in_any_spelling() -> None:
    """Found by fuzzing: spellings with an exponent were taken for fractions."""
    schema = {"type": "number", "not": {"type": "integer"}}
    check_schema(
        schema, valid=["0.5", "-1.25"], invalid=["0e-57", "10e-1", "1.5e1", "0.0", "-0e-1", "1.50e1"], raw=True
    )
    check_schema({"type": "number", "not": {"const": 1}}, valid=["2"], invalid=["1", "1.0", "10e-1", "1e0"], raw=True)


def test_a_number_among_unique_items_may_be_tried_with_any_byte_behind_it() -> None:
    """Found by fuzzing: `{` behind it was a `JSONDecodeError`."""
    compiled = compile_json_schema({"type": "array", "uniqueItems": True}, byte_vocabulary())
    for byte in range(256):
        matcher = compiled.matcher()
        for begun in b"[5":
            matcher.accept(begun)
        try:
            matcher.accept(byte)
        except TokenRejected:
            assert byte not in allowed(matcher, byte_vocabulary())


def test_constants_evaluate_nothing() -> None:
    """Found by fuzzing: a property of a constant was taken for one that `properties` had seen."""
    for name, value in (("unevaluatedProperties", {"a": 1}), ("unevaluatedItems", [1])):
        schema = {"allOf": [{"enum": [value, "x"]}], name: False}
        check_schema(schema, valid=["x"], invalid=[value])


def test_a_trigger_that_begins_no_tag_is_kept_out_of_the_text() -> None:
    """Found by fuzzing: the mask offered its last letter, and the step refused it."""
    tag = {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"}
    value = {"format": {"type": "triggered_tags", "triggers": ["<a", "<b"], "tags": [tag]}}
    compiled = compile_structural_tags(value, byte_vocabulary())
    assert accepts(compiled, "<a>x</a><c")
    assert not accepts(compiled, "<b")


_LOOP = {"p": {"$ref": "#/$defs/q"}, "q": {"allOf": [{"$ref": "#/$defs/p"}]}}


@pytest.mark.parametrize(
    "place",
    [
        {"type": "array", "items": {"$ref": "#/$defs/p"}},
        {"type": "array", "items": {"type": "object", "properties": {"bar": {"$ref": "#/$defs/q"}}}},
        {"properties": {"a": {"$ref": "#/$defs/p"}}},
        {"anyOf": [{"type": "string"}, {"prefixItems": [{"not": {"$ref": "#/$defs/p"}}]}]},
        {"additionalProperties": {"contains": {"$ref": "#/$defs/q"}}},
        {"propertyNames": {"allOf": [{"$ref": "#/$defs/p"}]}},
    ],
)
def test_a_reference_in_a_circle_is_refused_when_compiled(place: dict[str, Any]) -> None:
    """Wherever it stands: below `items` the first mask found it, in the middle of a request."""
    with pytest.raises(InvalidGrammar, match="without a value in between") as refused:
        compile_json_schema({**place, "$defs": _LOOP}, byte_vocabulary())
    assert refused.value.pointer in ("/$defs/p", "/$defs/q", "/$defs/q/allOf/0")


def test_a_circle_with_a_value_in_between_is_a_schema() -> None:
    nested = {"type": "array", "items": {"$ref": "#"}}
    check_schema(nested, valid=[[], [[[]], []]], invalid=[[1]])
    compile_json_schema({"type": "string", "$defs": _LOOP}, byte_vocabulary())  # nobody refers to it
