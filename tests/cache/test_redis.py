"""A Redis that is slow, full, killed, restarted, shared or talks nonsense never hurts a request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.cache import CacheEntry, CacheQuestion, RedisStore, TenantSealer, TieredCache, Tls, label
from sluicegate.cache.semantic import HashedNgrams
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.cache.stores.redis_client import SHARED_CONNECTIONS, connect
from sluicegate.plugins import Caller, ConfigurationError, Overloaded
from tests.cache.examples import ANSWERS, answer, asked
from tests.cache.redis_server import (
    PATIENCE_S,
    RedisCluster,
    RedisServer,
    free_port,
    needs_redis,
    self_signed,
    start_sentinel,
)
from tests.waiting import soon

pytestmark = needs_redis


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path, "--enable-debug-command", "yes")
    running.start()
    yield running
    running.thaw()
    running.kill()


@pytest.fixture
async def gateways(server: RedisServer) -> AsyncIterator[list[TieredCache]]:
    """Start two gateways' caches on one Redis."""
    made = [TieredCache(RedisStore(server.url, 60, deadline_s=0.02)) for _ in range(2)]
    for one in made:
        await one.start()
    yield made
    for one in made:
        await one.close()


async def keep(cache: TieredCache, question: CacheQuestion) -> None:
    """Keep an answer, trying as often as it takes: 20 ms are little on a loaded machine."""
    for _ in range(1000):
        if await cache.remember(question, ANSWERS, await cache.recall(question)):
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"nothing could be kept: {cache.stats()}")


async def comes_back(cache: TieredCache, question: CacheQuestion, within_s: float = 60.0) -> bool:
    end = time.monotonic() + within_s
    while time.monotonic() < end:
        if (await cache.recall(question)).found is not None:
            return True
        await asyncio.sleep(0.05)
    return False


async def hurried(cache: TieredCache, question: CacheQuestion, times: int = 10) -> list[Any]:
    """Return what recalls find while the server says nothing. Whoever waited for it would wait for ever."""
    async with asyncio.timeout(60):
        return [(await cache.recall(question)).found for _ in range(times)]


async def test_two_gateways_see_each_others_answers_and_purges(gateways: list[TieredCache]) -> None:
    one, other = gateways
    await keep(one, asked(tags=["t"]))
    assert await comes_back(other, asked())
    assert await other.purge(Caller("acme"), tenant="acme", label=label("tag", "t")) == 1
    assert (await one.recall(asked())).found is None


async def test_a_killed_server_costs_nothing_but_hits_and_heals(
    server: RedisServer, gateways: list[TieredCache]
) -> None:
    cache = gateways[0]
    await keep(cache, asked())
    server.kill()
    assert await hurried(cache, asked()) == [None] * 10
    assert not await cache.remember(asked("new"), ANSWERS, await cache.recall(asked("new")))
    with pytest.raises(Overloaded, match="nothing was withdrawn"):
        await cache.purge(Caller("acme"), tenant="acme")
    stats = cache.stats()
    assert stats["store_open"] == 1
    assert stats["store_errors_total"] >= 3
    assert stats["store_skipped_total"] >= 1
    server.start()
    await soon(lambda: cache.stats()["store_open"] == 0)
    await keep(cache, asked("again"))
    assert await comes_back(cache, asked("again"))
    assert (await cache.recall(asked())).found is None, "it was restarted empty"


async def test_a_stopped_server_is_waited_for_20_ms_and_heals(server: RedisServer, gateways: list[TieredCache]) -> None:
    cache = gateways[0]
    await keep(cache, asked())
    server.freeze()
    assert await hurried(cache, asked()) == [None] * 10
    assert cache.stats()["store_timeouts_total"] >= 1
    server.thaw()
    assert await comes_back(cache, asked())


async def test_late_replies_are_never_taken_for_anothers(server: RedisServer, gateways: list[TieredCache]) -> None:
    """A connection that was given up in the middle of a reply must not answer the next question with it."""
    cache = gateways[0]
    for number in range(20):
        recall = await cache.recall(asked(f"q{number}"))
        await cache.remember(asked(f"q{number}"), answer(f"a{number}"), recall)
    for _ in range(3):
        server.freeze()
        await asyncio.gather(*(cache.recall(asked(f"q{number}")) for number in range(20)))
        server.thaw()
        recalls = await asyncio.gather(*(cache.recall(asked(f"q{number}")) for number in range(20)))
        for number, recall in enumerate(recalls):
            assert recall.found is None or recall.found.answers == answer(f"a{number}")
        await asyncio.sleep(0.3)


