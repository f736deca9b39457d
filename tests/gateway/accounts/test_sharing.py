"""Several gateways share keys, usage and limits through one real Redis."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from redis._parsers.base import BaseParser

from sluicegate.cache.stores.redis_client import SHARED_CONNECTIONS, Tls, connect, why_of
from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.accounts.changes import create, revoke
from sluicegate.gateway.accounts.limits import lease_client
from sluicegate.gateway.accounts.limits.lease_script import LEASE, LeaseQuestion, LeaseReply, read_reply
from sluicegate.gateway.accounts.limits.leases import LeaseClient, SharedMeter
from sluicegate.gateway.accounts.limits.meter import UsageEstimate
from sluicegate.gateway.accounts.records import NANOS, KeyRecord
from sluicegate.gateway.settings import AccountSettings, KeySettings, Limits, PriceSettings
from sluicegate.plugins import (
    AuthenticationError,
    BooksUnavailable,
    ConfigurationError,
    Overloaded,
    RateLimited,
    Request,
    RequestError,
    Sampling,
)
from sluicegate.plugins import Usage as Tokens
from sluicegate.plugins.testing import make_outcome, make_request
from tests.altered import altered
from tests.cache.redis_server import RedisCluster, RedisServer, needs_redis, start_sentinel
from tests.waiting import LIMIT_S

pytestmark = needs_redis
PRICES = {"*": PriceSettings(input=1.0, output=2.0)}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    if server.process is not None:
        server.process.kill()
        server.process.wait()


@pytest.fixture
async def pair(redis: RedisServer) -> AsyncIterator[tuple[Accounts, Accounts]]:
    found = (await opened(redis), await opened(redis))
    yield found
    for accounts in found:
        await accounts.close()


async def opened(redis: RedisServer | RedisCluster, **more: Any) -> Accounts:
    accounts = Accounts(AccountSettings(url=redis.url, flush_s=60.0, prices=PRICES, **more))
    await accounts.start()
    return accounts


async def key(pair: tuple[Accounts, ...], **limits: Any) -> KeyRecord:
    record, _ = create(pair[0], "a", limits=Limits(**limits))
    await pair[0].add_key(record)
    for accounts in pair[1:]:
        await accounts.refresh()
    return record


async def asked(accounts: Accounts, record: KeyRecord, tokens: int = 10) -> Request | None:
    """Ask for admission. Return the request, or None where limits refused it."""
    request = make_request(sampling=Sampling(max_tokens=tokens))
    try:
        await accounts.admit(request, record.caller())
    except RateLimited:
        return None
    return request


def settle(accounts: Accounts, record: KeyRecord, request: Request, tokens: int = 3) -> None:
    accounts.settle(make_outcome(request=request, caller=record.caller(), usage=Tokens(5, tokens)))


async def limited(accounts: Accounts, **limits: Any) -> None:
    """Set the limits of the key."""
    await accounts.change_key("a", lambda found: dataclasses.replace(found, limits=Limits(**limits)))


async def many(pair: tuple[Accounts, Accounts], record: KeyRecord, count: int) -> list[tuple[Accounts, Request]]:
    """Ask `count` times at the same moment on each; return those that were let in."""
    where = [accounts for accounts in pair for _ in range(count)]
    found = await asyncio.gather(*(asked(accounts, record) for accounts in where))
    return [(accounts, request) for accounts, request in zip(where, found, strict=True) if request is not None]


async def test_requests_a_minute_hold_over_both(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, requests_per_minute=20)
    assert len(await many(pair, record, 30)) == 20


async def test_concurrency_holds_over_both_and_is_given_back(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, concurrency=6)
    running = await many(pair, record, 10)
    assert len(running) == 6
    for accounts, request in running:
        settle(accounts, record, request)
    for accounts in pair:
        await accounts._share()
    assert len(await many(pair, record, 10)) == 6


async def test_none_of_several_that_come_together_is_refused_what_is_there(pair: tuple[Accounts, Accounts]) -> None:
    """Of six that came at once for six seats two were refused: each had asked for its own, and others took it."""
    record = await key(pair, concurrency=6, tokens_per_minute=100_000, budget_day=1000.0)
    for _ in range(4):
        found = await asyncio.gather(*(asked(pair[0], record) for _ in range(6)))
        running = [request for request in found if request is not None]
        assert len(running) == 6
        for request in running:
            settle(pair[0], record, request)


async def test_limits_that_are_lifted_and_set_again_count_what_runs_and_lose_no_seat(
    pair: tuple[Accounts, Accounts],
) -> None:
    """The seats leased before stayed taken until the process ended, and its own key was refused."""
    accounts = pair[0]
    record = await key(pair, concurrency=6)
    running = [request for request in [await asked(accounts, record) for _ in range(6)] if request is not None]
    assert len(running) == 6
    await limited(accounts)
    await limited(accounts, concurrency=6)
    assert await asked(accounts, record) is None, "six run"
    await limited(accounts)
    for request in running:
        settle(accounts, record, request)
    await accounts._share()
    await limited(accounts, concurrency=6)
    assert None not in [await asked(accounts, record) for _ in range(6)]


async def test_a_budget_holds_over_both_to_the_last_request(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, budget_day=0.003)
    running = await many(pair, record, 40)
    assert running
    for accounts, request in running:
        settle(accounts, record, request)
    spent = 0
    for accounts in pair:
        await accounts.flush()
    table = await pair[0].usage("", "9")
    spent = sum(usage.cost_nanos for usage in table.values())
    assert spent == len(running) * 11_000 <= 3_000_000
    while request := await asked(pair[1], record):  # what was not used is there again
        settle(pair[1], record, request, tokens=10)
        spent += 25_000
        await pair[0]._share()
    assert 2_400_000 < spent <= 3_000_000


async def test_a_budget_that_is_set_later_counts_what_was_spent_before(
    pair: tuple[Accounts, Accounts], redis: RedisServer
) -> None:
    """A key that had spent all of it before it had a budget was given the whole budget once more."""
    record = await key(pair, requests_per_minute=1000)
    for accounts in pair:
        request = await asked(accounts, record)
        assert request is not None
        settle(accounts, record, request, tokens=1000)
    await pair[0].flush()
    spent = 2 * 2_005_000
    await limited(pair[1], budget_day=spent / NANOS, budget_month=1.0)
    await pair[0].refresh()
    for accounts in pair:
        assert await asked(accounts, record) is None
    await limited(pair[1])
    await limited(pair[1], budget_month=(spent + 3_000_000) / NANOS)
    more = 0
    while request := await asked(pair[1], record):
        settle(pair[1], record, request, tokens=10)
        more += 25_000
        await pair[1]._share()
    assert 2_400_000 < more <= 3_000_000
    await pair[1].flush()
    later = await opened(redis)
    try:
        assert await asked(later, record) is None, "nothing is counted twice, and nothing forgotten"
    finally:
        await later.close()


async def test_what_never_fits_is_said(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, tokens_per_minute=50)
    with pytest.raises(RequestError, match="never"):
        await asked(pair[1], record, tokens=60)


@pytest.mark.parametrize("ahead_s", [-600.0, 0.0, 600.0])
async def test_who_is_told_to_wait_is_told_so_by_the_clock_that_all_share(
    pair: tuple[Accounts, Accounts], monkeypatch: pytest.MonkeyPatch, ahead_s: float
) -> None:
    """Clocks of gateways may be minutes apart: limits hold over them, and a minute is a minute."""
    late = altered(time, time=lambda: time.time() + ahead_s)
    monkeypatch.setattr("sluicegate.gateway.accounts.accounts.time", late)
    record = await key(pair, requests_per_minute=20)
    assert len(await many(pair, record, 30)) == 20
    with pytest.raises(RateLimited) as refused:
        await pair[1].admit(make_request(sampling=Sampling(max_tokens=10)), record.caller())
    assert 1.0 <= refused.value.retry_after_s <= 70.0


async def test_an_idle_gateway_gives_its_leases_back(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, requests_per_minute=40)
    request = await asked(pair[0], record)
    assert request is not None
    settle(pair[0], record, request)
    await pair[0]._share()
    let_in = [await asked(pair[1], record) for _ in range(45)]
    assert sum(request is not None for request in let_in) == 39


async def test_seats_of_a_gateway_that_died_are_free_again(redis: RedisServer, pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, concurrency=2)
    assert len(await many((pair[0], pair[0]), record, 3)) == 2
    assert await asked(pair[1], record) is None
    assert isinstance(pair[0].shared, LeaseClient)
    await pair[0].shared.client.delete(f"sluicegate:accounts:alive:{pair[0].shared.name}")  # as after 15 s of silence
    assert await asked(pair[1], record) is not None


async def test_keys_and_usage_are_shared(pair: tuple[Accounts, Accounts]) -> None:
    record, secret = create(pair[0], "a", limits=Limits())
    await pair[0].add_key(record)
    await pair[1].refresh()
    assert pair[1].keyring.find(secret)[1].key_id == "a"
    for accounts in pair:
        request = make_request()
        await accounts.admit(request, record.caller())
        settle(accounts, record, request)
        await accounts.flush()
    [usage] = (await pair[0].usage("", "9")).values()
    assert (usage.requests, usage.prompt_tokens) == (2, 10)
    await pair[1].change_key(record.id, revoke)
    await pair[0].refresh()
    with pytest.raises(AuthenticationError, match="revoked"):
        pair[0].keyring.find(secret)


async def test_a_journal_counts_once_here_too(redis: RedisServer, tmp_path: Path) -> None:
    """The gateway dies with usage in its journal; the next one on that folder brings it, and only once."""
    journal = str(tmp_path / "journal")
    accounts = await opened(redis, journal=journal)
    record, _ = create(accounts, "a", limits=Limits())
    request = make_request()
    await accounts.admit(request, record.caller())
    settle(accounts, record, request)
    assert accounts.journal is not None
    accounts.journal.close()  # as a kill would
    for _ in range(2):
        again = await opened(redis, journal=journal)
        assert [u.requests for u in (await again.usage("", "9")).values()] == [1]
        await again.close()


async def test_what_cannot_be_checked_is_not_let_in(redis: RedisServer, pair: tuple[Accounts, Accounts]) -> None:
    """Leases go on; where they end and the store is gone, requests are refused, and served again when it is back."""
    record = await key(pair, requests_per_minute=100)
    assert await asked(pair[0], record) is not None  # a lease of five
    assert redis.process is not None
    redis.process.kill()
    redis.process.wait()
    assert [await asked(pair[0], record) is not None for _ in range(4)] == [True] * 4
    with pytest.raises(Overloaded, match="cannot be reached"):
        await asked(pair[0], record)
    redis.start()
    assert await asked(pair[0], record) is not None


async def test_who_waits_for_a_connection_waits_no_longer_than_for_an_answer(
    pair: tuple[Accounts, Accounts], redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where Redis stands still, callers of a thousand keys have its few connections one after the other."""
    record = await key(pair, requests_per_minute=100)
    assert isinstance(pair[0].shared, LeaseClient)
    pool = pair[0].shared.client.connection_pool
    taken = [await pool.get_connection() for _ in range(SHARED_CONNECTIONS)]
    monkeypatch.setattr(lease_client, "PATIENCE_S", 0.05)
    try:
        async with asyncio.timeout(10):
            with pytest.raises(Overloaded, match="cannot be reached"):
                await asked(pair[0], record)
    finally:
        for connection in taken:
            await pool.release(connection)
    monkeypatch.undo()
    assert await asked(pair[0], record) is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", "raise its maxmemory"),
        ("LOADING Redis is loading the dataset in memory", "still reads its data"),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "main server is away"),
        ("MISCONF Redis is configured to save RDB snapshots, but ...", "cannot save to its disk"),
        ("MOVED 15841 127.0.0.1:55265", "write the url as redis+cluster://HOST:PORT"),
        ("CROSSSLOT Keys in request don't hash to the same slot", "write the url as redis+cluster://HOST:PORT"),
    ],
)
def test_what_a_redis_answers_is_explained(line: str, said: str) -> None:
    """The client library takes the first word off where it has a class for the error."""
    assert said in why_of(BaseParser.parse_error(line))


