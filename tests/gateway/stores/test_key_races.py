"""Operators of several gateways change one key at the same time: each change is made to what the other one left."""

from __future__ import annotations

import asyncio
import dataclasses
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.accounts.changes import create, revoke, rotate
from sluicegate.gateway.accounts.records import KeyRecord, digest_of, new_secret
from sluicegate.gateway.accounts.stores.base import KeyExists
from sluicegate.gateway.commands.cli import main
from sluicegate.gateway.database import Database
from sluicegate.gateway.settings import AccountSettings, DatabaseSettings, Limits
from sluicegate.plugins import AuthenticationError
from tests.cache.redis_server import BINARY, RedisServer, needs_redis
from tests.gateway.stores.postgres_server import needs_postgres

STORES = [
    pytest.param("redis", marks=needs_redis),
    pytest.param("postgres", marks=needs_postgres),
]
Pair = tuple[Accounts, Accounts]


@pytest.fixture(params=STORES)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[dict[str, Any], Database | None]]:
    """Yield the settings of a store that two gateways use, and its database."""
    if request.param == "redis":
        assert BINARY is not None
        server = RedisServer(tmp_path)
        server.start()
        yield {"url": server.url}, None
        server.kill()
    else:
        database = Database(DatabaseSettings(url=request.getfixturevalue("url")))
        database.open()
        yield {}, database
        database.close()


@pytest.fixture
async def pair(stored: tuple[dict[str, Any], Database | None]) -> AsyncIterator[Pair]:
    """Yield two gateways that read keys again only where they are told to."""
    settings, database = stored
    found = tuple([Accounts(AccountSettings(flush_s=3600.0, **settings), database=database) for _ in range(2)])
    for accounts in found:
        await accounts.start()
    assert len(found) == 2
    yield found
    for accounts in found:
        await accounts.close()


async def made(pair: Pair, key_id: str = "a") -> tuple[KeyRecord, str]:
    record, secret = create(pair[0], key_id, limits=Limits())
    await pair[0].add_key(record)
    await pair[1].refresh()
    return record, secret


def is_let_in(accounts: Accounts, secret: str) -> bool:
    try:
        return bool(accounts.keyring.find(secret))
    except AuthenticationError:
        return False


async def test_other_limits_do_not_bring_back_the_secret_that_was_replaced(pair: Pair) -> None:
    """A secret that leaked is replaced at one gateway; the other, which has not read that yet, sets a limit."""
    _, leaked = await made(pair)
    secret = new_secret()
    await pair[0].change_key("a", lambda found: rotate(found, secret, grace_s=0))
    limits = Limits(concurrency=3)
    changed = await pair[1].change_key("a", lambda found: dataclasses.replace(found, limits=limits))
    assert (changed.digest, changed.limits) == (digest_of(secret), limits)
    for accounts in pair:
        await accounts.refresh()
        assert (is_let_in(accounts, leaked), is_let_in(accounts, secret)) == (False, True)
        assert accounts.key("a").limits == limits


async def test_a_secret_is_replaced_by_one_after_the_other(pair: Pair) -> None:
    """Both operators hold a secret; the first one's has its grace, as where the second had known of it."""
    _, old = await made(pair)
    first, second = new_secret(), new_secret()
    await pair[0].change_key("a", lambda found: rotate(found, first, grace_s=60))
    await pair[1].change_key("a", lambda found: rotate(found, second, grace_s=60))
    await pair[0].refresh()
    for accounts in pair:
        assert [is_let_in(accounts, one) for one in (old, first, second)] == [False, True, True]


async def test_a_name_is_given_once(pair: Pair) -> None:
    """Whoever asked for it at the same moment gets an error, and no secret that nobody knows."""
    asked = [create(accounts, "a", limits=Limits()) for accounts in pair]
    ended = await asyncio.gather(
        *(accounts.add_key(record) for accounts, (record, _) in zip(pair, asked, strict=True)), return_exceptions=True
    )
    assert [type(one) for one in ended if one is not None] == [KeyExists]
    won = ended.index(None)
    for accounts in pair:
        await accounts.refresh()
        assert [is_let_in(accounts, secret) for _, secret in asked] == [one == won for one in range(2)]


async def test_whatever_is_changed_at_the_same_time_nothing_undoes_a_revocation(pair: Pair) -> None:
    """Secrets, limits and revocations in any order, forty at a time: no secret of a revoked key is let in anywhere."""
    draw = random.Random(7)
    for at in range(5):
        key_id = f"k{at}"
        _, secret = await made(pair, key_id)
        secrets = [secret, *(new_secret() for _ in range(20))]

        def change(turn: int, key_id: str = key_id, secrets: list[str] = secrets) -> Any:
            accounts = pair[draw.randrange(2)]
            if turn == 30:
                return accounts.change_key(key_id, revoke)
            if turn % 2:
                return accounts.change_key(key_id, lambda found: rotate(found, secrets[turn // 2], grace_s=60))
            return accounts.change_key(key_id, lambda found: dataclasses.replace(found, limits=Limits(turn)))

        await asyncio.gather(*map(change, range(40)), return_exceptions=True)
        for accounts in pair:
            await accounts.refresh()
            assert accounts.key(key_id).state(0.0) == "revoked"
            assert not any(is_let_in(accounts, one) for one in secrets)


def test_the_command_changes_what_is_there_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Between the reading of a key and its change another process may have made another of it."""
    path = tmp_path / "accounts.db"
    monkeypatch.setenv("SLUICEGATE_ACCOUNTS__PATH", str(path))
    assert main(["keys", "create", "a"]) == 0
    capsys.readouterr()
    from sluicegate.gateway.commands import keys

    own = keys._own

    def read_and_revoked_meanwhile(accounts: Accounts, key_id: str) -> KeyRecord:
        found = own(accounts, key_id)
        accounts.store.edit_key(key_id, lambda before: revoke(before or found))
        return found

    monkeypatch.setattr(keys, "_own", read_and_revoked_meanwhile)
    assert main(["keys", "rotate", "a"]) == 2
    said = capsys.readouterr()
    assert (said.out, "is revoked" in said.err) == ("", True)