async def test_a_cancelled_request_leaves_the_connection_in_order(gateways: list[TieredCache]) -> None:
    cache = gateways[0]
    await keep(cache, asked("kept"))
    for _ in range(30):
        task = asyncio.create_task(cache.recall(asked("other")))
        await asyncio.sleep(0)
        task.cancel()
        found = (await cache.recall(asked("kept"))).found
        assert found is None or found.answers == ANSWERS
    assert await comes_back(cache, asked("kept"))


async def test_a_full_server_still_answers_what_it_has(server: RedisServer, gateways: list[TieredCache]) -> None:
    cache = gateways[0]
    await keep(cache, asked())
    for number in range(20):
        server.ask("SET", f"filler{number}", b"x" * 100_000)
    server.ask("CONFIG", "SET", "maxmemory-policy", "noeviction")
    server.ask("CONFIG", "SET", "maxmemory", "1mb")
    assert b"OOM" in server.ask("SET", "one-more", "x")
    for number in range(5):
        question = asked(f"new {number}")
        assert not await cache.remember(question, ANSWERS, await cache.recall(question))
    assert (await cache.recall(asked("hello", tenant="a-new-tenant"))).found is None
    assert await comes_back(cache, asked())
    assert cache.stats()["store_open"] == 0, "a server that can be read is not to be left alone"
    server.ask("CONFIG", "SET", "maxmemory", "0")
    await keep(cache, asked("new 1"))


async def test_garbage_in_our_keys_is_a_miss_and_mended(server: RedisServer, gateways: list[TieredCache]) -> None:
    cache = gateways[0]
    question = asked()
    for spoil in (b"", b"garbage", b"SG1", b"SG1\xff" + b"\x00" * 90, None):
        await keep(cache, question)
        (entry,) = server.keys("*:e:*")
        if spoil is None:
            server.ask("DEL", entry)
            server.ask("LPUSH", entry, "a list")
        else:
            server.ask("SET", entry, spoil)
        assert (await cache.recall(question)).found is None
    await keep(cache, question)
    (state,) = server.keys("*:s")
    server.ask("SET", state, "no hash")
    assert (await cache.recall(question)).found is None
    await keep(cache, question)
    assert await comes_back(cache, question)
    assert cache.stats()["store_damaged_total"] >= 5


async def test_an_entry_moved_to_another_key_is_refused(server: RedisServer, gateways: list[TieredCache]) -> None:
    cache = gateways[0]
    await keep(cache, asked("one"))
    (one,) = server.keys("*:e:*")
    await keep(cache, asked("two"))
    (two,) = set(server.keys("*:e:*")) - {one}
    server.ask("COPY", one, two, "REPLACE")
    assert (await cache.recall(asked("two"))).found is None


async def test_losing_the_epochs_loses_the_entries_not_the_purges(
    server: RedisServer, gateways: list[TieredCache]
) -> None:
    """As an eviction would: an entry that a purge withdrew must not come back."""
    cache = gateways[0]
    await keep(cache, asked(tags=["t"]))
    (entry,) = server.keys("*:e:*")
    server.ask("COPY", entry, "aside")
    await cache.purge(Caller("acme"), tenant="acme", label=label("tag", "t"))
    server.ask("COPY", "aside", entry)
    assert (await cache.recall(asked())).found is None
    (state,) = server.keys("*:s")
    server.ask("DEL", state)
    assert (await cache.recall(asked())).found is None