async def test_a_gateway_does_not_start_without_its_books(redis: RedisServer) -> None:
    settings = AccountSettings(url="redis://127.0.0.1:1/0")
    with pytest.raises(ConfigurationError, match="cannot be reached"):
        await Accounts(settings, [KeySettings(id="x", key="y")]).start()
    assert dataclasses.replace(settings, url="").url == ""


@pytest.mark.parametrize(
    ("options", "login", "said"),
    [
        (("--requirepass", "right"), ":wrong@", "refuses the user or the password of the url"),
        (("--requirepass", "right"), "", "asks for a password; put it into the url"),
        (("--replicaof", "127.0.0.1", "1"), "", "is a replica and takes no writes; name the main server"),
        (("--min-replicas-to-write", "1"), "", "fewer replicas than its min-replicas-to-write"),
        (("--maxmemory", "1"), "", "its memory is full; raise its maxmemory"),
    ],
    ids=["wrong password", "no password", "a replica", "too few replicas", "no memory"],
)
async def test_a_redis_that_cannot_be_used_is_refused_with_what_to_do(
    tmp_path: Path, options: tuple[str, ...], login: str, said: str
) -> None:
    """It said `AuthenticationError`, `ReadOnlyError` or `ResponseError` and no more."""
    server = RedisServer(tmp_path, *options)
    server.start()
    try:
        url = f"redis://{login}127.0.0.1:{server.port}/0"
        with pytest.raises(ConfigurationError, match=said) as caught:
            await Accounts(AccountSettings(url=url), [KeySettings(id="x", key="y")]).start()
        assert "wrong" not in str(caught.value)
        assert str(server.port) not in str(caught.value)
    finally:
        assert server.process is not None
        server.process.kill()
        server.process.wait()


