"""Integers of any length are read and written as they are; everything else is as `orjson` has it."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins import exact_json

LONG = st.integers(min_value=-(10**90), max_value=10**90)
LEAVES = st.none() | st.booleans() | LONG | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30)
TREES = st.recursive(LEAVES, lambda below: st.lists(below) | st.dictionaries(st.text(max_size=5), below), max_leaves=12)


def same(one: Any, other: Any) -> bool:
    """Compare with the types: 1 is not 1.0 here."""
    return bool(one == other) and repr(one) == repr(other)


@given(TREES)
def test_what_is_written_is_read_as_it_was(tree: Any) -> None:
    """As bytes and as text; text with half a surrogate pair is no JSON for either."""
    try:
        text = json.dumps(tree, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        with pytest.raises((TypeError, ValueError)):
            exact_json.read(exact_json.write(tree))
        return
    assert same(exact_json.read(exact_json.write(tree)), tree)
    assert same(exact_json.read(text), tree)
    assert same(exact_json.read(text.decode()), tree)


@given(st.integers(min_value=2**63, max_value=10**300), st.integers(1, 3))
def test_an_integer_with_a_fraction_of_zeros_is_that_integer(number: int, zeros: int) -> None:
    assert same(exact_json.read(f"[{number}.{'0' * zeros}]"), [number])


@pytest.mark.parametrize("text", ["{", "[1,]", "NaN", '["\ud800"]', "[" + "9" * 5000 + "]", '{"a":1}x', "\ufeff1"])
def test_what_is_no_json_is_refused_however_long_its_numbers(text: str) -> None:
    for more in (text, text.replace("1", "1" * 25)):
        with pytest.raises(ValueError, match=r"."):
            exact_json.read(more.encode("utf-8", "surrogatepass"))


def test_digits_in_a_string_change_nothing() -> None:
    text = b'{"card": "12345678901234567890123", "b": 1.10, "e": 1e400}'
    with pytest.raises(orjson.JSONDecodeError):
        exact_json.read(text)
    assert exact_json.read(text.replace(b"1e400", b"1e300")) == orjson.loads(text.replace(b"1e400", b"1e300"))


def test_what_json_has_not_is_a_type_error_or_made_into_something() -> None:
    with pytest.raises(TypeError):
        exact_json.write({"a": {1, 2}})
    assert exact_json.write({"a": {1}, "b": 2**70}, default=list) == b'{"a":[1],"b":1180591620717411303424}'
