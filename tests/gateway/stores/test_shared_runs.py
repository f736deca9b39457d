"""Runs of agents that several gateways count together, in Redis and in PostgreSQL."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sluicegate.cache.stores.redis_client import Tls, connect
from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits import database_runs, run_script
from sluicegate.gateway.accounts.limits.database_runs import DatabaseRuns
from sluicegate.gateway.accounts.limits.run_script import RedisRuns
from sluicegate.gateway.accounts.limits.run_store import RunBounds, RunSettlement, RunShare, RunStanding, RunStore
from sluicegate.gateway.accounts.limits.runs import MARK, RunMark
from sluicegate.gateway.accounts.records import NANOS, KeyRecord
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import AccountSettings, DatabaseSettings
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Overloaded, Request, RequestError, Sampling
from sluicegate.plugins.testing import make_request
from tests.cache.redis_server import RedisServer, needs_redis
from tests.gateway.accounts.test_sharing import PRICES, key, settle
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.waiting import LIMIT_S

KINDS = [pytest.param("redis", marks=needs_redis), pytest.param("postgres", marks=needs_postgres)]
NONE = -1


@dataclass
class Place:
    """A store on a real server. `away` and `back` take it from all who use it; `tables` are those of a gateway."""

    settings: dict[str, Any]
    database: Database | None
    store: Callable[[], RunStore]
    away: Callable[[], None]
    back: Callable[[], None]
    forget: Callable[[], None]
    tables: dict[str, Any]


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.kill()


def in_redis(server: RedisServer) -> Place:
    def store() -> RunStore:
        return RedisRuns(server.url, Health())

    def forget() -> None:
        server.ask("FLUSHALL")

    tables = {"accounts": {"url": server.url}}
    return Place({"url": server.url}, None, store, server.freeze, server.thaw, forget, tables)


@contextmanager
def in_postgres(server: PostgresServer) -> Iterator[Place]:
    url = server.emptied()
    database = Database(DatabaseSettings(url=url, patience_s=1.0))
    database.open()

    def store() -> RunStore:
        return DatabaseRuns(database, Health())

    def forget() -> None:
        database.execute("truncate sluicegate.runs, sluicegate.run_shares")

    tables = {"settings": {"database": {"url": url}}}
    yield Place({}, database, store, server.freeze, server.thaw, forget, tables)
    database.close()


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Yield a place that is never away, and is waited for: where twenty things run, sixty connections take longer to
    begin than callers of a gateway would wait."""
    monkeypatch.setattr(run_script, "connect", partial(connect, patience_s=LIMIT_S))
    if request.param == "redis":
        yield in_redis(request.getfixturevalue("redis"))
        return
    with in_postgres(request.getfixturevalue("server")) as found:
        yield found