async def test_a_node_of_a_cluster_is_no_server_of_its_own(tmp_path: Path) -> None:
    """One node of three owned the slot that a start tried; the gateway then failed with `MovedError: 6107`."""
    cluster = RedisCluster(tmp_path)
    try:
        cluster.start()
        for node in cluster.mains:
            with pytest.raises(ConfigurationError, match=r"a node of a Cluster; write the url as redis\+cluster://"):
                await Accounts(AccountSettings(url=node.url), [KeySettings(id="x", key="y")]).start()
    finally:
        cluster.kill()


async def test_a_sentinel_leads_to_whichever_server_is_the_main_one(redis: RedisServer, tmp_path: Path) -> None:
    """Keys, usage and limits go on at the replica that Sentinel makes the main one."""
    for name in ("replica", "sentinel"):
        (tmp_path / name).mkdir()
    replica = RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(redis.port))
    replica.start()
    sentinel = start_sentinel(tmp_path / "sentinel", redis.port)
    try:
        sentinel.ask("SENTINEL", "SET", "main", "down-after-milliseconds", "1500")
        accounts = Accounts(
            AccountSettings(url=f"redis+sentinel://127.0.0.1:{sentinel.port}/main", flush_s=60.0, prices=PRICES)
        )
        await accounts.start()
        record = await key((accounts,), requests_per_minute=40)
        request = await asked(accounts, record)
        assert request is not None
        settle(accounts, record, request)
        await accounts.flush()
        replica.wait_for(b"master_link_status:up", "INFO", "replication")
        redis.ask("SET", "last", "written")
        replica.wait_for(b"written", "GET", "last")  # and so is what was written before
        sentinel.wait_for(b"slaves=1", "INFO", "sentinel")
        redis.kill()
        replica.wait_for(b"role:master", "INFO", "replication")
        sentinel.wait_for(str(replica.port).encode(), "SENTINEL", "get-master-addr-by-name", "main")
        let_in = [await once_answered(lambda: asked(accounts, record)) for _ in range(45)]
        assert 35 <= sum(one is not None for one in let_in) <= 39
        table = await once_answered(lambda: accounts.usage("", "9"))
        assert sum(usage.requests for usage in table.values()) == 1
        await accounts.close()
    finally:
        sentinel.kill()
        replica.kill()


