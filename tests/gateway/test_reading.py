"""Values of a body are counted before any is made, and lists are bounded before anything walks them."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.gateway.api.body import depth
from sluicegate.gateway.api.body import reader as reading
from sluicegate.gateway.api.body.depth import more_marks
from sluicegate.gateway.api.body.reader import check_values, count_values
from sluicegate.plugins import RequestError, RequestTooLarge

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(alphabet='a",[]{}\\é\n', max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=20,
)


def marks(value: Any) -> int:
    """Commas and opening brackets outside strings, from the value itself: what `count_values` must equal."""
    if isinstance(value, dict):
        return 1 + max(0, len(value) - 1) + sum(marks(one) for one in value.values())
    if isinstance(value, list):
        return 1 + max(0, len(value) - 1) + sum(marks(one) for one in value)
    return 0


@settings(max_examples=150, deadline=None)
@given(JSON, st.integers(2, 40))
def test_values_are_counted_without_parsing_whatever_the_chunks(value: Any, chunk: int) -> None:
    body = orjson.dumps(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "CHUNK", chunk)
        assert count_values(body, 10**9) == marks(value)


def test_a_text_full_of_commas_is_one_value() -> None:
    check_values(orjson.dumps({"a": ',[{"\\' * 200_000}), 100)
    check_values(b'{"a":"' + b"\\\\" * 300_000 + b'"}', 100)


@pytest.mark.parametrize("body", [b"[" + b"[]," * 500_000 + b"[]]", b"[" + b"1," * 600_000 + b"1]"])
def test_too_many_values_are_refused_before_one_is_made(body: bytes) -> None:
    with pytest.raises(RequestTooLarge, match="max_values"):
        check_values(body, 100_000)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"[" * 1_000_000, 400),
        (b'{"a":' * 150_000, 400),
        (b'{"a": "' + b"[" * 300_000 + b'", "b": [' + b"[],{}," * 60_000 + b"1]}", 413),
        (b'{"a": [' + b"[[[]]]," * 60_000 + b'"\\"' + b"[" * 300_000 + b'"]}', 413),
        (b"[1," * 150_000, 400),
    ],
    ids=["deep arrays", "deep objects", "wide", "brackets in text", "deep and wide"],
)
def test_what_is_too_deep_is_told_so_before_it_is_too_much(body: bytes, status: int) -> None:
    with pytest.raises(RequestError) as told:
        check_values(body, 100_000)
    assert isinstance(told.value, RequestTooLarge) == (status == 413)
    assert ("deeper" in told.value.message) == (status == 400)


@given(text=st.text(alphabet='a,[{"', max_size=40), piece=st.integers(1, 7), most=st.integers(0, 12))
@settings(max_examples=200, deadline=None)
def test_marks_are_counted_across_pieces(text: str, piece: int, most: int) -> None:
    """Same as counting the whole text, in bytes and in characters, wherever pieces end."""
    whole = sum(text.count(mark) for mark in ",[{") > most
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(depth, "PIECE", piece)
        assert more_marks(text, ",[{", most) is whole
        assert more_marks(text.encode(), ",[{", most) is whole