@pytest.fixture(params=KINDS)
def own_place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Yield a place that may be frozen."""
    if request.param == "redis":
        yield in_redis(request.getfixturevalue("redis"))
        return
    server: PostgresServer = request.getfixturevalue("own_server")
    with in_postgres(server) as found:
        yield found
        server.thaw()


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[tuple[Accounts, Accounts]]:
    settings = AccountSettings(flush_s=60.0, prices=PRICES, **place.settings)
    found = Accounts(settings, database=place.database), Accounts(settings, database=place.database)
    for accounts in found:
        await accounts.start()
    yield found
    for accounts in found:
        await accounts.close()


@pytest.fixture
async def pair(place: Place) -> AsyncIterator[tuple[Accounts, Accounts]]:
    async with opened(place) as found:
        yield found


async def asked(accounts: Accounts, record: KeyRecord, run: str = "r", tokens: int = 10) -> Request | str:
    """Ask for admission. Return the request, or the code of what refused it."""
    request = make_request(sampling=Sampling(max_tokens=tokens))
    MARK.set(RunMark(run))
    try:
        await accounts.admit(request, record.caller())
    except RequestError as error:
        return error.code
    except Overloaded as error:
        return f"{error.status}"
    return request


async def told(*pair: Accounts) -> None:
    for accounts in pair:
        assert accounts._shared_runs is not None
        await accounts._shared_runs.flush()


# --- what a store promises --------------------------------------------------------------------------------------------


class Plain:
    """What a store promises, in as few words as it goes: a run is what its tickets have."""

    def __init__(self) -> None:
        self.shares: dict[str, dict[str, tuple[int, int, int]]] = {}

    def take(self, share: RunShare, bounds: RunBounds) -> tuple[str, int, int, int]:
        run = self.shares.get(share.run, {})
        used = [sum(column) for column in zip(*run.values(), strict=True)] or [0, 0, 0]
        if share.ticket in run:
            return ("taken" if run[share.ticket][0] else "late", *used)
        wanted = (1, share.tokens, share.nanos)
        for what, limit, have, more in zip(
            ("calls", "tokens", "nanos"), (bounds.calls, bounds.tokens, bounds.nanos), used, wanted, strict=True
        ):
            if 0 <= limit < have + more:
                return (what, *used)
        self.shares.setdefault(share.run, {})[share.ticket] = wanted
        return ("taken", *used)


@pytest.mark.parametrize("seed", range(4))
async def test_a_store_counts_each_ticket_once_whatever_is_sent_again(place: Place, seed: int) -> None:
    """Takes, settlements and drops in any order, each sent up to three times, as after lost answers."""
    store, plain, generator = place.store(), Plain(), random.Random(seed)
    held: list[RunShare] = []
    for number in range(60):
        calls, tokens, nanos = (generator.choice((NONE, most)) for most in (12, 90, 10**13))
        bounds = RunBounds(calls, tokens, nanos, NONE)
        if held and generator.random() < 0.4:
            share = held.pop(generator.randrange(len(held)))
            row = plain.shares[share.run]
            kind = generator.choice(("used", "dropped", "lost"))
            settlement = RunSettlement(
                share, *((generator.randrange(20), generator.randrange(10**12)) if kind == "used" else (0, 0))
            )
            if kind != "used":
                settlement = RunSettlement(share, dropped=True, lost=kind == "lost")
            for _ in range(generator.randrange(1, 4)):
                await store.settle(settlement)
            row[share.ticket] = (1, settlement.tokens, settlement.nanos) if kind == "used" else (0, 0, 0)
            if kind == "lost":
                assert (await store.take(share, RunBounds(NONE, NONE, NONE, NONE))).outcome == "late"
            continue
        run, ticket = f"{generator.randrange(3):032x}", f"{number:016x}"
        share = RunShare("key:a", run, ticket, generator.randrange(20), generator.randrange(10**12))
        expected = plain.take(share, bounds)
        for again in range(generator.randrange(1, 4)):
            standing = await store.take(share, bounds)
            assert standing.outcome == expected[0]
            if not again:
                assert (standing.calls, standing.tokens, standing.nanos) == expected[1:]
        if expected[0] == "taken":
            held.append(share)
    await store.close()


async def test_a_ticket_that_was_given_back_first_is_never_taken(place: Place) -> None:
    """A reservation that was sent, lost, given back, and comes after all."""
    store, share = place.store(), RunShare("key:a", "0" * 32, "1" * 16, 5, 7)
    free = RunBounds(NONE, NONE, NONE, NONE)
    await store.settle(RunSettlement(share, dropped=True, lost=True))
    assert await store.take(share, free) == RunStanding("late")
    other = await store.take(RunShare("key:a", "0" * 32, "2" * 16, 5, 7), free)
    assert (other.outcome, other.calls, other.tokens) == ("taken", 0, 0)
    await store.close()


async def test_an_owner_has_so_many_runs_at_a_time(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (run_script, database_runs):
        monkeypatch.setattr(module, "MOST_RUNS", 3)
    store, free = place.store(), RunBounds(NONE, NONE, NONE, NONE)
    said = [(await store.take(RunShare("key:a", f"{at:032x}", f"{at:016x}", 0, 0), free)).outcome for at in range(5)]
    assert said == ["taken"] * 3 + ["runs"] * 2
    assert (await store.take(RunShare("key:a", f"{0:032x}", "f" * 16, 0, 0), free)).outcome == "taken"
    assert (await store.take(RunShare("key:b", f"{9:032x}", "f" * 16, 0, 0), free)).outcome == "taken"
    await store.close()


@pytest.mark.parametrize("damage", [("HSET", "calls", "many"), ("HSET", "began", "1e9"), ("SET",)])
@needs_redis
async def test_a_run_that_cannot_be_read_is_refused_and_others_go_on(
    redis: RedisServer, damage: tuple[str, ...]
) -> None:
    store, free = RedisRuns(redis.url, Health()), RunBounds(NONE, NONE, NONE, NONE)
    bad, good = (RunShare("key:a", digit * 32, "1" * 16, 5, 7) for digit in "01")
    client = connect(redis.url, Tls())
    await client.execute_command(
        damage[0], f"sluicegate:accounts:run:key:a:{bad.run}", *damage[1:], *(("x",) if damage == ("SET",) else ())
    )
    with pytest.raises(Overloaded):
        await store.take(bad, free)
    await store.settle(RunSettlement(bad, 1, 1))
    assert (await store.take(good, free)).outcome == "taken"
    await store.close()
    await client.aclose()


# --- two gateways -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [{"run_calls": 10}, {"run_tokens": 130}, {"run_cost": 0.001}])
async def test_a_run_holds_over_both_to_the_last_request(
    pair: tuple[Accounts, Accounts], limit: dict[str, Any]
) -> None:
    """Sixty at once: as many are let in as one gateway alone would let in."""
    record = await key(pair, **limit)
    need = pair[0]._need(make_request(sampling=Sampling(max_tokens=10)), pair[0].meters.of(record.caller()))
    each = {"run_calls": 1, "run_tokens": need.tokens, "run_cost": need.nanos / NANOS}
    [(name, most)] = limit.items()
    found = await asyncio.gather(*(asked(accounts, record) for accounts in pair for _ in range(30)))
    let_in = sum(isinstance(one, Request) for one in found)
    assert 0 < let_in == int(most / each[name] + 1e-9) < 60
    assert {one for one in found if isinstance(one, str)} == {"run_limit_exceeded"}
    assert isinstance(await asked(pair[0], record, run="other"), Request), "another run has its own"


async def test_what_was_not_used_is_there_for_the_other_gateway(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, run_tokens=60)
    request = await asked(pair[0], record, tokens=50)
    assert isinstance(request, Request)
    assert await asked(pair[1], record, tokens=20) == "run_limit_exceeded"
    settle(pair[0], record, request, tokens=3)  # 5 and 3
    await told(pair[0])
    assert isinstance(await asked(pair[1], record, tokens=20), Request)


async def test_a_run_that_took_too_long_is_over_on_both(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, run_s=0)
    assert isinstance(await asked(pair[0], record), Request)
    await asyncio.sleep(0.02)
    assert [await asked(accounts, record) for accounts in pair] == ["run_limit_exceeded"] * 2


async def test_what_other_limits_refuse_does_not_count_for_the_run(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, run_calls=5, concurrency=1)
    first = await asked(pair[0], record)
    assert isinstance(first, Request)
    for _ in range(20):
        assert await asked(pair[1], record) == "rate_limit_exceeded"
    settle(pair[0], record, first)
    await pair[0]._share()
    let_in = 1
    while isinstance(found := await asked(pair[1], record), Request):
        settle(pair[1], record, found)
        let_in += 1
    assert (let_in, found) == (5, "run_limit_exceeded")


async def test_it_fails_closed_while_the_store_is_away_and_nothing_stays_counted(own_place: Place) -> None:
    """What was asked meanwhile may have reached the server, which answers when it is thawed."""
    async with opened(own_place) as pair:
        record = await key(pair, run_calls=4)
        running = [await asked(accounts, record) for accounts in pair]
        own_place.away()
        try:
            assert [await asked(pair[0], record) for _ in range(2)] == ["503"] * 2
            assert "runs" in pair[0].health.troubles
            assert isinstance(running[0], Request)
            settle(pair[0], record, running[0])
        finally:
            own_place.back()
        deadline = time.monotonic() + LIMIT_S
        while (found := await asked(pair[0], record)) == "503":
            assert time.monotonic() < deadline
        assert isinstance(found, Request)
        assert "runs" not in pair[0].health.troubles
        await told(*pair)
        assert isinstance(await asked(pair[1], record), Request)
        assert [await asked(accounts, record) for accounts in pair] == ["run_limit_exceeded"] * 2


async def test_what_a_gateway_counted_itself_outlives_a_store_that_forgot(
    pair: tuple[Accounts, Accounts], place: Place
) -> None:
    record = await key(pair, run_calls=3)
    for _ in range(3):
        assert isinstance(await asked(pair[0], record), Request)
    place.forget()
    if place.database is None:  # and with it the keys
        await pair[0].add_key(record)
    assert await asked(pair[0], record) == "run_limit_exceeded"


def test_two_gateways_end_one_run_together(place: Place) -> None:
    """Over HTTP, by turns: seven calls of one run, and as many of the next."""
    keys = [{"id": "agent", "key": "k", "limits": {"run_calls": 7}}]
    made = [
        TestApp(pipeline={"admit": ["api-keys", "limits"], "record": ["ledger"]}, keys=keys, **place.tables)
        for _ in "ab"
    ]
    with made[0] as first, made[1] as second, ThreadPoolExecutor(4) as pool:

        def call(number: int, run: str) -> tuple[int, str]:
            client = (first, second)[number % 2].client
            body = {"model": "scripted", "messages": [{"role": "user", "content": "on"}], "max_tokens": 5}
            head = {"authorization": "Bearer k", "x-sluicegate-run": run}
            found = client.post("/v1/chat/completions", json=body, headers=head)
            return found.status_code, found.json().get("error", {}).get("code", "")

        for run in ("one", "two"):
            found = list(pool.map(lambda number: call(number, run), range(16)))  # noqa: B023
            assert sorted(found) == [(200, "")] * 7 + [(429, "run_limit_exceeded")] * 9