async def test_a_main_server_that_was_replaced_and_does_not_know_it_gets_nothing_more(
    redis: RedisServer, tmp_path: Path
) -> None:
    """It takes writes until Sentinel tells it, which here is never, and loses them: the usage of eleven seconds."""
    for name in ("replica", "sentinel"):
        (tmp_path / name).mkdir()
    replica = RedisServer(tmp_path / "replica", "--replicaof", "127.0.0.1", str(redis.port))
    replica.start()
    replica.wait_for(b"master_link_status:up", "INFO", "replication")
    sentinel = start_sentinel(tmp_path / "sentinel", redis.port)
    try:
        sentinel.wait_for(b"slaves=1", "INFO", "sentinel")
        url = f"redis+sentinel://127.0.0.1:{sentinel.port}/main"
        accounts = Accounts(AccountSettings(url=url, flush_s=60.0, prices=PRICES))
        await accounts.start()
        record = await key((accounts,), requests_per_minute=100_000, concurrency=100)
        await used_once(accounts, record)
        redis.ask("ACL", "SETUSER", "default", "-slaveof", "-replicaof")
        sentinel.wait_for(b"+OK", "SENTINEL", "FAILOVER", "main")  # once it knows the replica well
        replica.wait_for(b"role:master", "INFO", "replication")
        sentinel.wait_for(str(replica.port).encode(), "SENTINEL", "get-master-addr-by-name", "main")
        async with asyncio.timeout(LIMIT_S):
            while counted(replica) < 2 or b"/" not in replica.ask("HGETALL", "sluicegate:accounts:lease:seats:key:a"):
                await used_once(accounts, record)
                await asyncio.sleep(0.05)
        before = counted(redis)
        for _ in range(20):
            await used_once(accounts, record)
        assert counted(redis) == before
        assert b"role:master" in redis.ask("INFO", "replication")
        await accounts.close()
    finally:
        sentinel.kill()
        replica.kill()


