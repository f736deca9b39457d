"""Keys and usage are kept: across restarts, across kills, and never twice."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sluicegate.gateway.accounts import Accounts
from sluicegate.gateway.accounts.changes import create, revoke, rotate
from sluicegate.gateway.accounts.health import Health, fault_of_store
from sluicegate.gateway.accounts.journal.journal import Journal
from sluicegate.gateway.accounts.parsing import ImplausibleRow, read_key, read_limits
from sluicegate.gateway.accounts.records import NANOS, UsageKey, UsageSum, encode_key, encode_limits, new_secret
from sluicegate.gateway.accounts.stores.base import AccountStore, MemoryAccountStore, creation
from sluicegate.gateway.accounts.stores.sqlite import SqliteAccountStore
from sluicegate.gateway.settings import AccountSettings, Limits, PriceSettings
from sluicegate.plugins import AuthenticationError, Caller, ConfigurationError, RateLimited, Sampling
from sluicegate.plugins import Usage as Tokens
from sluicegate.plugins.testing import make_outcome, make_request

KEY = UsageKey("2026-11-21", "a", "blue", "search", "m")
ONE = UsageSum(requests=1, prompt_tokens=5, completion_tokens=7, cost_nanos=19)
SETTINGS = AccountSettings(flush_s=60.0, prices={"*": PriceSettings(input=1.0, output=2.0)})


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AccountStore]:
    made: AccountStore = (
        MemoryAccountStore() if request.param == "memory" else SqliteAccountStore(tmp_path / "accounts.db")
    )
    made.open()
    yield made
    made.close()


def settings(folder: Path) -> AccountSettings:
    return dataclasses.replace(SETTINGS, path=str(folder / "accounts.db"))


async def opened(folder: Path) -> Accounts:
    accounts = Accounts(settings(folder))
    await accounts.start()
    return accounts


def test_sums_add_up_by_day_and_month(store: AccountStore) -> None:
    store.add("j", 1, {KEY: ONE})
    store.add("j", 2, {KEY: ONE, KEY._replace(day="2026-11-02"): ONE})
    assert store.usage("2026-11-21", "2026-11-30")[KEY].prompt_tokens == 10
    assert len(store.usage("2026-11-01", "2026-11-30")) == 2
    assert store.spent("2026-11-21") == {("key", "a"): (38, 57), ("team", "blue"): (38, 57)}


def test_a_segment_counts_once(tmp_path: Path) -> None:
    store = SqliteAccountStore(tmp_path / "accounts.db")
    store.open()
    for _ in range(3):
        store.add("j", 1, {KEY: ONE})
    assert store.usage("", "9")[KEY].requests == 1
    assert (store.applied("j"), store.applied("other")) == (1, 0)
    store.close()


def test_a_change_of_a_key_changes_the_version(store: AccountStore) -> None:
    before = store.version()
    record, _ = create(Accounts(SETTINGS), "a", limits=Limits(budget_day=1.5), models=["m"])
    store.edit_key(record.id, creation(record))
    store.put_team("blue", Limits(concurrency=2))
    assert store.version() != before
    assert list(store.keys()) == [record]
    assert store.teams() == {"blue": Limits(concurrency=2)}


def test_a_record_survives_being_written_down() -> None:
    record, secret = create(
        Accounts(SETTINGS), "a", limits=Limits(tokens_per_minute=5), expires=5e9, tenant="t", team="b", routes=["/v1/*"]
    )
    assert read_key("a", encode_key(record)) == record
    assert secret not in encode_key(record).decode()
    assert record.digest not in str(record.public())


def test_a_record_says_only_what_it_has() -> None:
    """So that gateways of the last release, which know no fields of this one, read keys that use none."""
    record, _ = create(Accounts(SETTINGS), "a", limits=Limits(tokens_per_minute=5))
    fields = json.loads(encode_key(record))
    assert set(fields) == {"id", "digest", "limits", "created_at_s"}
    assert fields["limits"] == {"tokens_per_minute": 5}
    assert json.loads(encode_limits(Limits())) == {}
    assert read_limits(encode_limits(Limits(budget_day=1.5))) == Limits(budget_day=1.5)


def test_a_key_that_a_newer_release_bounds_further_is_not_believed() -> None:
    """Whatever it was bounded by, here it would be good for more; a revoked one is good for nothing."""
    record, _ = create(Accounts(SETTINGS), "a", limits=Limits())
    fields = json.loads(encode_key(record))
    for more in ({"countries": ["DK"]}, {"limits": {"countries": 3}}):
        with pytest.raises(ImplausibleRow):
            read_key("a", json.dumps(fields | more))
        assert read_key("a", json.dumps(fields | more | {"revoked_at_s": 5.0})).revoked_at_s == 5.0
    assert read_key("a", json.dumps(fields | {"countries": []})) == record, "it says nothing"


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "accounts.db"
    made = sqlite3.connect(path)
    made.execute("PRAGMA user_version = 99")
    made.close()
    with pytest.raises(ConfigurationError, match="newer release"):
        SqliteAccountStore(path).open()


async def test_usage_and_budgets_survive_a_restart(tmp_path: Path) -> None:
    accounts = await opened(tmp_path)
    record, _ = create(accounts, "a", limits=Limits(budget_month=0.001))
    await accounts.add_key(record)
    request = make_request(sampling=Sampling(max_tokens=50))
    accounts.reserve(request, record.caller())
    accounts.settle(make_outcome(request=request, caller=record.caller(), usage=Tokens(500, 200)))
    await accounts.close()

    again = await opened(tmp_path)
    [usage] = (await again.usage("", "9")).values()
    assert (usage.requests, usage.cost_nanos) == (1, 900_000)
    with pytest.raises(RateLimited, match=r"0\.000100 left"):
        again.reserve(make_request(sampling=Sampling(max_tokens=50)), record.caller())
    await again.close()


async def test_revoked_and_rotated_keys_are_heeded_at_once(tmp_path: Path) -> None:
    accounts = await opened(tmp_path)
    record, old = create(accounts, "a", limits=Limits())
    await accounts.add_key(record)
    new, newest = new_secret(), new_secret()
    await accounts.change_key("a", lambda found: rotate(found, new, grace_s=60))
    assert accounts.keyring.find(old)[0] == accounts.keyring.find(new)[0]
    await accounts.change_key("a", lambda found: rotate(found, newest, grace_s=0))
    for gone in (old, new):
        with pytest.raises(AuthenticationError):
            accounts.keyring.find(gone)
    await accounts.change_key("a", revoke)
    with pytest.raises(AuthenticationError, match="revoked"):
        accounts.keyring.find(newest)
    await accounts.close()


async def test_a_change_by_another_process_is_heeded_with_the_next_flush(tmp_path: Path) -> None:
    accounts = await opened(tmp_path)
    beside = SqliteAccountStore(tmp_path / "accounts.db")
    beside.open()
    record, secret = create(accounts, "a", limits=Limits(concurrency=1))
    beside.edit_key(record.id, creation(record))
    await accounts.refresh()
    assert accounts.keyring.find(secret)[1].key_id == "a"
    beside.close()
    await accounts.close()


async def test_one_journal_has_one_writer(tmp_path: Path) -> None:
    accounts = await opened(tmp_path)
    with pytest.raises(ConfigurationError, match="another gateway"):
        await opened(tmp_path)
    await accounts.close()


async def test_what_the_store_does_not_take_waits_in_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accounts = await opened(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(accounts.store, "add", _fail)
        _use(accounts, "r1")
        with pytest.raises(OSError, match="full"):
            await accounts.flush()
    _use(accounts, "r2")
    await accounts.flush()
    assert [u.requests for u in (await accounts.usage("", "9")).values()] == [2]
    assert len(list((tmp_path / "accounts.db.journal").glob("*.log"))) == 1
    await accounts.close()


def _fail(*arguments: object) -> None:
    raise OSError("disk full")


def _use(accounts: Accounts, request_id: str) -> None:
    request = make_request(id=request_id)
    accounts.reserve(request, Caller(key_id="a"))
    accounts.settle(make_outcome(request=request, caller=Caller(key_id="a")))


@pytest.mark.parametrize("cut", [0, 1, 7, 40])
def test_a_torn_last_line_loses_that_line_only(tmp_path: Path, cut: int) -> None:
    journal = Journal(tmp_path)
    journal.take()
    journal.recover(0)
    for number in range(3):
        journal.settled(f"r{number}", KEY, ONE)
    journal.close()
    [path] = tmp_path.glob("*.log")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - cut])
    again = Journal(tmp_path)
    again.take()
    _, found = again.recover(0)
    assert found[KEY].requests == (3 if cut <= 1 else 2)
    again.close()


SERVER = """
import sys
from sluicegate.gateway.testing import TestApp
accounts = {"path": sys.argv[1], "flush_s": float(sys.argv[2]), "prices": {"*": {"input": 1.0, "output": 2.0}}}
pipeline = {"admit": ["api-keys", "limits"], "record": ["ledger"]}
with TestApp(pipeline=pipeline, accounts=accounts, script=lambda job: ["a "] * (1000 if job.n == 2 else 3),
             delay_s=0.001) as app:
    print(app.url, flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize("flush_s", [0.02, 60.0])
def test_kill_9_loses_nothing_that_was_accepted(tmp_path: Path, flush_s: float) -> None:
    """A gateway in a process of its own is killed in the middle of its work; every answer that a client got is in the
    books afterwards, to the token, and a stream that was running is charged what it had reserved."""
    path = tmp_path / "accounts.db"
    secret = _cli(path, "create", "a").strip()
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, str(path), str(flush_s)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    url = server.stdout.readline().strip()
    client = httpx.Client(base_url=url, headers={"authorization": f"Bearer {secret}"}, timeout=30)
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}
    told = [client.post("/v1/chat/completions", json=body).json()["usage"] for _ in range(40)]
    with client.stream("POST", "/v1/chat/completions", json={**body, "stream": True, "n": 2, "max_tokens": 2000}) as s:
        pieces = s.iter_bytes()
        next(pieces)
        time.sleep(0.05)
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    client.close()

    [usage] = _recovered(path)
    assert (usage.requests, usage.interrupted) == (41, 1)
    assert usage.prompt_tokens == sum(one["prompt_tokens"] for one in told)
    assert usage.completion_tokens == sum(one["completion_tokens"] for one in told)
    settled = 1000 * usage.prompt_tokens + 2000 * usage.completion_tokens
    assert settled + 2000 * 2 * 2000 <= usage.cost_nanos <= settled + NANOS // 100
    assert _recovered(path) == [usage]  # and not a second time


