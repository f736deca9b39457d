"""Keys, usage, limits and budgets of several gateways in one PostgreSQL, with a Redis for what is fast or without."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import random
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.cache.stores.redis_client import Tls, connect
from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.accounts.changes import create, revoke
from sluicegate.gateway.accounts.health import Health
from sluicegate.gateway.accounts.limits.database_leases import DatabaseLeases
from sluicegate.gateway.accounts.limits.lease_script import LEASE, LeaseQuestion, LeaseReply, read_reply
from sluicegate.gateway.accounts.records import KeyRecord, UsageKey, UsageSum
from sluicegate.gateway.accounts.stores.base import creation
from sluicegate.gateway.accounts.stores.postgres import PostgresAccountStore
from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import AccountSettings, DatabaseSettings, Limits
from sluicegate.plugins import AuthenticationError, Overloaded, Request
from sluicegate.plugins.testing import make_request
from tests.cache.redis_server import BINARY, RedisServer, needs_redis
from tests.gateway.accounts.test_sharing import PRICES, asked, key, limited, many, settle
from tests.gateway.stores.postgres_server import PostgresServer, needs_postgres
from tests.waiting import LIMIT_S

pytestmark = needs_postgres
DAY = UsageKey("2026-11-21", "a", "blue", "search", "m")
ONE = UsageSum(requests=1, prompt_tokens=5, completion_tokens=7, cost_nanos=19)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    made = Database(DatabaseSettings(url=url, patience_s=1.0))
    made.open()
    yield made
    made.close()


@pytest.fixture
def store(database: Database) -> PostgresAccountStore:
    return PostgresAccountStore(database)


@pytest.fixture(params=["alone", pytest.param("beside a Redis", marks=needs_redis)])
def redis(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RedisServer | None]:
    if request.param == "alone" or BINARY is None:
        yield None
        return
    server = RedisServer(tmp_path)
    server.start()
    yield server
    server.kill()


@pytest.fixture
async def pair(redis: RedisServer | None, database: Database) -> AsyncIterator[tuple[Accounts, Accounts]]:
    found = (await opened(database, redis), await opened(database, redis))
    yield found
    for accounts in found:
        await accounts.close()


async def opened(database: Database, redis: RedisServer | None = None, **more: Any) -> Accounts:
    url = redis.url if redis is not None else ""
    accounts = Accounts(AccountSettings(url=url, flush_s=60.0, prices=PRICES, **more), database=database)
    await accounts.start()
    return accounts


# --- the store ----------------------------------------------------------------------------------------------------


def test_sums_add_up_and_a_segment_counts_once(store: PostgresAccountStore) -> None:
    for _ in range(3):
        assert store.add("j", 1, {DAY: ONE}) == 0
    store.add("j", 2, {DAY: ONE, DAY._replace(day="2026-11-02"): ONE})
    assert store.usage("2026-11-21", "2026-11-30")[DAY].prompt_tokens == 10
    assert store.spent("2026-11-21") == {("key", "a"): (38, 57), ("team", "blue"): (38, 57)}
    assert (store.applied("j"), store.applied("other")) == (2, 0)


def test_a_row_that_cannot_be_kept_is_set_aside_and_the_others_are_kept(
    store: PostgresAccountStore, database: Database
) -> None:
    bad = [DAY._replace(model=text) for text in ("a\x00b", "\ud800")]
    assert store.add("j", 1, {bad[0]: ONE, DAY: ONE, bad[1]: ONE}) == 2
    assert store.usage("", "9") == {DAY: ONE}
    assert len(database.execute("select row from sluicegate.set_aside").fetchall()) == 2


def test_sums_end_at_the_most_that_a_column_holds(store: PostgresAccountStore) -> None:
    huge = dataclasses.replace(ONE, cost_nanos=2**62 - 1)
    for number in (1, 2):
        assert store.add("j", number, {DAY: huge}) == 0
    assert store.usage("", "9")[DAY].cost_nanos == 2**62 - 1


def test_keys_and_teams_come_back_as_they_were_written(store: PostgresAccountStore) -> None:
    record, _ = create(Accounts(AccountSettings()), "a", limits=Limits(budget_day=1.5), models=["m"])
    before = store.version()
    store.edit_key(record.id, creation(record))
    store.put_team("blue", Limits(concurrency=2))
    assert store.version() != before
    assert (list(store.keys()), store.teams()) == ([record], {"blue": Limits(concurrency=2)})


def test_what_others_wrote_is_not_believed(store: PostgresAccountStore, database: Database) -> None:
    database.execute("insert into sluicegate.keys values ('x', '{}'), ('y', 'no JSON')")
    database.execute("insert into sluicegate.teams values ('t', '[]')")
    assert (list(store.keys()), store.teams()) == ([], {})
    assert (store.set_aside.keys, store.set_aside.teams) == ({"x", "y"}, {"t"})


# --- two gateways -------------------------------------------------------------------------------------------------


async def test_keys_usage_and_revocations_are_shared(pair: tuple[Accounts, Accounts]) -> None:
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


@pytest.mark.parametrize("limit", [{"requests_per_minute": 20}, {"concurrency": 20}, {"tokens_per_minute": 20 * 13}])
async def test_limits_hold_over_both(pair: tuple[Accounts, Accounts], limit: dict[str, int]) -> None:
    """Sixty ask at once: never more than the limit are let in. What leases leave over is there for who asks later."""
    record = await key(pair, **limit)
    let_in = len(await many(pair, record, 30))
    assert 0 < let_in <= 20
    while await asked(pair[let_in % 2], record) is not None:
        let_in += 1
    assert 10 <= let_in <= 20  # what a lease has left over is too little for one more, here and there


async def test_a_budget_holds_over_both_to_the_last_request(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, budget_day=0.003)
    running = await many(pair, record, 40)
    for accounts, request in running:
        settle(accounts, record, request)
    spent = len(running) * 11_000
    while request := await asked(pair[1], record):  # what was not used is there again
        settle(pair[1], record, request, tokens=10)
        spent += 25_000
        await pair[0]._share()
    for accounts in pair:
        await accounts.flush()
    table = await pair[0].usage("", "9")
    assert sum(usage.cost_nanos for usage in table.values()) == spent
    assert 2_400_000 < spent <= 3_000_000


async def test_a_budget_that_is_set_later_counts_what_was_spent_before(pair: tuple[Accounts, Accounts]) -> None:
    record = await key(pair, requests_per_minute=1000)
    request = await asked(pair[0], record)
    assert request is not None
    settle(pair[0], record, request, tokens=1000)
    await pair[0].flush()
    await limited(pair[1], budget_day=0.002005)
    assert await asked(pair[1], record) is None
    await limited(pair[1], budget_day=0.005005)
    assert await asked(pair[1], record) is not None


async def test_a_budget_outlives_a_redis_that_comes_back_empty_and_every_gateway(
    database: Database, tmp_path: Path
) -> None:
    """All gateways are gone, and all that Redis knew: nobody gets the money twice."""
    if BINARY is None:
        pytest.skip("redis-server is not installed; `apt-get update && apt-get install -y redis-server`")
    server = RedisServer(tmp_path)
    server.start()
    try:
        first = await opened(database, server)
        record = await key((first,), budget_day=0.003)
        spent = 0
        while request := await asked(first, record):
            settle(first, record, request, tokens=10)
            spent += 25_000
        await first.close()
        server.ask("FLUSHALL")
        again = await opened(database, server)
        while request := await asked(again, record):
            settle(again, record, request, tokens=10)
            spent += 25_000
        await again.close()
        assert 2_700_000 <= spent <= 3_000_000
    finally:
        server.kill()


async def test_seats_of_a_gateway_that_died_are_free_again(database: Database) -> None:
    first, second = await opened(database), await opened(database)
    record = await key((first, second), concurrency=2)
    assert len(await many((first, first), record, 3)) == 2
    assert await asked(second, record) is None
    # as after 15 s of silence
    database.execute("update sluicegate.alive set until = now() where gateway = %s", (first.shared.name,))
    assert await asked(second, record) is not None
    for accounts in (first, second):
        await accounts.close()


async def test_what_cannot_be_checked_is_not_let_in_and_is_again_when_the_server_is_back(
    own_server: PostgresServer, tmp_path: Path
) -> None:
    """And what was used meanwhile waits in the journal, and counts once."""
    database = Database(DatabaseSettings(url=own_server.new(), patience_s=0.5))
    accounts = await opened(database, journal=str(tmp_path / "journal"))
    record = await key((accounts,), requests_per_minute=100)
    running = [await asked(accounts, record)]  # a lease of five
    own_server.kill()
    running += [await asked(accounts, record) for _ in range(4)]
    assert None not in running
    with pytest.raises(Overloaded, match="cannot be reached"):
        await asked(accounts, record)
    for request in running:
        settle(accounts, record, request)
    with pytest.raises(OSError, match="does not answer"):
        await accounts.flush()
    assert "store" in accounts.health.troubles
    own_server.start()
    assert await _once_back(accounts, record) is not None
    await accounts.flush()
    await accounts.flush()
    assert sum(usage.requests for usage in (await accounts.usage("", "9")).values()) == 5
    await accounts.close()
    database.close()


async def _once_back(accounts: Accounts, record: KeyRecord) -> Request | None:
    """Return what is answered when the server takes connections again: that lasts longer than a caller's patience."""
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return await asked(accounts, record)
        except Overloaded:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.05)