async def used_once(accounts: Accounts, record: KeyRecord) -> None:
    request = await once_answered(lambda: asked(accounts, record))
    settle(accounts, record, request)
    await accounts.flush()


def counted(redis: RedisServer) -> int:
    """Return how many requests stand in the books of a server."""
    [name] = redis.keys("sluicegate:accounts:usage:*")
    said = redis.ask("HGETALL", name).split(b"\r\n")
    at = next(at for at, word in enumerate(said) if word.endswith(b'"requests"]'))
    return int(said[at + 2])


async def once_answered(call: Callable[[], Awaitable[Any]]) -> Any:
    """Return what comes once Sentinel knows where to ask."""
    async with asyncio.timeout(LIMIT_S):
        while True:
            try:
                return await call()
            except (Overloaded, BooksUnavailable):
                await asyncio.sleep(0.05)


async def put(redis: RedisServer, me: str, number: int, want: int, **more: Any) -> LeaseReply:
    """Put one question about the seats of key `a`, of which there are 10."""
    question = LeaseQuestion(
        number, more.get("mode", "seats"), "", want, 1, 10, "", more.get("returns", ()), more.get("totals", {})
    )
    client = connect(redis.url, Tls(), retries=0)
    parts = await client.eval(LEASE, 1, "lease", *question.arguments(me, "alive:"))
    await client.aclose()
    return read_reply(parts, question)


async def test_a_question_that_comes_twice_is_answered_once(redis: RedisServer) -> None:
    first = await put(redis, "aa", 1, 4)
    assert (first.grant, first.rest) == (4, 6)
    assert await put(redis, "aa", 1, 4) == first
    assert (await put(redis, "bb", 1, 10)).grant == 6


async def test_a_question_that_comes_late_changes_nothing(redis: RedisServer) -> None:
    await put(redis, "aa", 5, 4)
    assert (await put(redis, "aa", 3, 4)).grant == 0
    assert (await put(redis, "aa", 4, 0, returns=(("", 4),))).grant == 0
    assert (await put(redis, "bb", 1, 10)).grant == 6


