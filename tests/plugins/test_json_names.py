"""A name that stands twice in one object is found wherever it stands, and in nothing else."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.plugins.json_names import DuplicateName, check_once

NAMES = ['"a"', '"a:"', '"b"', r'"\u0061"', r'"a\u003a"', r'"a\u003A"', '"é"', r'"\\u003a"']
LEAVES = ['"x:y"', '":"', r'"\u003a"', r'"\\u003a:"', r'"\":"', "1", "-0.5", "null", "18446744073709551616"]


def objects(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    member = st.tuples(st.sampled_from(NAMES), st.sampled_from([":", " : "]), parts).map("".join)
    return st.lists(member, max_size=4).map(lambda members: "{" + ",".join(members) + "}")


TEXTS = st.recursive(
    st.sampled_from(LEAVES),
    lambda parts: objects(parts) | st.lists(parts, max_size=3).map(lambda found: "[" + ", ".join(found) + "]"),
    max_leaves=12,
)


@pytest.mark.parametrize("levels", [100, 253, 1000])
def test_depth_is_no_way_around(levels: int) -> None:
    """Of what is kept its reader judges the depth; what a double hides is looked at here alone."""
    deep = "[" * levels + "]" * levels
    hidden = f'{{"a": {deep}, "a": 1}}'
    with pytest.raises(ValueError, match=r"stands twice|too deeply"):
        check_once(orjson.loads(hidden), hidden)
    check_once(orjson.loads(f'{{"a": {deep}}}'), f'{{"a": {deep}}}')


def has_doubles(text: str) -> bool:
    """Find them the slow, obvious way."""
    found: list[bool] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        found.append(len({name for name, _ in pairs}) < len(pairs))

    json.loads(text, object_pairs_hook=note)
    return any(found)


@given(TEXTS)
def test_doubles_are_found_and_nothing_else(text: str) -> None:
    for spelled in (text, text.encode()):
        if has_doubles(text):
            with pytest.raises(DuplicateName):
                check_once(orjson.loads(text), spelled)
        else:
            check_once(orjson.loads(text), spelled)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a": 1, "a": 2}', "a"),
        ('{"a": {"x": [{"b": 1, "b": 2}]}}', "a.x[0].b"),
        ('{"a": {"b": 1, "b": 2}, "a": 3}', "a"),
        ('{"messages": 1, "\\u006dessages": 2}', "messages"),
        ("[" + '{"' + "n" * 5000 + '": 1, "' + "n" * 5000 + '": 2}]', "[0]." + "n" * 64),
    ],
)
def test_the_place_is_named(text: str, path: str) -> None:
    with pytest.raises(DuplicateName) as caught:
        check_once(orjson.loads(text), text)
    assert caught.value.path == path
    assert f"`{path}` stands twice" in str(caught.value)
