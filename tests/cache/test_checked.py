"""An entry that a stranger made, with a digest that fits, is a miss and nothing else."""

from __future__ import annotations

import contextlib
import copy
import sqlite3
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.cache.entries import CacheEntry
from sluicegate.cache.stores import codec
from sluicegate.cache.stores.entry_check import MAX_ENTRY_BYTES, CorruptEntry
from sluicegate.cache.stores.sqlite_store import SqliteStore
from sluicegate.plugins import Answer, CacheKey, TokenLogprob, ToolCall, Usage

KEY = CacheKey("t", "m", "ab" * 32)
LOGPROB = TokenLogprob(5, "a", b"a", -0.5, ((6, "b", b"b", -1.0),))
KEPT = CacheEntry(
    (
        Answer(0, "hello", "stop", (LOGPROB,)),
        Answer(1, "", "tool_calls", reasoning="why", tool_calls=(ToolCall("c", "f", "{}"),), closed="length"),
    ),
    1.0,
    ("tag:a",),
    Usage(3, 4),
)
ENTRY = codec.encode(KEY, KEPT, {})
PAYLOAD: dict[str, Any] = orjson.loads(ENTRY[len(codec.MAGIC) + 1 + codec.MARK_BYTES + codec.CHECK_BYTES :])


def forged(payload: Any) -> bytes:
    """Make an entry as whoever knows the layout can make it."""
    head, data = codec.MAGIC + b"\0", orjson.dumps(payload)
    return head + codec._check(KEY, head, data) + data


def with_value(path: tuple[Any, ...], value: Any) -> Any:
    payload = copy.deepcopy(PAYLOAD)
    place = payload
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return payload


def test_what_was_kept_comes_back() -> None:
    assert codec.decode(KEY, ENTRY)[0] == KEPT
    assert codec.decode(KEY, forged(PAYLOAD))[0] == KEPT


PATHS: list[tuple[Any, ...]] = [
    ("a",),
    ("t",),
    ("l",),
    ("u",),
    ("e",),
    ("a", 0),
    *[("a", 0, at) for at in range(4)],
    *[("a", 1, at) for at in range(7)],
    ("a", 0, 3, 0),
    *[("a", 0, 3, 0, at) for at in range(5)],
    ("a", 0, 3, 0, 4, 0),
    *[("a", 0, 3, 0, 4, 0, at) for at in range(4)],
    *[("a", 1, 5, 0, at) for at in range(3)],
    ("u", 0),
    ("u", 1),
    ("l", 0),
]
VALUES = [None, True, -1, 2**62, 1.5, 1e300, "zz", [], [1], {}, {"a": 1}, [[]], ["x"] * 3]


@pytest.mark.parametrize("path", PATHS, ids=str)
def test_a_field_of_another_type_or_past_its_bounds_is_damage(path: tuple[Any, ...]) -> None:
    for value in VALUES:
        try:
            kept, epochs = codec.decode(KEY, forged(with_value(path, value)))
        except CorruptEntry:
            continue
        assert_sound(kept, epochs)


def assert_sound(kept: CacheEntry, epochs: dict[str, str]) -> None:
    """Assert that whatever is let in can be answered with."""
    for answer in kept.answers:
        assert isinstance(answer.text, str)
        assert isinstance(answer.reasoning, str)
        assert 0 <= answer.index < 1024
        assert all(isinstance(p.data, bytes) and p.logprob == p.logprob for p in answer.logprobs)
        assert all(isinstance(c.arguments, str) for c in answer.tool_calls)
    assert 0 <= kept.usage.prompt_tokens <= 10**9
    assert 0 <= kept.usage.completion_tokens <= 10**9
    assert all(isinstance(value, str) for value in epochs.values())


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=7) | st.dictionaries(st.sampled_from("atlue"), inner, max_size=5),
        max_leaves=20,
    ),
    st.sampled_from([(), *PATHS]),
)
def test_any_json_is_an_entry_or_damage(value: Any, path: tuple[Any, ...]) -> None:
    with contextlib.suppress(CorruptEntry):
        assert_sound(*codec.decode(KEY, forged(with_value(path, value) if path else value)))


@pytest.mark.parametrize("data", [None, "text", 7, 1.5, b"", b"SG1", b"SG1\xff", b"\0" * (MAX_ENTRY_BYTES + 1)])
def test_what_is_no_bytes_or_too_many_is_damage(data: object) -> None:
    with pytest.raises(CorruptEntry):
        codec.decode(KEY, data)
    with pytest.raises(CorruptEntry):
        codec.decode_row("t", "s", data)


ROWS = [
    "garbage",
    7,
    1.5,
    b"",
    b"SG1\xff",
    b"x" * (MAX_ENTRY_BYTES + 1),
    forged([1, 2]),
    forged(with_value(("u",), [1])),
]


@pytest.mark.parametrize("body", ROWS, ids=range(len(ROWS)))
async def test_a_row_that_somebody_edited_is_a_miss_and_no_failure(tmp_path: Path, body: object) -> None:
    """A store whose rows are strange works on; only one that does not answer is left alone."""
    store = SqliteStore(tmp_path / "cache.db", 1 << 26, 60.0, deadline_s=30.0)
    await store.put(KEY, KEPT, None)
    with sqlite3.connect(tmp_path / "cache.db") as db:
        db.execute("update entries set body = ?, used_s = 'never', size = 9223372036854775807", (body,))
        db.execute("insert into epochs values (cast(x'ff' as text), cast(x'ff' as text), 'x')")
        db.execute("insert into rows (tenant, scope, data, expires_s) values ('t', 's', ?, 9e9)", (body,))
    for _ in range(5):
        assert (await store.get(KEY)).kept is None
    stats = store.stats()
    assert (stats["damaged_total"], stats["errors_total"], stats["open"]) == (5, 0, 0)
    for number in range(20):  # room is made past a size that nobody can add up
        await store.put(CacheKey("t", "m", f"{number:064x}"), KEPT, None)
    assert (await store.get(CacheKey("t", "m", f"{19:064x}"))).kept == KEPT
    assert store.stats()["errors_total"] == 0
    await store.close()