@pytest.mark.parametrize("talk", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"$99999999999\r\n", b"\x00" * 64, b""])
async def test_a_server_that_talks_nonsense_is_left_alone(talk: bytes) -> None:
    async def babble(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(talk)
        writer.close()

    port = free_port()
    async with await asyncio.start_server(babble, "127.0.0.1", port):
        cache = TieredCache(RedisStore(f"redis://127.0.0.1:{port}/0", 60))
        assert await hurried(cache, asked()) == [None] * 10
        assert cache.stats()["store_open"] == 1
        await cache.close()


async def test_what_is_at_rest_can_be_sealed(server: RedisServer) -> None:
    cache = TieredCache(RedisStore(server.url, 60, sealer=TenantSealer(bytes(32)), deadline_s=1))
    other = TieredCache(RedisStore(server.url, 60, sealer=TenantSealer(b"x" * 32), deadline_s=1))
    await cache.remember(asked(), answer("the secret"), await cache.recall(asked()))
    (entry,) = server.keys("*:e:*")
    assert b"secret" not in server.ask("GET", entry)
    assert (await cache.recall(asked())).found is not None
    assert (await other.recall(asked())).found is None
    await cache.close()
    await other.close()


async def test_entries_die_of_age(server: RedisServer) -> None:
    cache = TieredCache(RedisStore(server.url, 0.2, deadline_s=1))
    await keep(cache, asked())
    await asyncio.sleep(0.3)
    assert (await cache.recall(asked())).found is None
    await cache.close()


async def test_an_answer_that_the_servers_clock_keeps_too_long_dies_of_age(server: RedisServer) -> None:
    """A server whose clock was a day ahead and was set back kept an answer of an hour for 25; what its clock adds is
    written here."""
    clock = [time.time()]
    store = RedisStore(server.url, 60, deadline_s=10, clock=lambda: clock[0])
    await store.store(asked("q").key, ANSWERS)
    [name] = server.keys("*:e:*")
    server.ask("EXPIRE", name, "86460")
    clock[0] += 100  # within a minute of the end: clocks differ
    assert await store.look_up(asked("q").key) is not None
    clock[0] += 25
    assert await store.look_up(asked("q").key) is None
    await store.store(asked("q").key, ANSWERS)
    assert await store.look_up(asked("q").key) is not None
    await store.close()


async def test_an_answer_of_a_gateway_whose_clock_was_ahead_is_made_anew(server: RedisServer) -> None:
    clock = [time.time() + 86_400]
    store = RedisStore(server.url, 60, deadline_s=10, clock=lambda: clock[0])
    await store.store(asked("q").key, ANSWERS)
    clock[0] -= 30
    assert await store.look_up(asked("q").key) is not None
    clock[0] -= 86_370
    assert await store.look_up(asked("q").key) is None
    await store.close()


async def test_tls_with_a_certificate_of_our_own(tmp_path: Path) -> None:
    key, certificate = self_signed(tmp_path)
    files = ["--tls-cert-file", certificate, "--tls-key-file", key, "--tls-ca-cert-file", certificate]
    server = RedisServer(tmp_path, *files, "--tls-auth-clients", "no", tls=True)
    server.start()
    url = server.url.replace("redis://", "rediss://")
    trusting = TieredCache(RedisStore(url, 60, tls=Tls(ca_file=certificate), deadline_s=0.2))
    doubting = TieredCache(RedisStore(url, 60, deadline_s=0.2))
    await keep(trusting, asked())
    assert await comes_back(trusting, asked())
    assert await hurried(doubting, asked(), 4) == [None] * 4
    await trusting.close()
    await doubting.close()
    server.kill()


async def test_a_cluster_of_three(tmp_path: Path) -> None:
    """Tenants lie on all nodes, each on one; entries come back, and purges of one and of all tenants reach them."""
    cluster = RedisCluster(tmp_path)
    cluster.start()
    cache = TieredCache(RedisStore(cluster.url, 60, deadline_s=5))
    tenants = [f"t{at}" for at in range(12)]
    for tenant in tenants:
        await keep(cache, asked(tenant=tenant, tags=["t"]))
        assert await comes_back(cache, asked(tenant=tenant))
    assert all(node.keys("*:e:*") for node in cluster.mains)
    assert await cache.purge(Caller("t3"), tenant="t3", label=label("tag", "t")) == 1
    assert (await cache.recall(asked(tenant="t3"))).found is None
    assert await cache.purge(Caller("root", scopes=frozenset({"admin"})), tenant=None) == 11
    assert not any(node.keys("*:e:*") for node in cluster.mains)
    await cache.close()
    cluster.kill()


async def test_a_sentinel_names_the_server(server: RedisServer, tmp_path: Path) -> None:
    sentinel = start_sentinel(tmp_path, server.port)
    cache = TieredCache(RedisStore(f"redis+sentinel://127.0.0.1:{sentinel.port}/main/0", 60, deadline_s=1))
    await keep(cache, asked())
    assert await comes_back(cache, asked())
    await cache.close()
    sentinel.kill()


@pytest.mark.parametrize("url", ["http://x", "redis", "redis+sentinel://host:1", "redis+cluster://host:port"])
def test_a_url_that_cannot_be_read_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ConfigurationError, match="Redis cannot be asked: url must"):
        RedisStore(url, 60)


