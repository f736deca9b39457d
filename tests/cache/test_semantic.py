"""By meaning: exact nearest rows, the error bound, and what the tier serves. For the guard see `test_facts`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from statistics import mean, stdev
from typing import Any

import numpy as np
import pytest

from sluicegate.cache import MemoryStore, RedisStore, SqliteStore, TieredCache
from sluicegate.cache.entries import IndexRow
from sluicegate.cache.semantic import CallableEmbedder, HashedNgrams
from sluicegate.cache.semantic.index import Partition, rotation
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.cache.semantic.verified import VerifiedMode, confident_share, same_answers
from sluicegate.plugins import Answer, Caller, Usage
from tests.cache.examples import answer, asked
from tests.cache.redis_server import RedisServer, needs_redis

# --- the nearest row -----------------------------------------------------------------------------------------------


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return (rows / np.linalg.norm(rows, axis=-1, keepdims=True)).astype(np.float32)


@pytest.mark.parametrize("count", [1, 50, 5000])
@pytest.mark.parametrize("spread", [0.05, 0.5, 5.0])
def test_the_nearest_row_is_that_of_a_full_scan(count: int, spread: float) -> None:
    """Close clusters, loose ones and noise; against the plain product of all rows."""
    random = np.random.default_rng(5)
    centres = random.standard_normal((max(1, count // 20), 64))
    rows = unit(centres[random.integers(0, len(centres), count)] + spread * random.standard_normal((count, 64)))
    partition = Partition(64, count)
    for place, row in enumerate(rows):
        partition.add(IndexRow(f"{place}", 7, row))
    for place in random.integers(0, count, 40):
        query = unit(rows[place] + 0.1 * random.standard_normal(64))
        cosines = rows @ query
        for floor in (-1.0, 0.3, 0.9):
            near = partition.nearest(query, 7, floor)
            if float(cosines.max()) < floor - 2e-3:
                assert near is None
            elif near is not None:
                assert near.score == pytest.approx(float(cosines.max()), abs=2e-3)
            else:
                assert float(cosines.max()) < floor + 2e-3
    assert partition.nearest(query, 8, -1.0) is None


@pytest.mark.parametrize("spread", [0.05, 0.5, 5.0])
def test_the_nearest_few_rows_are_those_of_a_full_scan(spread: float) -> None:
    random = np.random.default_rng(6)
    centres = random.standard_normal((40, 64))
    rows = unit(centres[random.integers(0, 40, 800)] + spread * random.standard_normal((800, 64)))
    partition = Partition(64, 800)
    for place, row in enumerate(rows):
        partition.add(IndexRow(f"{place}", place % 2, row))
    for place in range(0, 800, 40):
        query = unit(rows[place] + 0.1 * random.standard_normal(64))
        highest = sorted((rows[::2] @ query).tolist(), reverse=True)[:12]
        found = partition.nearest_few(query, 0, -1.0, 12)
        assert [near.score for near in found] == pytest.approx(highest, abs=2e-3)
        assert all(int(near.digest) % 2 == 0 for near in found)
        assert len({near.digest for near in found}) == 12


def test_a_partition_replaces_forgets_and_overwrites_its_oldest() -> None:
    partition = Partition(8, 3)
    axes = np.eye(8, dtype=np.float32)
    for place in range(3):
        partition.add(IndexRow(str(place), 1, axes[place]))
    partition.add(IndexRow("1", 1, axes[5]))
    assert len(partition) == 3
    assert partition.nearest(axes[1], 1, 0.5) is None
    near = partition.nearest(axes[5], 1, 0.5)
    assert near is not None
    assert near.digest == "1"
    partition.add(IndexRow("3", 1, axes[3]))
    assert partition.nearest(axes[0], 1, 0.5) is None, "the oldest went"
    partition.remove("3")
    partition.remove("nobody")
    assert len(partition) == 2
    assert partition.nearest(axes[3], 1, 0.5) is None
    assert partition.nearest(axes[5], 1, 0.5, without=["1"]) is None
    partition.add(IndexRow("odd", 1, np.ones(3, np.float32)))
    assert len(partition) == 2


def test_a_partition_behaves_as_a_dictionary_would() -> None:
    random, partition, known = Random(4), Partition(8, 50), {}
    axes = unit(np.random.default_rng(1).standard_normal((80, 8)))
    for _ in range(3000):
        number = random.randrange(40)
        if random.random() < 0.5:
            partition.add(IndexRow(str(number), number, axes[number]))
            known[number] = True
        else:
            partition.remove(str(number))
            known.pop(number, None)
        assert len(partition) == len(known)
        near = partition.nearest(axes[number], number, 0.9)
        assert (near is not None) is (number in known)


def test_the_rotation_keeps_cosines() -> None:
    turned = rotation(64)
    assert np.allclose(turned @ turned.T, np.eye(64), atol=1e-5)


# --- embedders -----------------------------------------------------------------------------------------------------


async def test_the_embedded_default_makes_unit_vectors_of_any_text() -> None:
    embedder = HashedNgrams()
    for text in ("", "?", "hello", "héllo wörld", "x" * 5000):
        vector = await embedder.embed(text)
        assert vector.shape == (embedder.dim,)
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("made", [[1.0], [float("nan")] * 4, "text", None])
async def test_an_embedder_that_answers_nonsense_costs_only_the_hit(made: Any) -> None:
    tier = SemanticTier(CallableEmbedder("odd", 4, lambda _: made))
    cache = TieredCache(MemoryStore(1_000_000, 60), tier)
    recall = await cache.recall(asked(semantic=True))
    assert recall.found is None
    assert await cache.remember(asked(semantic=True), answer("x"), recall)
    assert (await cache.recall(asked(semantic=True))).found is not None, "exact answers go on"
    assert cache.stats()["embedder_errors_total"] == 1


# --- the error bound -----------------------------------------------------------------------------------------------


def test_the_lower_limit_is_below_the_share_and_rises_with_evidence() -> None:
    limits = [confident_share(n, n) for n in (1, 5, 20, 100, 200)]
    assert limits == sorted(limits)
    assert confident_share(0, 50) == 0
    assert confident_share(45, 50) < 0.9
    assert confident_share(100, 100) > 0.93


@pytest.mark.parametrize("right", [0.2, 0.9, 0.97, 1.0])
@pytest.mark.parametrize("bound", [0.02, 0.1])
def test_the_share_of_wrong_answers_stays_within_the_bound(right: float, bound: float) -> None:
    """400 prompts to each of 75 entries that are right with a fixed chance."""
    random = Random(int(right * 100) + int(bound * 1000))
    verified = VerifiedMode(bound, random=random)
    wrong = served = 0
    for entry in range(75):
        for _ in range(400):
            is_right = random.random() < right
            chance = verified.decide(str(entry), 0.9)
            if chance is None:
                served += 1
                wrong += not is_right
            else:
                verified.learn(str(entry), 0.9, is_right, chance)
    assert wrong / 30_000 <= bound
    if right == 1.0:
        assert served / 30_000 > 0.4


def right_far_wrong_near(random: Random) -> list[tuple[float, bool]]:
    """Return prompts as hashed n-grams see them: near misses are nearer than paraphrases."""
    far = [(random.uniform(0.2, 0.4), True) for _ in range(600)]
    near = [(random.uniform(0.5, 0.9), False) for _ in range(400)]
    return random.sample(far + near, 1000)


def right_at_first(random: Random) -> list[tuple[float, bool]]:
    return [(random.uniform(0.3, 0.9), at < 150) for at in range(300)]


def right_for_long(random: Random) -> list[tuple[float, bool]]:
    return [(random.uniform(0.3, 0.9), at < 900) for at in range(1000)]


@pytest.mark.parametrize("prompts", [right_far_wrong_near, right_at_first, right_for_long])
@pytest.mark.parametrize("bound", [0.02, 0.05, 0.1])
def test_the_bound_holds_whatever_prompts_find_an_entry(
    prompts: Callable[[Random], list[tuple[float, bool]]], bound: float
) -> None:
    """Where a bad judge lets everything through: near misses that are nearer, or come when all was right. Of the share,
    whose mean is bounded, three standard errors are allowed."""
    shares = []
    for seed in range(60):
        random = Random(seed)
        verified, asked = VerifiedMode(bound, random=random), prompts(random)
        wrong = 0
        for score, right in asked:
            chance = verified.decide("e", score)
            if chance is None:
                wrong += not right
            else:
                verified.learn("e", score, right, chance)
        shares.append(wrong / len(asked))
    assert mean(shares) <= bound + 3 * stdev(shares) / 60**0.5
    assert mean(shares) <= 1.1 * bound


def test_a_trial_without_an_answer_counts_as_wrong() -> None:
    """What was let through and never learned of: cut off, blocked, failed."""
    verified = VerifiedMode(0.1, random=Random(1))
    told(verified, 200, 0.9)
    before = verified.chance("e", 0.9)
    while verified.decide("e", 0.9) is None:
        pass
    assert verified.chance("e", 0.9) < before


def told(verified: VerifiedMode, count: int, score: float) -> None:
    """Let an entry be found `count` times and be right each time."""
    for _ in range(count):
        chance = verified.decide("e", score)
        if chance is not None:
            verified.learn("e", score, True, chance)


def test_samples_of_nearer_prompts_say_nothing_about_farther_ones() -> None:
    verified = VerifiedMode(0.05)
    told(verified, 400, 0.95)
    assert verified.chance("e", 0.96) > 0.9
    assert verified.chance("e", 0.90) == pytest.approx(0.05)


def test_answers_are_the_same_as_json_or_but_for_white_space() -> None:
    assert same_answers(answer('{"a": 1, "b": 2}'), answer('{"b":2,"a":1}'))
    assert same_answers(answer("Yes,  it is"), answer("yes, it is"))
    assert not same_answers(answer("1"), answer("1.5"))
    assert not same_answers(answer("a"), (Answer(0, "a", "stop"), Answer(1, "a", "stop")))


# --- the tier ------------------------------------------------------------------------------------------------------

KINDS = ["memory", "sqlite", pytest.param("redis", marks=needs_redis)]


@pytest.fixture(params=KINDS)
async def gateways(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[TieredCache]]:
    """Make two caches that share a store, or take the same one twice."""
    made, server = [], None
    if request.param == "memory":
        made = [TieredCache(MemoryStore(10_000_000, 60), SemanticTier(HashedNgrams()))] * 2
    elif request.param == "sqlite":
        stores: list[Any] = [SqliteStore(tmp_path / "a.db", 10_000_000, 60, deadline_s=2) for _ in range(2)]
        made = [TieredCache(store, SemanticTier(HashedNgrams())) for store in stores]
    else:
        server = RedisServer(tmp_path)
        server.start()
        stores = [RedisStore(server.url, 60, deadline_s=30) for _ in range(2)]
        made = [TieredCache(store, SemanticTier(HashedNgrams())) for store in stores]
    yield made
    for cache in made:
        await cache.close()
    if server is not None:
        server.kill()


async def keep(cache: TieredCache, text: str, said: str, **named: Any) -> None:
    question = asked(text, semantic=True, **named)
    assert await cache.remember(question, answer(said), await cache.recall(question), Usage(7, 3))


async def found(cache: TieredCache, text: str, **named: Any) -> Any:
    return (await cache.recall(asked(text, **({"semantic": True} | named)))).found


async def test_a_rewording_is_served_with_score_and_age(gateways: list[TieredCache]) -> None:
    one, other = gateways
    await keep(one, "How do I reset my password?", "so")
    hit = await found(other, "Can you tell me how to reset my password, please?")
    assert hit.answers == answer("so")
    assert hit.kind == "semantic"
    assert 0.4 <= hit.score < 1
    assert hit.headers()["x-sluicegate-cache"].startswith("semantic; score=0.")
    assert hit.usage == Usage(7, 3)
    assert await found(other, "Can you tell me how to reset my router, please?") is None


async def test_equal_wordings_are_served_however_few_words_the_questions_share(gateways: list[TieredCache]) -> None:
    one, other = gateways
    await keep(one, "How can I contact support?", "so")
    hit = await found(other, "How do I get in touch with customer service?")
    assert hit.answers == answer("so")
    assert hit.score < 0.15


async def test_only_within_the_hard_scope(gateways: list[TieredCache]) -> None:
    cache = gateways[0]
    await keep(cache, "How do I reset my password?", "so")
    reworded = "How can I reset my password?"
    for other in (
        {"system": "be rude"},
        {"tenant": "b"},
        {"model": "n"},
        {"model_version": "2"},
        {"rails": "r"},
        {"template_version": "t"},
        {"scope": {"tools": ["x"]}},
        {"semantic": False},
        {"threshold": 0.99999},
    ):
        assert await found(cache, reworded, **other) is None, other
    assert await found(cache, reworded) is not None


async def test_a_withdrawn_answer_is_not_served_by_meaning_either(gateways: list[TieredCache]) -> None:
    one, other = gateways
    await keep(one, "How do I reset my password?", "so", tags=["t"])
    assert await found(other, "How can I reset my password?") is not None
    await one.purge(Caller("acme"), tenant="acme", label="tag:t")
    assert await found(other, "How can I reset my password?") is None
    await keep(one, "How do I reset my password?", "new")
    assert (await found(other, "How can I reset my password?")).answers == answer("new")
    await one.purge(Caller("acme"), tenant="acme")
    assert await found(other, "How can I reset my password?") is None


async def test_a_reported_false_hit_is_not_served_again(gateways: list[TieredCache]) -> None:
    one, other = gateways
    await keep(one, "How do I reset my password?", "wrong")
    hit = await found(other, "How can I reset my password?")
    key = asked("How do I reset my password?").key
    assert hit.entry == key.digest
    await other.report(Caller("acme"), key)
    assert await found(other, "How can I reset my password?") is None
    assert await found(one, "How can I reset my password?") is None


async def test_hundreds_of_rows_of_another_gateway_are_read_on_in_the_background(gateways: list[TieredCache]) -> None:
    one, other = gateways
    for start in range(0, 450, 30):  # few at a time: a store that is waited for too long keeps nothing
        await asyncio.gather(*(keep(one, f"What is item {k}?", str(k)) for k in range(start, start + 30)))
    for _ in range(2000):
        hit = await found(other, "Please tell me what is item 449?")
        if hit is not None:
            break
        await asyncio.sleep(0.02)
    assert hit.answers == answer("449")


async def test_in_verified_mode_near_answers_are_tried_out_before_they_are_trusted() -> None:
    tier = SemanticTier(HashedNgrams(), verified=VerifiedMode(0.2, random=Random(1)))
    cache = TieredCache(MemoryStore(10_000_000, 60), tier)
    await keep(cache, "How do I reset my password?", "so")
    served = 0
    for number in range(60):
        question = asked(f"How can I reset my password{'?' * (number + 1)}", semantic=True)
        recall = await cache.recall(question)
        if recall.found is not None:
            served += 1
        else:
            assert recall.trial is not None
            await cache.remember(question, answer("so"), recall)
    stats = cache.stats()
    assert stats["semantic_trials_total"] >= 3
    assert stats["semantic_trials_agreed_total"] == stats["semantic_trials_total"]
    assert served > 20
