"""How many digits a number may have: enough for what real programs write, and never without end."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar import GrammarOptions, LazyMatcher, TokenRejected, compile_json_schema
from sluicegate.grammar.lexemes.digits import NumberDigits
from sluicegate.grammar.lexemes.scalars import number_lexemes
from sluicegate.grammar.schema.numbers import Numbers, plain_text
from sluicegate.plugins.errors import InvalidGrammar
from tests.grammar.grammar_checks import accepts, byte_vocabulary

UNBOUNDED = GrammarOptions(integer_digits=0, fraction_digits=0)


def reads(schema: object, text: str, options: GrammarOptions | None = None) -> bool:
    return accepts(compile_json_schema(json.dumps(schema), byte_vocabulary(), options=options), text)


def longest(schema: object, begin: str, digit: str, most: int = 600) -> int:
    """Return the length of `begin` and as many times `digit` as the masks leave."""
    matcher = compile_json_schema(json.dumps(schema), byte_vocabulary()).matcher()
    for byte in begin.encode():
        matcher.accept(byte)
    return next((n for n in range(len(begin), most) if not _takes(matcher, digit)), most)


def _takes(matcher: LazyMatcher, digit: str) -> bool:
    try:
        matcher.accept(ord(digit))
    except TokenRejected:
        return False
    return True


@pytest.mark.parametrize("kind", ["number", "integer"])
@pytest.mark.parametrize(("begin", "digit"), [("1", "0"), ("-9", "9"), ("0.0", "0"), ("1.0", "0"), ("1e0", "0")])
@pytest.mark.parametrize("bounds", [{}, {"minimum": 0}, {"minimum": -9, "maximum": 7}, {"multipleOf": 0.01}])
def test_no_number_goes_on_without_end(kind: str, begin: str, digit: str, bounds: dict[str, float]) -> None:
    schema = {"type": kind, **bounds}
    if reads(schema, "1") and not (begin.startswith("-") and "minimum" in bounds) and not ("e" in begin and bounds):
        assert longest(schema, begin, digit) <= 125


@pytest.mark.parametrize("schema", [{"type": "number"}, {"minimum": -1e300, "maximum": 1e300}, True, {}])
@pytest.mark.parametrize(
    "text",
    [
        "12345678901234567890",
        "340282366920938463463374607431768211455",
        str(2**256),
        "-" + str(2**255),
        "0.0000012345678901234567",
        "0.3333333333333333333333333333",
        "123456789.123456789012345678",
        repr(5e-5),
    ],
)
def test_numbers_that_programs_write_are_read(schema: object, text: str) -> None:
    if "e" not in text or not isinstance(schema, dict) or "minimum" not in schema:
        assert reads(schema, text)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"const": 10**120 + 1}, str(10**120 + 1)),
        ({"enum": [10**99, 1]}, str(10**99)),
        ({"type": "integer", "minimum": 10**90}, str(10**90 + 7)),
        ({"maximum": 1.7e308}, "1" + "0" * 300),
        ({"multipleOf": 1e-45}, "0." + "0" * 44 + "3"),
        ({"multipleOf": 10**100}, "3" + "0" * 100),
        ({"exclusiveMinimum": 0.0, "exclusiveMaximum": 1e-60}, "0." + "0" * 60 + "5"),
        ({"type": "number", "not": {"multipleOf": 1e-50}}, "0." + "0" * 50 + "5"),
    ],
)
def test_a_schema_that_mentions_longer_numbers_has_them(schema: object, text: str) -> None:
    assert reads(schema, text)


@given(
    low=st.fractions(min_value=-(10**100), max_value=10**100, max_denominator=1),
    places=st.integers(0, 90),
    gap=st.integers(1, 10**6),
    strict=st.booleans(),
)
@settings(max_examples=60, deadline=None)
def test_between_any_two_bounds_there_is_a_number(low: Fraction, places: int, gap: int, strict: bool) -> None:
    low, width = low / 10**places, Fraction(gap, 10**places)
    part = Numbers(low=(low, strict), high=(low + width, strict))
    (lexeme,) = number_lexemes((part,), NumberDigits(6, 3))
    state = lexeme.run(lexeme.start, plain_text(low + width / 2).encode())
    assert state is not None
    assert lexeme.outcome(state) == 0


def test_the_options_say_how_many() -> None:
    few = GrammarOptions(integer_digits=3, fraction_digits=2)
    number = {"type": "number"}
    assert reads(number, "-123.45", few)
    assert not reads(number, "1234", few)
    assert not reads(number, "1.234", few)
    assert reads(number, "1" * 350 + "." + "3" * 350, UNBOUNDED)
    for wrong in (-1, 401, True, "40"):
        with pytest.raises(InvalidGrammar, match="integer_digits"):
            GrammarOptions.from_mapping({"integer_digits": wrong})