async def test_hundreds_of_entries_are_withdrawn_in_one_purge(server: RedisServer) -> None:
    cache = TieredCache(RedisStore(server.url, 60, deadline_s=2))
    for number in range(450):
        question = asked(f"q{number}", tags=["even" if number % 2 == 0 else "odd"])
        assert await cache.remember(question, ANSWERS, await cache.recall(question))
    assert await cache.purge(Caller("acme"), tenant="acme", label=label("tag", "even")) == 225
    assert (await cache.recall(asked("q1"))).found is not None
    assert await cache.purge(Caller("acme"), tenant="acme") == 225
    assert server.keys("*:e:*") == []
    await cache.close()


async def test_a_store_can_be_used_by_key_alone(server: RedisServer) -> None:
    store = RedisStore(server.url, 60, deadline_s=2)
    await store.store(asked().key, ANSWERS)
    assert await store.look_up(asked().key) == ANSWERS
    assert not await store.put(asked("x").key, CacheEntry((), 0.0), None)
    await store.close()


async def test_garbage_among_the_rows_of_the_index_is_passed_over(server: RedisServer) -> None:
    cache = TieredCache(RedisStore(server.url, 60, deadline_s=2), SemanticTier(HashedNgrams()))
    first = asked("How do I reset my password?", semantic=True)
    await cache.remember(first, ANSWERS, await cache.recall(first))
    (rows,) = server.keys("*:r:*")
    for junk in (b"", b"SR1", b"SR1" + b"\x00" * 60, b"SR1" + b"\xff" * 800, b"nonsense"):
        server.ask("XADD", rows, "*", "r", junk)
    server.ask("XADD", rows, "*", "other", "field")
    fresh = TieredCache(RedisStore(server.url, 60, deadline_s=2), SemanticTier(HashedNgrams()))
    assert (await fresh.recall(asked("How can I reset my password?", semantic=True))).found is not None
    assert fresh.stats()["store_damaged_total"] == 6
    server.ask("SET", rows, "no stream")
    second = asked("How do I reset my router?", semantic=True)
    assert await cache.remember(second, ANSWERS, await cache.recall(second))
    third = asked("How do I reset my phone?", semantic=True)
    assert await cache.remember(third, ANSWERS, await cache.recall(third))
    assert server.ask("TYPE", rows) == b"+stream\r\n", "mended"
    await cache.close()
    await fresh.close()


async def test_a_burst_on_a_new_client_shares_few_connections(server: RedisServer) -> None:
    """Callers wait for each other; those that leave while they wait take no place with them."""
    client = connect(server.url, Tls(), patience_s=PATIENCE_S)
    try:
        for _ in range(3):
            leaving = [asyncio.create_task(client.ping()) for _ in range(100)]
            await asyncio.sleep(0)
            staying = [asyncio.create_task(client.ping()) for _ in range(200)]
            for task in leaving[::2]:
                task.cancel()
            await asyncio.gather(*leaving, return_exceptions=True)
            assert all(await asyncio.gather(*staying))
        opened = (await client.info("stats"))["total_connections_received"]
        held = (await client.info("clients"))["connected_clients"]
    finally:
        await client.aclose()
    # A cancelled call closes its connection, which is opened anew: at most one for each of those that held one.
    assert held <= SHARED_CONNECTIONS + 1
    assert opened < 200


async def test_a_server_that_refuses_connections_leaves_every_place_free(server: RedisServer) -> None:
    client = connect(server.url, Tls(), patience_s=PATIENCE_S)
    try:
        server.kill()
        for _ in range(3):
            await asyncio.gather(*(client.ping() for _ in range(2 * SHARED_CONNECTIONS)), return_exceptions=True)
        server.start()
        assert all(await asyncio.gather(*(client.ping() for _ in range(2 * SHARED_CONNECTIONS))))
    finally:
        await client.aclose()
