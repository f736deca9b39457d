"""The server finds the near answer where it can; where it cannot, the gateway does as by default."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sluicegate.cache import RedisStore, TenantSealer, TieredCache
from sluicegate.cache.semantic import HashedNgrams
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.plugins import Caller, ConfigurationError
from tests.cache.examples import ANSWERS, asked
from tests.cache.redis_server import RedisServer, needs_redis

BINARY = os.environ.get("SLUICEGATE_REDIS8")
needs_redis8 = pytest.mark.skipif(
    BINARY is None, reason="SLUICEGATE_REDIS8 names no Redis 8 server; `python -m tests.cache.redis8 FOLDER` gets one"
)
ONE, OTHER = "How do I return a faulty kettle?", "how can I return a faulty kettle"


def tiered(server: RedisServer) -> TieredCache:
    return TieredCache(RedisStore(server.url, 60, vector_sets=True, deadline_s=0.5), SemanticTier(HashedNgrams()))


async def keep(cache: TieredCache, text: str) -> None:
    question = asked(text, semantic=True)
    assert await cache.remember(question, ANSWERS, await cache.recall(question))


@pytest.fixture
def server8(tmp_path: Path) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path, binary=BINARY)
    running.start()
    yield running
    running.kill()


@pytest.fixture
async def cache(server8: RedisServer) -> AsyncIterator[TieredCache]:
    made = tiered(server8)
    await made.start()
    yield made
    await made.close()


@needs_redis8
async def test_another_gateway_is_answered_by_the_servers_search(server8: RedisServer, cache: TieredCache) -> None:
    await keep(cache, ONE)
    other = tiered(server8)
    await other.start()
    found = (await other.recall(asked(OTHER, semantic=True))).found
    assert found is not None
    assert (found.kind, found.answers) == ("semantic", ANSWERS)
    embedder = HashedNgrams()
    assert found.score == pytest.approx(float(embedder.vector(ONE) @ embedder.vector(OTHER)), abs=0.02)
    assert other.stats()["semantic_rows"] == 0, "no row came into the gateway"
    await other.close()


@needs_redis8
async def test_other_facts_are_not_even_candidates(cache: TieredCache) -> None:
    await keep(cache, "How do I return 2 faulty kettles?")
    assert (await cache.recall(asked("How do I return 3 faulty kettles?", semantic=True))).found is None


@needs_redis8
async def test_a_row_whose_entry_is_gone_is_removed(server8: RedisServer, cache: TieredCache) -> None:
    await keep(cache, ONE)
    server8.ask("DEL", *[name.decode() for name in server8.keys("*:e:*")])
    assert (await cache.recall(asked(OTHER, semantic=True))).found is None
    assert server8.keys("*:v:*") == [], "its only element is gone"


@needs_redis8
async def test_a_purge_takes_the_vectors_too(server8: RedisServer, cache: TieredCache) -> None:
    await keep(cache, ONE)
    await cache.purge(Caller("acme"), tenant="acme")
    assert server8.keys("*:v:*") == []


@needs_redis8
async def test_a_full_set_takes_no_more(server8: RedisServer) -> None:
    store = RedisStore(server8.url, 60, vector_sets=True, deadline_s=0.5, max_rows=3)
    cache = TieredCache(store, SemanticTier(HashedNgrams()))
    await cache.start()
    for text in ("alpha one", "beta two", "gamma three", "delta four", "epsilon five"):
        await keep(cache, text)
    [name] = server8.keys("*:v:*")
    assert server8.ask("VCARD", name) == b":3\r\n"
    assert int(server8.ask("PTTL", name).strip()[1:]) > 0
    await cache.close()


@needs_redis8
async def test_a_dead_server_costs_hits_only(server8: RedisServer, cache: TieredCache) -> None:
    await keep(cache, ONE)
    server8.kill()
    async with asyncio.timeout(5):
        assert (await cache.recall(asked(OTHER, semantic=True))).found is None


@needs_redis
async def test_a_server_without_vector_sets_is_searched_here(tmp_path: Path) -> None:
    server = RedisServer(tmp_path)
    server.start()
    made = tiered(server)
    await made.start()
    await keep(made, ONE)
    found = (await made.recall(asked(OTHER, semantic=True))).found
    knows = b"vsim" in server.ask("COMMAND", "INFO", "VSIM").lower()
    assert found is not None
    assert made.stats()["store_vector_sets"] == float(knows)
    await made.close()
    server.kill()


def test_vectors_cannot_be_sealed_and_searched_by_the_server() -> None:
    with pytest.raises(ConfigurationError, match="secret_env"):
        RedisStore("redis://localhost", 60, vector_sets=True, sealer=TenantSealer(bytes(32)))