# --- one question ------------------------------------------------------------------------------------------------


@needs_redis
@pytest.mark.parametrize("mode", ["seats", "money"])
async def test_the_database_answers_as_the_script_of_redis_does(mode: str, database: Database, tmp_path: Path) -> None:
    """Random questions of three gateways: asked, repeated, late, with returns, of a store that forgot."""
    server = RedisServer(tmp_path)
    server.start()
    client = connect(server.url, Tls(), retries=0)
    draw = random.Random(mode)
    theirs = {name: DatabaseLeases(database, Health()) for name in ("aa", "bb", "cc")}
    for name, one in theirs.items():
        one.name = name
    have: dict[tuple[str, str], int] = {}
    asked_by: dict[str, list[LeaseQuestion]] = {name: [] for name in theirs}
    try:
        for _ in range(150):
            me = draw.choice(sorted(theirs))
            label = "" if mode == "seats" else draw.choice(["2026-11-22", "2026-11-23"])
            held = have.get((me, label), 0)
            back = draw.randrange(held + 1) if draw.random() < 0.4 else 0
            returns = ((label, back),) if back else ()
            totals = {of: amount - back * (of == label) for (who, of), amount in have.items() if who == me}
            totals = {of: amount for of, amount in totals.items() if amount}
            want = draw.randrange(1, 40)
            least = draw.randrange(1, want + 1)
            question = LeaseQuestion(
                len(asked_by[me]) + 1, mode, label, want, least, 100, "2026-11-21", returns, totals
            )
            kind = draw.choices(["new", "again", "late"], [8, 1, 1])[0]
            if kind == "new" or len(asked_by[me]) < 2:
                asked_by[me].append(question)
            else:
                question = asked_by[me][-1 if kind == "again" else -2]
            answers = await _redis(client, me, question), await theirs[me].ask("lim", question)
            assert answers[1] == dataclasses.replace(answers[0], oldest=answers[1].oldest)
            if question is asked_by[me][-1] and kind != "again":
                have[me, label] = held - back + answers[0].grant
            if draw.random() < 0.03:
                server.ask("FLUSHALL")
                for table in ("leases", "lease_answers", "alive"):
                    database.execute(f"delete from sluicegate.{table}")
                asked_by = {name: [] for name in theirs}
    finally:
        await client.aclose()
        server.kill()


async def _redis(client: Any, me: str, question: LeaseQuestion) -> LeaseReply:
    return read_reply(await client.eval(LEASE, 1, "lease", *question.arguments(me, "alive:")), question)


# --- by hand -----------------------------------------------------------------------------------------------------


def test_the_command_works_on_the_database(url: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("SLUICEGATE_DATABASE__URL", url)
    assert main(["keys", "create", "billing", "--team", "finance"]) == 0
    secret = capsys.readouterr().out.strip()
    assert main(["keys", "list"]) == 0
    assert "billing" in capsys.readouterr().out
    assert main(["keys", "revoke", "billing"]) == 0
    database = Database(DatabaseSettings(url=url))

    async def found() -> None:
        accounts = await opened(database)
        with pytest.raises(AuthenticationError, match="revoked"):
            accounts.keyring.find(secret)
        await accounts.close()

    asyncio.run(found())
    database.close()


def test_a_database_that_cannot_be_used_is_one_line(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setenv("SLUICEGATE_DATABASE__URL", "postgresql://postgres:hunter2@127.0.0.1:1/none")
    assert main(["keys", "list"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("sluicegate: [database] url cannot be used")
    assert "hunter2" not in said
    assert os.environ["SLUICEGATE_DATABASE__URL"]
