"""Small rules of the cache at their borders: who is counted as what, what is read back, and what is kept of whom."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sluicegate.cache import MemoryCache, MemoryStore, SingleFlight, SqliteStore, TieredCache, canonical
from sluicegate.cache.entries import CacheEntry, IndexRow, labels_of
from sluicegate.cache.lookup import CacheQuestion
from sluicegate.cache.semantic import CallableEmbedder, HashedNgrams, index
from sluicegate.cache.semantic.index import Partition
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.cache.semantic.verified import SAMPLES, VerifiedMode, confident_share, same_answers
from sluicegate.cache.stores.codec import HEAD_BYTES, decode, decode_row, encode, encode_row, has_label, mark
from sluicegate.cache.stores.memory import entry_bytes
from sluicegate.cache.stores.redis_client import _parts, _place
from sluicegate.plugins import Answer, CacheKey, Caller, ConfigurationError, TokenLogprob, ToolCall, Usage
from tests.cache.examples import ANSWERS, answer, asked
from tests.cache.test_stage import build
from tests.waiting import soon

KEY = CacheKey("t", "m", "ab" * 32)


# --- equal requests at once ----------------------------------------------------------------------------------------


async def test_how_each_wait_ended_is_counted() -> None:
    """One follower gets the answers, one the lead, one goes on alone: three different counters."""
    flights: SingleFlight[str] = SingleFlight()
    for end, counted in (("land", "shared_total"), ("abandon", "promoted_total"), ("release", "released_total")):
        leader = await flights.join(KEY)
        follower = asyncio.create_task(flights.join(KEY))
        await soon(lambda: flights.stats()["followers_waiting"] == 1)
        before = flights.stats().get(counted, 0)
        leader.land("x") if end == "land" else leader.release() if end == "release" else leader.abandon()
        seat = await follower
        assert flights.stats()[counted] == before + 1
        assert seat.role == {"land": "follows", "abandon": "leads", "release": "alone"}[end]
        seat.abandon()
    assert flights.stats() == {
        "led_total": 3, "shared_total": 1, "promoted_total": 1, "impatient_total": 0, "released_total": 1,
        "in_flight": 0, "followers_waiting": 0,
    }  # fmt: skip


async def test_a_seat_that_does_not_lead_ends_no_flight() -> None:
    flights: SingleFlight[str] = SingleFlight(patience_s=0.01)
    leader = await flights.join(KEY)
    alone = await flights.join(KEY)
    assert alone.role == "alone"
    alone.land("mine")
    alone.release()
    alone.abandon()
    assert flights.stats()["in_flight"] == 1
    leader.land("x")


async def test_who_lost_patience_is_not_promoted() -> None:
    flights: SingleFlight[str] = SingleFlight(patience_s=0.01)
    leader = await flights.join(KEY)
    assert (await flights.join(KEY)).role == "alone"
    leader.abandon()
    assert flights.stats()["in_flight"] == 0


# --- keys ----------------------------------------------------------------------------------------------------------


def test_names_and_sets_have_one_order() -> None:
    """Whatever the order in which they came, and whatever the process hashes texts to."""
    assert canonical({"b": 1, "a": {"d": (1, 2), "c": None}}) == b'{"a":{"c":null,"d":[1,2]},"b":1}'
    assert canonical(frozenset("zyxwvuts")) == b'["s","t","u","v","w","x","y","z"]'
    assert canonical([True, 1.5, "é"]) == b'[true,1.5,"\\u00e9"]'


# --- entries as bytes ----------------------------------------------------------------------------------------------


def test_a_head_tells_which_labels_an_entry_has() -> None:
    labels = ("tag:a", "tag:b", "rails:r")
    entry = encode(KEY, CacheEntry(ANSWERS, 1.0, labels), {})
    for head in (entry, entry[:HEAD_BYTES]):
        assert [has_label(head, mark(name)) for name in (*labels, "tag:c", "tag:")] == [True] * 3 + [False] * 2
    bare = encode(KEY, CacheEntry(ANSWERS, 1.0), {})
    assert not has_label(bare, mark("tag:a"))
    assert not has_label(bare[:4], mark("tag:a"))
    assert all(has_label(odd, mark("tag:a")) for odd in (None, "SG1", b"", b"SG1", b"SG2" + entry[3:]))


def test_an_answer_keeps_every_field() -> None:
    """Short where nothing but the text was said, and whole where anything was."""
    for named in (
        {},
        {"reasoning": "r"},
        {"tool_calls": (ToolCall("c", "f", "{}"),)},
        {"closed": "repetition"},
        {"stopped_by": "x"},
    ):
        kept = CacheEntry((Answer(0, "a", "stop", **named),), 1.0)
        store = encode(KEY, kept, {"tag:x": "9"})
        assert decode_whole(store) == kept


def decode_whole(data: bytes) -> CacheEntry:
    return decode(KEY, data)[0]


@pytest.mark.parametrize("dim", [1, 2, 64])
def test_a_row_comes_back(dim: int) -> None:
    vector = np.zeros(dim, np.float32)
    vector[0] = 1
    row = decode_row("t", "s", encode_row("t", "s", IndexRow("cd" * 32, 2**64 - 1, vector)))
    assert (row.digest, row.facts, row.vector.tolist()) == ("cd" * 32, 2**64 - 1, vector.tolist())


@pytest.mark.parametrize("length", [0.0, 0.94, 1.06, math.nan])
def test_a_row_of_no_unit_vector_is_damage(length: float) -> None:
    data = encode_row("t", "s", IndexRow("cd" * 32, 1, np.array([length, 0], np.float32)))
    with pytest.raises(ValueError, match="unit vector"):
        decode_row("t", "s", data)
    with pytest.raises(ValueError, match="cut short"):
        decode_row("t", "s", data[:-1])
    with pytest.raises(ValueError, match="cut short"):
        decode_row("t", "s", data[:43])


# --- stores --------------------------------------------------------------------------------------------------------


def test_what_an_entry_takes_is_told_by_its_parts() -> None:
    def taken(*answers: Answer) -> int:
        return entry_bytes(CacheKey("", "", ""), answers) - entry_bytes(CacheKey("", "", ""), ())

    logprob = TokenLogprob(1, "a", b"a", -1.0, ((2, "b", b"b", -2.0),) * 3)
    assert entry_bytes(CacheKey("te", "mod", "dige"), ()) == entry_bytes(CacheKey("", "", ""), ()) + 9
    assert taken(answer("x" * 7)[0]) == 7
    assert taken(answer("é" * 7)[0]) == 28
    assert taken(answer("x")[0], answer("y")[0]) == 2
    assert taken(Answer(0, "x", "stop", reasoning="yy", tool_calls=(ToolCall("id", "f", "{}"),))) == 6
    assert taken(Answer(0, "", "stop", (logprob, logprob))) == 8 * taken(
        Answer(0, "", "stop", (TokenLogprob(1, "", b"", 0.0, ()),))
    )


async def test_the_budget_is_used_to_the_last_byte() -> None:
    keys = [CacheKey("t", "m", f"{n}") for n in range(3)]
    size = entry_bytes(keys[0], answer("x" * 500))
    cache = MemoryCache(2 * size, 60)
    for key in keys[:2]:
        await cache.store(key, answer("x" * 500))
    assert cache.stats() | {"bytes": 2 * size, "entries": 2, "evicted_total": 0} == cache.stats()
    await cache.store(keys[0], answer("y" * 500))  # the same size in its place
    assert cache.stats() | {"bytes": 2 * size, "entries": 2, "evicted_total": 0} == cache.stats()
    await cache.store(keys[2], answer("x" * 500))
    assert cache.stats() | {"bytes": 2 * size, "entries": 2, "evicted_total": 1} == cache.stats()
    assert await cache.look_up(keys[1]) is None


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    return (
        MemoryStore(10_000_000, 60)
        if request.param == "memory"
        else SqliteStore(tmp_path / "a.db", 1 << 20, 60, deadline_s=10)
    )


async def test_hits_misses_and_what_is_kept_are_counted_apart(store: Any) -> None:
    names = ("hits_total", "misses_total", "stored_total", "refused_total")

    def counts() -> list[float]:
        return [store.stats()[name] for name in names]

    assert (await store.get(KEY)).kept is None
    assert counts() == [0, 1, 0, 0]
    epochs = (await store.get(KEY)).epochs
    assert await store.put(KEY, CacheEntry(ANSWERS, 1.0), epochs)
    assert counts() == [0, 2, 1, 0]
    assert (await store.get(KEY)).kept is not None
    assert counts() == [1, 2, 1, 0]
    assert not await store.put(CacheKey("t", "m", "ef" * 32), CacheEntry((Answer(0, "cut", "length"),), 1.0), epochs)
    assert counts() == [1, 2, 1, 1]
    await store.drop(KEY)
    assert (await store.get(KEY)).kept is None
    await store.drop(KEY)


async def test_a_purge_of_one_tenant_leaves_the_epochs_of_another(store: Any) -> None:
    """And one for all counts for each, whoever purged before."""
    other = CacheKey("u", "m", "cd" * 32)
    kept = CacheEntry(ANSWERS, 1.0, ("tag:a",))
    for key in (KEY, other):
        assert await store.put(key, kept, (await store.get(key)).epochs)
    assert await store.purge("t", "tag:b") == 0
    assert await store.purge("t", "tag:a") == 1
    assert (await store.get(KEY)).kept is None
    assert (await store.get(other)).kept == kept
    late = (await store.get(KEY)).epochs
    assert await store.purge(None, "tag:a") == 1
    assert (await store.get(other)).kept is None
    await store.put(KEY, kept, late)
    assert (await store.get(KEY)).kept is None, "it was made before the purge"
    assert await store.put(KEY, kept, (await store.get(KEY)).epochs)
    assert (await store.get(KEY)).kept == kept


# --- by meaning ----------------------------------------------------------------------------------------------------


def tier(*models: str, **named: Any) -> SemanticTier:
    return SemanticTier(HashedNgrams(64), models=models, **named)


def test_whose_requests_are_answered_by_meaning_without_asking() -> None:
    store = MemoryStore(1_000_000, 60)
    assert not TieredCache(store).is_semantic
    assert not TieredCache(store).is_semantic_for("a")
    assert TieredCache(store, tier()).is_semantic
    assert not TieredCache(store, tier()).is_semantic_for("a")
    assert TieredCache(store, tier("a")).is_semantic_for("a")
    assert not TieredCache(store, tier("a")).is_semantic_for("b")
    assert TieredCache(store, tier("*")).is_semantic_for("b")


async def test_questions_that_cannot_be_compared_pass_by_the_rows_that_are_there() -> None:
    """Code has no signature and a question may have no text: neither meets a row, and neither leaves one."""
    cache = TieredCache(MemoryStore(1_000_000, 60), tier())
    question = asked(semantic=True)
    assert await cache.remember(question, ANSWERS, await cache.recall(question))
    assert cache.stats()["semantic_rows"] == 1
    for odd in (asked("def f(x):\n    return x", semantic=True), asked("other", semantic=False)):
        recall = await cache.recall(odd)
        assert (recall.found, recall.probe, recall.trial) == (None, None, None)
        assert await cache.remember(odd, ANSWERS, recall)
    assert cache.stats() | {"semantic_rows": 1, "embedder_errors_total": 0} == cache.stats()
    assert cache.stats() | {"exact_hits_total": 0, "misses_total": 3, "stored_total": 3} == cache.stats()


async def test_an_answer_that_was_found_is_not_kept_again() -> None:
    cache = TieredCache(MemoryStore(1_000_000, 60))
    question = CacheQuestion(KEY)
    recall = await cache.recall(question)
    assert await cache.remember(question, ANSWERS, recall, Usage(5, 2))
    again = await cache.recall(question)
    assert not await cache.remember(question, ANSWERS, again)
    assert not await cache.remember(question, (), recall)
    assert cache.stats() | {"refused_total": 2, "exact_hits_total": 1, "saved_tokens_total": 7} == cache.stats()


async def test_a_purge_by_label_leaves_the_rows_and_one_of_all_takes_them() -> None:
    cache = TieredCache(MemoryStore(1_000_000, 60), tier())
    question = asked(semantic=True, tags=["t"])
    caller = Caller("acme")
    await cache.remember(question, ANSWERS, await cache.recall(question))
    await cache.purge(caller, tenant="acme", label="tag:t")
    assert cache.stats()["semantic_rows"] == 1
    await cache.purge(caller, tenant="acme")
    assert cache.stats()["semantic_rows"] == 0


def test_the_oldest_row_goes_first_however_often_it_comes_round() -> None:
    partition = Partition(16, 3)
    axes = np.eye(16, dtype=np.float32)
    for place in range(12):
        partition.add(IndexRow(str(place), 1, axes[place]))
        here = {n for n in range(16) if partition.nearest(axes[n], 1, 0.5) is not None}
        assert here == set(range(max(0, place - 2), place + 1))
        assert len(partition) == min(3, place + 1)


def test_the_partition_used_longest_ago_goes_when_there_are_too_many_rows() -> None:
    rows = tier(max_rows=4)
    vector = np.zeros(64, np.float32)
    vector[0] = 1
    for scope in "abc":
        for number in range(2):
            rows.add(("t", scope), IndexRow(f"{scope}{number}", 1, vector))
    assert rows.stats() | {"rows": 4, "scopes": 2} == rows.stats()
    rows.add(("t", "b"), IndexRow("b0", 1, vector))  # the same digest: no more rows than before
    rows.add(("t", "d"), IndexRow("d0", 1, vector))
    assert rows.stats() | {"rows": 3, "scopes": 2} == rows.stats()
    rows.forget("t", "b0")
    assert rows.stats()["rows"] == 2
    rows.forget("u", "b1")
    rows.forget("t", "b1", "other")
    assert rows.stats()["rows"] == 2
    rows.clear("u")
    assert rows.stats()["rows"] == 2
    rows.clear("t")
    assert rows.stats() | {"rows": 0, "scopes": 0} == rows.stats()


@pytest.mark.parametrize(("right", "n"), [(1, 1), (5, 5), (45, 50), (10, 20), (1, 30), (199, 200)])
def test_the_confident_share_is_where_chernoffs_bound_meets_the_confidence(right: int, n: int) -> None:
    """Against a scan over a million shares."""
    e, share = 1 / (n + 2), right / n
    p = np.linspace(1e-9, share, 1_000_001)[:-1]
    divergence = share * np.log(share / p)
    if right < n:
        divergence += (1 - share) * np.log((1 - share) / (1 - p))
    lowest = float(p[np.argmax(n * divergence <= -math.log(e))])
    assert confident_share(right, n) == pytest.approx((1 - e) * lowest, abs=3e-6)


def test_only_what_was_learned_of_an_entry_and_lately_counts() -> None:
    verified = VerifiedMode(0.05, max_entries=2)
    for _ in range(SAMPLES):
        verified.learn("a", 0.9, False, 0.05)
    assert verified.chance("a", 0.9) < 0.05
    for _ in range(SAMPLES):
        verified.learn("a", 0.9, True, 0.05)
    assert verified.chance("a", 0.9) > 0.6
    assert verified.chance("b", 0.9) == pytest.approx(0.05 / 1.05)
    verified.learn("b", 0.9, True, 0.05)
    verified.learn("a", 0.9, True, 0.05)
    verified.learn("c", 0.9, True, 0.05)  # one too many: "b" was learned of longest ago
    assert verified.chance("a", 0.9) > 0.6
    verified.forget("a")
    assert verified.chance("a", 0.9) == pytest.approx(0.05 / 1.05)


def test_one_answer_more_or_less_is_another_answer() -> None:
    assert same_answers(answer("a") + answer("b"), answer("a") + answer("B"))
    assert not same_answers(answer("a") + answer("b"), answer("a") + answer("c"))
    assert not same_answers(answer("a"), answer("a") + answer("b"))


@pytest.mark.parametrize("made", [[[1.0, 0.0]], [1.0, 0.0, 0.0], [math.inf, 0.0], ["a", "b"], []])
async def test_an_embedder_answers_one_vector_of_its_size_or_fails(made: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        await CallableEmbedder("odd", 2, lambda _: made).embed("text")


# --- settings ------------------------------------------------------------------------------------------------------


def test_a_search_by_the_server_needs_vectors_in_clear(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHE_SECRET", "ab" * 32)
    pytest.importorskip("cryptography", reason="pip install 'sluicegate[encryption]'")
    build("redis", {"search": "process", "secret_env": "CACHE_SECRET"})
    with pytest.raises(ConfigurationError, match="vectors in clear"):
        build("redis", {"search": "server", "secret_env": "CACHE_SECRET"})
    with pytest.raises(ConfigurationError, match="nowhere"):
        build("redis", {"search": "nowhere"})


@pytest.mark.parametrize("models", ["a", [1], ["a", 5], {"a": 1}])
def test_models_are_a_list_of_names(models: Any) -> None:
    with pytest.raises(ConfigurationError, match="models"):
        build("memory", {"semantic": {"models": models}})


@pytest.mark.parametrize("value", [True, "1", -1, 0, None])
def test_a_number_is_a_number_above_nothing(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="ttl_s"):
        build("memory", {"ttl_s": value})
    made = build("memory", {"ttl_s": 1, "semantic": {"threshold": 1, "models": ["a"]}})
    assert isinstance(made, TieredCache)
    assert made.is_semantic_for("a")


def test_hosts_are_read_with_their_ports() -> None:
    read = {"a": ("a", 6379), "a:7": ("a", 7), "[::1]": ("[::1]", 6379), "[::1]:7": ("[::1]", 7), "": ("", 6379)}
    assert {place: _place(place) for place in read} == read
    assert _parts("u%40:p%3a@a:1,b/3?x") == ({"username": "u@", "password": "p:"}, [("a", 1), ("b", 6379)], "3")
    assert _parts("a") == ({}, [("a", 6379)], "")


@pytest.mark.parametrize("tags", [1, 29, 32])
def test_as_many_tags_as_may_be_asked_for_can_be_read_back(tags: int) -> None:
    labels = labels_of("v", "t", "r", [f"tag-{n}" for n in range(tags)])
    assert decode(KEY, encode(KEY, CacheEntry(ANSWERS, 1.0, labels), {}))[0].labels == labels


def test_the_best_of_more_rows_than_are_computed_is_among_them() -> None:
    """Twice as many candidates as are looked at exactly; the nearest comes first and last in the partition."""
    random = np.random.default_rng(3)
    count = 2 * index.MOST + 5
    centre = np.zeros(32, np.float32)
    centre[0] = 1
    rows = centre + 0.02 * random.standard_normal((count, 32)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    for best in (0, count - 1):
        rows[[best, (best + 7) % count]] = centre, rows[best]
        partition = Partition(32, count)
        for place, row in enumerate(rows):
            partition.add(IndexRow(str(place), 1, row))
        near = partition.nearest(centre, 1, 0.5)
        assert near is not None
        assert near.score == pytest.approx(1.0, abs=2e-3)
        rows[best] = rows[(best + 7) % count]
