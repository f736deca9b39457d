"""Items of an array that are read once."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.grammar import Vocabulary, compile_json_schema
from sluicegate.grammar.reading.array_items import NO_ITEM, ArrayItems
from sluicegate.grammar.schema.constants import canonical

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, -1.0, "", "ä", '"],', "日本"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=4,
)


def read_anew(array: bytes) -> tuple[set[Any], Any]:
    """Read the array as the slow twin: return all items of the text, and the last one where no comma follows it."""
    text = array.rstrip(b" \t\r\n")
    items = [canonical(item) for item in json.loads((text[:-1] if text.endswith(b",") else text) + b"]")]
    last = NO_ITEM if text.endswith((b",", b"[")) else items.pop()
    return set(items), last


def beginnings(values: list[Any], blank: str) -> list[bytes]:
    """Return texts of an array that end with an item or behind a comma."""
    found, text = [b"["], "["
    for value in values:
        text += blank + json.dumps(value, ensure_ascii=False)
        found.append(text.encode())
        text += blank + ","
        found.append(text.encode())
    return found


@given(st.lists(st.lists(VALUES, max_size=5), min_size=1, max_size=4), st.data())
def test_what_is_kept_is_what_is_read_anew_wherever_the_text_went_back_to(
    arrays: list[list[Any]], data: st.DataObject
) -> None:
    texts = [text for values in arrays for blank in ("", " ") for text in beginnings(values, blank)]
    kept = ArrayItems()
    for text in data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=12)):
        last = kept.read(text)
        assert (set(kept.places), last) == read_anew(text)


def test_a_number_that_goes_on_is_another_item() -> None:
    kept = ArrayItems()
    assert kept.read(b"[1,1") == 1
    assert 1 in kept.places
    assert kept.read(b"[1,12") == 12
    assert 12 not in kept.places
    assert kept.read(b"[1,12,") is NO_ITEM
    assert set(kept.places) == {1, 12}


def test_what_breaks_off_loses_nothing() -> None:
    kept = ArrayItems()
    with pytest.raises(ValueError, match="Expecting value"):
        kept.read(b"[1,2,x,")
    assert kept.read(b"[1,2,3") == 3
    assert set(kept.places) == {1, 2}


def test_items_of_a_long_array_are_compared_after_a_rollback() -> None:
    """The mask behind an item that was taken back is the one before it."""
    vocabulary = Vocabulary.from_bytes([*(bytes([byte]) for byte in range(256)), b""], eos_token_ids=[256])
    schema = {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}
    matcher = compile_json_schema(schema, vocabulary).matcher()
    row, again = np.zeros(vocabulary.row_words, np.int32), np.zeros(vocabulary.row_words, np.int32)
    for byte in b"[10,11,12,1":
        matcher.accept(byte)
    matcher.fill_mask(row)
    assert row[ord("3") // 32] >> (ord("3") % 32) & 1
    for byte in b"3,1":
        matcher.accept(byte)
    matcher.fill_mask(again)
    assert again[ord(",") // 32] >> (ord(",") % 32) & 1
    matcher.accept(ord("3"))
    matcher.fill_mask(again)
    assert not again[ord("]") // 32] >> (ord("]") % 32) & 1
    matcher.rollback(4)
    matcher.fill_mask(again)
    assert (row == again).all()