def _recovered(path: Path) -> list[UsageSum]:
    import asyncio

    async def run() -> list[UsageSum]:
        accounts = await opened(path.parent)
        try:
            return list((await accounts.usage("", "9")).values())
        finally:
            await accounts.close()

    return asyncio.run(run())


def _cli(path: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", "keys", *arguments]
    environ = {**os.environ, "SLUICEGATE_ACCOUNTS__PATH": str(path)}
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True).stdout


def test_the_log_of_a_trouble_is_short_however_long_the_error_is(caplog: pytest.LogCaptureFixture) -> None:
    """Errors of Sentinel hold the whole client."""
    Health().begin("store", "the store does not take usage", RuntimeError("No master found : <" + "x" * 5_000 + ">"))
    assert "the store does not take usage [No master found" in caplog.text
    assert len(caplog.text) < 500


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (sqlite3.OperationalError("database or disk is full"), "database or disk is full"),
        (OSError(errno.EROFS, "x", "<client>"), "Read-only file system"),
        (
            type("MasterNotFoundError", (Exception,), {})("No master found for 'x' : <client>"),
            "no Sentinel names a main",
        ),
    ],
)
def test_a_fault_of_a_store_is_said_in_words(error: Exception, said: str) -> None:
    assert said in fault_of_store(error)
    assert "<client>" not in fault_of_store(error)
