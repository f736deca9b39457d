"""What `GrammarOptions` leave free is free, all of it, and nothing else is: told by obvious rules of the test's own."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar import GrammarLimit, GrammarOptions, InvalidGrammar, LazyGrammar, compile_json_schema
from sluicegate.grammar.limits import GrammarLimits
from tests.grammar.automata.test_strings import spell
from tests.grammar.grammar_checks import accepts, byte_vocabulary

LISTED, REQUIRED = ["b", "a", "d", "c"], ["d", "a"]
ORDERS = {
    "schema": LISTED,
    "required_first": ["a", "d", "b", "c"],  # the required ones as listed, then the others
    "any": None,
}


@cache
def compiled(schema: str, **options: Any) -> LazyGrammar:
    return compile_json_schema(schema, byte_vocabulary(), options=GrammarOptions(**options))


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(sorted(ORDERS)), st.lists(st.sampled_from([*LISTED, "x", "y"]), max_size=6))
def test_properties_come_in_the_order_that_is_asked_for(order: str, names: list[str]) -> None:
    schema = json.dumps({"type": "object", "properties": {name: {} for name in LISTED}, "required": REQUIRED})
    text = "{" + ", ".join(f'"{name}": 1' for name in names) + "}"
    wanted = len(set(names)) == len(names) and set(names) >= set(REQUIRED)
    listed = ORDERS[order]
    if listed is not None:
        places = [listed.index(name) if name in listed else len(listed) for name in names]
        wanted = wanted and places == sorted(places)
    assert accepts(compiled(schema, property_order=order), text) is wanted


BLANKS = ["", "", "", " ", "  ", "\n", "\n  ", "\r\n\t", "\t", " \n", "\n\n", "\n" + " " * 64, "\n" + " " * 65]
INSIDE, COLON = r"(?: |\r?\n(?: {0,64}|\t{1,32}))?", " ?"
WHITESPACE = {
    "compact": ("", ""),
    "flexible": (INSIDE, COLON),
    r"\n*[ \t]{0,2}": (r"\n*[ \t]{0,2}", r"\n*[ \t]{0,2}"),
}
PIECES = ["[", "1", ",", "{", '"a"', ":", "[", "]", "}", ",", '"b"', "]"]


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(sorted(WHITESPACE)), st.data())
def test_whitespace_stands_where_and_as_the_option_says(whitespace: str, data: st.DataObject) -> None:
    """After `{ [ ,` and before `} ]`, after `:`, and nowhere else."""
    inside, colon = WHITESPACE[whitespace]
    gaps = data.draw(st.lists(st.sampled_from(BLANKS), min_size=len(PIECES) + 1, max_size=len(PIECES) + 1))
    few = data.draw(st.sets(st.integers(0, len(PIECES)), max_size=3))
    gaps = [gap if place in few else "" for place, gap in enumerate(gaps)]
    wanted = True
    for place, gap in enumerate(gaps):
        before, after = PIECES[place - 1] if place else "", PIECES[place] if place < len(PIECES) else ""
        rule = colon if before == ":" else inside if (before and before in "{[,") or (after and after in "}]") else ""
        wanted = wanted and re.fullmatch(rule, gap) is not None
    text = "".join(gap + piece for gap, piece in zip(gaps, [*PIECES, ""], strict=True))
    assert accepts(compiled("true", whitespace=whitespace), text) is wanted, text


texts = st.text(st.sampled_from('ab/"\\\b\n\u0000\x7fé\u2028日😀\U0010ffff'), max_size=5)


@settings(max_examples=80, deadline=None)
@given(texts, texts, st.integers(0, 10**6))
def test_every_escape_of_json_spells_a_string(text: str, other: str, seed: int) -> None:
    r"""`\n`, `\u000a`, `\u000A` and surrogate pairs, in names and values, whether the string is free or known."""
    pick = random.Random(seed)
    spelled = '"' + spell(text, pick).decode() + '"'
    assert json.loads(spelled) == text
    assert accepts(compiled('{"type": "string"}'), spelled)
    assert accepts(compiled(json.dumps({"maxLength": len(text)})), spelled)
    assert accepts(compiled(json.dumps({"const": text})), spelled)
    assert accepts(compiled(json.dumps({"enum": [text, other + "x"]})), spelled)
    assert accepts(compiled(json.dumps({"properties": {text: {"type": "integer"}}})), f"{{{spelled}: 1}}")
    if other != text:
        assert not accepts(compiled(json.dumps({"const": other})), spelled)
        assert accepts(compiled(json.dumps({"properties": {other: {"type": "integer"}}})), f"{{{spelled}: null}}")


exponents = st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 99))


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(["", "-"]),
    st.one_of(st.just("0"), st.integers(1, 10**20).map(str)),
    st.one_of(st.just(""), st.text("0123456789", min_size=1, max_size=20).map(lambda digits: "." + digits)),
    st.one_of(
        st.just(""),
        st.builds("{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.integers(0, 99)),
    ),
)
def test_every_spelling_of_a_number_is_free(sign: str, whole: str, fraction: str, exponent: str) -> None:
    assert accepts(compiled('{"type": "number"}'), sign + whole + fraction + exponent)


@pytest.mark.parametrize("text", ["01", "+1", ".5", "1.", "1e", "-", "1e+", "Infinity", "NaN", "0x1", "1_0", "--1"])
def test_what_json_does_not_take_for_a_number_is_refused(text: str) -> None:
    assert not accepts(compiled('{"type": "number"}'), text)


def test_a_request_may_lower_the_limits_of_the_operator() -> None:
    most = GrammarLimits(depth=50)
    asked = GrammarOptions.from_mapping({"limits": {"depth": 1, "cpu_s": 0.5}}, most)
    assert (asked.limits.depth, asked.limits.cpu_s, asked.limits.readings) == (1, 0.5, most.readings)
    nested = {"items": {"items": {"items": {"type": "integer"}}}}
    with pytest.raises(GrammarLimit):
        compile_json_schema(nested, byte_vocabulary(), options=asked)
    compile_json_schema(nested, byte_vocabulary(), options=GrammarOptions.from_mapping({}, most))


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(GrammarLimits)])
def test_no_request_raises_a_limit(name: str) -> None:
    most = GrammarLimits()
    bound = getattr(most, name)
    for value in (bound + 1, 0, -1, True, "1", None, float("nan")):
        with pytest.raises(InvalidGrammar) as raised:
            GrammarOptions.from_mapping({"limits": {name: value}}, most)
        assert raised.value.param == f"limits.{name}"
    assert GrammarOptions.from_mapping({"limits": {name: bound}}, most).limits == most


def test_limits_that_are_unknown_or_no_table_are_refused() -> None:
    for asked in ({"deep": 1}, [], 3, None):
        with pytest.raises(InvalidGrammar):
            GrammarOptions.from_mapping({"limits": asked})