async def test_what_is_returned_twice_comes_back_once(redis: RedisServer) -> None:
    await put(redis, "aa", 1, 8)
    for _ in range(3):
        await put(redis, "aa", 2, 0, returns=(("", 3),))
    assert (await put(redis, "bb", 1, 10)).grant == 5


async def test_a_redis_that_forgot_learns_what_each_gateway_has(redis: RedisServer) -> None:
    await put(redis, "aa", 1, 8)
    redis.ask("FLUSHALL")
    assert (await put(redis, "aa", 2, 1, totals={"": 8})).grant == 1
    assert (await put(redis, "bb", 1, 10)).grant == 1


async def test_a_redis_that_forgot_learns_at_the_next_beat_what_a_gateway_holds(
    pair: tuple[Accounts, Accounts], redis: RedisServer
) -> None:
    """It learned that when the gateway asked again; meanwhile all of it was granted to others."""
    record = await key(pair, concurrency=6, budget_day=1000.0)
    running = [await asked(pair[0], record) for _ in range(4)]
    assert None not in running
    redis.ask("FLUSHALL")
    await pair[0]._beat()
    assert len([one for one in [await asked(pair[1], record) for _ in range(6)] if one is not None]) == 2
    for request in running:
        assert request is not None
        settle(pair[0], record, request)
    await pair[0]._share()
    assert await asked(pair[1], record) is not None, "what was reported is given back as all else"


async def test_what_a_gateway_knows_already_is_not_told_twice(redis: RedisServer) -> None:
    await put(redis, "aa", 1, 8)
    await put(redis, "aa", 2, 0, totals={"": 3})
    assert (await put(redis, "bb", 1, 10)).grant == 2


async def test_slots_go_by_the_clock_of_redis(redis: RedisServer) -> None:
    reply = await put(redis, "aa", 1, 4, mode="rate")
    assert abs(int(reply.label) - time.time() // 5) <= 2
    assert 4 < reply.lasts_s <= 10
    assert (await put(redis, "bb", 1, 10, mode="rate")).grant == 6


async def test_a_gateway_that_redis_has_not_heard_of_for_long_uses_no_seats(
    pair: tuple[Accounts, Accounts], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = await key(pair, concurrency=40)
    assert await asked(pair[0], record) is not None  # and a seat to spare
    assert pair[0].shared is not None
    monkeypatch.setattr(pair[0].shared, "_alive_until", 0.0)
    [meter] = [m for m in pair[0].meters.of(record.caller()) if isinstance(m, SharedMeter)]
    assert meter.lacking(UsageEstimate(1, 0), time.time()) == ["seats"]
    assert await asked(pair[0], record) is not None


async def test_random_pauses_and_losses_leave_nothing_taken(
    redis: RedisServer, pair: tuple[Accounts, Accounts]
) -> None:
    """Whatever got no answer: once all has ended and Redis answers, Redis counts what was used and no seat."""
    record = await key(pair, concurrency=6, requests_per_minute=1000)
    chance = random.Random(4)
    used = 0
    for _ in range(4):
        tasks = [asyncio.create_task(_tried(accounts, record)) for accounts in pair for _ in range(5)]
        await asyncio.sleep(chance.random() * 0.01)
        redis.freeze()
        for task in chance.sample(tasks, 3):
            task.cancel()
        await asyncio.sleep(1.2)
        redis.thaw()
        for accounts, request in zip(
            [a for a in pair for _ in range(5)], await asyncio.gather(*tasks, return_exceptions=True), strict=True
        ):
            if isinstance(request, Request):
                used += 1
                settle(accounts, record, request)
    for accounts in pair:
        await accounts._share()
    assert held(redis, "seats") == 0
    assert used <= held(redis, "requests") <= used + 12  # who was cancelled had been let in, or not


async def _tried(accounts: Accounts, record: KeyRecord) -> Request | None:
    try:
        return await asked(accounts, record)
    except Overloaded:
        return None


def held(redis: RedisServer, what: str) -> int:
    parts = redis.ask("HGETALL", f"sluicegate:accounts:lease:{what}:key:a").split(b"\r\n")[2::2]
    return sum(int(count) for field, count in zip(parts[::2], parts[1::2], strict=False) if b"/" in field)
