"""Number automata against exact decimal arithmetic."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.grammar.automata import number_dfa
from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar

_SETTINGS = settings(max_examples=300, deadline=None)
_JSON_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")

Bound = int | float | Decimal | None

digits = st.text("0123456789", max_size=4)
plain_spellings = st.builds(
    lambda minus, whole, fraction: f"{minus}{whole.lstrip('0') or '0'}{'.' + fraction if fraction else ''}",
    st.sampled_from(["", "-"]), digits, digits,
)  # fmt: skip
exponents = st.builds(
    "{}{}{}".format, st.sampled_from("eE"), st.sampled_from(["", "+", "-"]), st.text("0123", min_size=1, max_size=2)
)
spellings = st.builds("{}{}".format, plain_spellings, exponents | st.just(""))
bounds = st.one_of(
    st.none(), st.integers(-1200, 1200), st.decimals(-50, 50, places=2), st.sampled_from([0, 0.5, -0.1, 1e3, 99.95])
)


def value(spelling: str) -> Fraction:
    return Fraction(Decimal(spelling))


def exact(number: int | float | Decimal) -> Fraction:
    return Fraction(Decimal(repr(number)) if isinstance(number, float) else number)


@_SETTINGS
@given(bounds, bounds, bounds, bounds, st.booleans(), st.lists(plain_spellings, min_size=10, max_size=20))
def test_plain_spellings_are_accepted_exactly_within_the_bounds(
    low: Bound, above: Bound, high: Bound, below: Bound, integer: bool, samples: list[str]
) -> None:
    dfa = number_dfa(low, above, high, below, integer=integer)
    for limit in (low, above, high, below):
        if limit is not None:
            samples = [*samples, str(limit), f"{limit}0" if "." in str(limit) else f"{limit}.0", f"{limit}1"]
    for spelling in filter(_JSON_NUMBER.fullmatch, samples):
        if "e" in spelling.lower():
            continue
        number = value(spelling)
        expected = (
            (low is None or number >= exact(low))
            and (above is None or number > exact(above))
            and (high is None or number <= exact(high))
            and (below is None or number < exact(below))
            and (not integer or number.denominator == 1)
        )
        assert dfa.accepts(spelling.encode()) == expected, spelling


@_SETTINGS
@given(st.sampled_from([None, 0]), st.sampled_from([None, 0]), st.booleans(), spellings)
def test_exponents_are_decided_where_only_the_sign_matters(
    low: Bound, high: Bound, strict: bool, spelling: str
) -> None:
    if strict:
        dfa = number_dfa(exclusive_minimum=low, exclusive_maximum=high)
    else:
        dfa = number_dfa(minimum=low, maximum=high)
    number = value(spelling)
    above = low is None or number > 0 or (number == 0 and not strict)
    below = high is None or number < 0 or (number == 0 and not strict)
    assert dfa.accepts(spelling.encode()) == (above and below)


@_SETTINGS
@given(bounds, st.booleans(), st.sampled_from([None, 3, 0.25]), spellings)
def test_no_spelling_of_a_wrong_value_is_ever_accepted(low: Bound, integer: bool, step: Bound, spelling: str) -> None:
    dfa = number_dfa(minimum=low, integer=integer, multiple_of=step)
    if dfa.accepts(spelling.encode()):
        number = value(spelling)
        json.loads(spelling)
        assert low is None or number >= exact(low)
        assert not integer or number.denominator == 1
        assert step is None or (number / exact(step)).denominator == 1


@_SETTINGS
@given(st.sampled_from([1, 2, 3, 7, 10, 12, 25, 600, 0.01, 0.1, 0.5, 2.5, 1.25, 0.3, Decimal("0.0005")]), st.data())
def test_multiples_are_accepted_exactly(step: int | float | Decimal, data: st.DataObject) -> None:
    dfa = number_dfa(multiple_of=step)
    multiple = str(Decimal(str(step)) * data.draw(st.integers(-500, 500)))
    for spelling in (*data.draw(st.lists(plain_spellings, min_size=5, max_size=5)), multiple):
        if "E" not in spelling:
            assert dfa.accepts(spelling.encode()) == ((value(spelling) / exact(step)).denominator == 1), spelling


@pytest.mark.parametrize(
    ("spelling", "expected"),
    [("1", True), ("1.0", True), ("-0", True), ("12e3", True), ("1.0E+2", True), ("7e-0", True), ("1.5", False),
     ("1.5e1", False), ("7e-1", False), ("01", False), ("1.", False), (".1", False), ("+1", False), ("", False)],
)  # fmt: skip
def test_integers_in_every_decidable_spelling(spelling: str, expected: bool) -> None:
    assert number_dfa(integer=True).accepts(spelling.encode()) == expected


def test_plain_integers_have_one_spelling() -> None:
    dfa = number_dfa(integer=True, plain=True)
    assert all(dfa.accepts(s) for s in (b"0", b"-7", b"120"))
    assert not any(dfa.accepts(s) for s in (b"-0", b"1.0", b"1e2"))


def test_contradictory_bounds_leave_nothing() -> None:
    assert number_dfa(minimum=3, maximum=2).is_empty()
    assert number_dfa(exclusive_minimum=3, exclusive_maximum=4, integer=True).is_empty()
    assert number_dfa(minimum=1, maximum=6, multiple_of=7).is_empty()


def test_huge_moduli_and_bounds_end_in_a_limit() -> None:
    for arguments in ({"multiple_of": 1_048_577}, {"minimum": 10**1000}, {"maximum": Decimal("1e-5000")}):
        with pytest.raises(GrammarLimit):
            number_dfa(**arguments)  # type: ignore[arg-type]
    assert not number_dfa(multiple_of=10**9).is_empty()
    assert number_dfa(maximum=1.7976931348623157e308).accepts(b"1")


def test_senseless_arguments_are_refused() -> None:
    for arguments in ({"multiple_of": 0}, {"multiple_of": -2}, {"minimum": float("nan")}, {"maximum": float("inf")}):
        with pytest.raises(InvalidGrammar):
            number_dfa(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("spelling", ["1e308", "12e100", "1e999", "-1E+0400"])
def test_no_exponent_reaches_past_a_double(spelling: str) -> None:
    """Readers turn such a number into infinity, which is not what was meant."""
    assert not number_dfa().accepts(spelling.encode())
    assert number_dfa().accepts(b"9.99e307")
