"""The stores of the books misbehave: through HTTP, with a real Redis, a real SQLite file and a kernel that says no."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.accounts.changes import revoke
from sluicegate.gateway.accounts.records import digest_of
from sluicegate.gateway.accounts.stores.redis import RedisAccountStore
from sluicegate.gateway.accounts.stores.sqlite import SqliteAccountStore
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import Generation, Job, Piece, Usage
from tests.altered import altered
from tests.cache.redis_proxy import RedisProxy
from tests.cache.redis_server import RedisServer, needs_redis
from tests.waiting import until

PIPELINE = {"admit": ["api-keys", "limits"], "record": ["ledger"]}
ADMIN = {"id": "root", "sha256": digest_of("root-secret"), "scopes": ["admin"]}
PRICES = {"*": {"input": 1000.0, "output": 1000.0}}
BODY = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 10}
P = "sluicegate:accounts"


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[RedisServer]:
    server = RedisServer(tmp_path)
    server.start()
    yield server
    if server.process is not None:
        server.process.send_signal(signal.SIGCONT)
        server.kill()


def app(accounts: dict[str, Any], **more: Any) -> TestApp:
    accounts = {"flush_s": 0.05, "prices": PRICES, **accounts}
    return TestApp(pipeline=PIPELINE, keys=[ADMIN], accounts=accounts, **more)


def on_disk(folder: Path, **more: Any) -> dict[str, Any]:
    return {"path": str(folder / "accounts.db"), **more}


def new_key(gateway: TestApp, id: str, **limits: Any) -> str:
    answer = gateway.client.post("/admin/keys", json={"id": id, "limits": limits}, headers=bearer("root-secret"))
    assert answer.status_code == 200, answer.text
    return str(answer.json()["key"])


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


def ask(gateway: TestApp, secret: str, **fields: Any) -> httpx.Response:
    return gateway.client.post("/v1/chat/completions", json={**BODY, **fields}, headers=bearer(secret))


def ask_together(gateway: TestApp, secret: str, count: int) -> list[int]:
    with ThreadPoolExecutor(count) as pool:
        return [answer.status_code for answer in pool.map(lambda _: ask(gateway, secret), range(count))]


def usage_of(gateway: TestApp, id: str) -> dict[str, Any]:
    """Return the usage of a key, once the books answer."""
    until(lambda: _usage(gateway).status_code == 200, 30)
    rows = [row for row in _usage(gateway).json()["data"] if row["key_id"] == id]
    return dict(rows[0]) if rows else {}


def _usage(gateway: TestApp) -> httpx.Response:
    return gateway.client.get("/admin/usage?since=2000-01-01&by=key_id", headers=bearer("root-secret"))


def metric(gateway: TestApp, event: str) -> float:
    return float(gateway.runtime.accounts.health.counts[event])


def readiness(gateway: TestApp) -> tuple[int, str]:
    answer = gateway.client.get("/readyz")
    return answer.status_code, answer.text


class Lying:
    """A generation that ends with usage as a server might claim it."""

    timeline = None

    def __init__(self, usage: Any) -> None:
        self._usage = usage

    async def begin(self) -> None:
        """Do nothing: there is nothing to prepare."""

    async def __aiter__(self) -> Any:
        yield Piece(0, "hello", finish_reason="stop")

    def cancel(self) -> None:
        """Do nothing: nothing runs."""

    @property
    def usage(self) -> Any:
        return self._usage


def lie(gateway: TestApp, usage: Any) -> None:
    """Make the model claim `usage` from now on."""

    async def generate(job: Job) -> Generation:
        return Lying(usage)  # type: ignore[return-value]

    gateway.model.generate = generate  # type: ignore[method-assign]


# --- one tenant's figure ----------------------------------------------------------------------------------------

FIGURES = [
    Usage(10, 12_000_000_000_000),
    Usage(10, 2**63),
    Usage(2**200, 5),
    Usage(-5, 5),
    Usage(5, -(2**70)),
    Usage(5, 5, 10**30),
    Usage(1.5, float("inf")),  # type: ignore[arg-type]
    Usage(float("nan"), 5),  # type: ignore[arg-type]
    Usage("7", None),  # type: ignore[arg-type]
    Usage(True, [1]),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("store", ["sqlite", pytest.param("redis", marks=needs_redis)])
def test_one_tenants_figure_stops_nobody_elses_books_nor_a_revocation(
    tmp_path: Path, request: pytest.FixtureRequest, store: str
) -> None:
    accounts = on_disk(tmp_path) if store == "sqlite" else {"url": request.getfixturevalue("redis").url}
    with app(accounts) as gateway:
        bad, good = new_key(gateway, "bad"), new_key(gateway, "good")
        for figure in FIGURES:
            lie(gateway, figure)
            with contextlib.suppress(httpx.TransportError):  # no JSON can say what this model claims
                httpx.post(f"{gateway.url}/v1/chat/completions", json=BODY, headers=bearer(bad), trust_env=False)
        lie(gateway, Usage(5, 7))
        assert ask(gateway, good).status_code == 200
        assert usage_of(gateway, "good")["completion_tokens"] == 7
        charged = usage_of(gateway, "bad")
        assert charged["requests"] == len(FIGURES)
        assert charged["cost"] > 0
        assert charged["completion_tokens"] <= 4 * 10**9
        assert metric(gateway, "figures_bounded") >= len(FIGURES)
        assert metric(gateway, "flush_failures") == 0
        revoke_beside(accounts, "good")
        until(lambda: ask(gateway, good).status_code == 401, 30)
    with app(accounts) as again:
        assert usage_of(again, "bad")["requests"] == len(FIGURES)


def revoke_beside(accounts: dict[str, Any], id: str) -> None:
    """Revoke a key as `sluicegate keys revoke` does in a process of its own."""
    store = SqliteAccountStore(Path(accounts["path"])) if "path" in accounts else RedisAccountStore(accounts["url"])
    store.open()
    store.edit_key(id, lambda found: revoke(found))  # type: ignore[arg-type]
    store.close()


def test_a_limit_past_every_stores_range_is_refused_at_the_door(tmp_path: Path) -> None:
    with app(on_disk(tmp_path)) as gateway:
        for limits in ({"requests_per_minute": 10**30}, {"budget_day": 1e300}, {"concurrency": 2**63}):
            body = {"id": "x", "limits": limits}
            answer = gateway.client.post("/admin/keys", json=body, headers=bearer("root-secret"))
            assert answer.status_code == 400, answer.text
        long = gateway.client.post("/admin/keys", json={"id": "x", "team": "t" * 300}, headers=bearer("root-secret"))
        assert long.status_code == 400
        secret = new_key(gateway, "x", requests_per_minute=10**12)
        forever = gateway.client.post("/admin/keys/x/rotate", json={"grace_s": 1e300}, headers=bearer("root-secret"))
        assert forever.status_code == 400
        assert ask(gateway, secret).status_code == 200


def test_a_name_of_a_model_that_no_store_takes_is_cut(tmp_path: Path) -> None:
    with app(on_disk(tmp_path)) as gateway:
        secret = new_key(gateway, "a")
        for name in ("m" * 512, "\0", "é" * 300):
            assert ask(gateway, secret, model=name).status_code == 404
        assert ask(gateway, secret).status_code == 200
        assert usage_of(gateway, "a")["requests"] == 4


def test_a_row_that_the_store_refuses_is_set_aside_and_others_are_written(tmp_path: Path) -> None:
    """A trigger stands for whatever a file may refuse one row for."""
    with app(on_disk(tmp_path)) as gateway:
        bad, good = new_key(gateway, "bad"), new_key(gateway, "good")
        with sqlite3.connect(tmp_path / "accounts.db") as db:
            db.execute(
                "CREATE TRIGGER no BEFORE INSERT ON usage WHEN new.key_id = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END"
            )
        assert [ask(gateway, secret).status_code for secret in (bad, good, bad)] == [200] * 3
        assert usage_of(gateway, "good")["requests"] == 1
        until(lambda: metric(gateway, "rows_set_aside") > 0, 30)
        assert metric(gateway, "flush_failures") == 0
        with sqlite3.connect(tmp_path / "accounts.db") as db:
            assert "bad" in db.execute("SELECT group_concat(row) FROM set_aside").fetchone()[0]


# --- keys are read whatever the flush does ----------------------------------------------------------------------


@pytest.mark.parametrize("hangs", [False, True], ids=["fails", "hangs"])
def test_a_revoked_key_is_refused_though_the_flush_fails_or_hangs(tmp_path: Path, hangs: bool) -> None:
    accounts = on_disk(tmp_path)
    with app(accounts) as gateway:
        secret = new_key(gateway, "a")
        assert ask(gateway, secret).status_code == 200
        store, release = gateway.runtime.accounts.store, threading.Event()

        def add(*arguments: object) -> int:
            release.wait(60 if hangs else 0)
            raise sqlite3.OperationalError("database is locked")

        original, store.add = store.add, add  # type: ignore[method-assign]
        statuses = [200, ask(gateway, secret).status_code]
        revoke_beside(accounts, "a")
        until(lambda: statuses.append(ask(gateway, secret).status_code) or statuses[-1] == 401, 30)  # type: ignore[func-returns-value]
        release.set()
        store.add = original  # type: ignore[method-assign]
        assert usage_of(gateway, "a")["requests"] == statuses.count(200)


def test_a_store_that_is_locked_for_long_costs_nobody_an_answer(tmp_path: Path) -> None:
    with app(on_disk(tmp_path)) as gateway:
        secret = new_key(gateway, "a")
        holder = sqlite3.connect(tmp_path / "accounts.db", isolation_level=None)
        holder.execute("BEGIN EXCLUSIVE")
        assert {ask(gateway, secret).status_code for _ in range(5)} == {200}
        until(lambda: "store" in readiness(gateway)[1], 30)
        assert readiness(gateway)[0] == 200
        holder.execute("ROLLBACK")
        holder.close()
        until(lambda: readiness(gateway) == (200, "ready"), 30)
        assert usage_of(gateway, "a")["requests"] == 5


def test_an_older_reading_of_a_key_does_not_undo_its_revocation(tmp_path: Path) -> None:
    accounts = on_disk(tmp_path, flush_s=3600.0)
    with app(accounts) as gateway:
        secret = new_key(gateway, "a")
        revoke_beside(accounts, "a")
        rotated = gateway.client.post("/admin/keys/a/rotate", json={}, headers=bearer("root-secret"))
        assert rotated.json()["error"]["code"] == "key_revoked"
        limits = gateway.client.put("/admin/keys/a/limits", json={"concurrency": 5}, headers=bearer("root-secret"))
        assert (limits.json()["state"], limits.json()["limits"]) == ("revoked", {"concurrency": 5})
        books = gateway.runtime.accounts
        asyncio.run_coroutine_threadsafe(books.refresh(), books._tasks[0].get_loop())
        until(lambda: ask(gateway, secret).status_code == 401, 30)


# --- rows that others wrote -------------------------------------------------------------------------------------

STRANGE = ["", "null", "[]", "{", "7", '{"id": "b"}', '{"id": "b", "digest": "zz"}', "\x00", "x" * 2_000_000]
STRANGE += [
    json.dumps({"id": "b", "digest": "0" * 64, **more})
    for more in (
        {"limits": 5},
        {"limits": {"budget_day": -1}},
        {"limits": {"colour": 1}},
        {"limits": {"concurrency": 10**40}},
        {"scopes": "admin"},
        {"scopes": [1]},
        {"tenant": 5},
        {"expires_at_s": "never"},
        {"previous_digest": "x"},
        {"previous_until_s": None},
    )
]


def test_a_row_that_is_no_key_is_not_believed_and_others_are(tmp_path: Path) -> None:
    with app(on_disk(tmp_path)) as gateway:
        secret, kept = new_key(gateway, "a"), new_key(gateway, "kept")
        with sqlite3.connect(tmp_path / "accounts.db") as db:
            rows = [(f"s{at}", row) for at, row in enumerate(STRANGE)]
            db.executemany("INSERT INTO keys VALUES (?, ?)", [*rows, ("blob", b"\xff\xfe"), ("number", 12)])
            db.execute("INSERT INTO keys VALUES (CAST(x'ff41' AS TEXT), CAST(x'ff' AS TEXT))")
            db.execute("UPDATE keys SET record = 'garbage' WHERE id = 'kept'")
            db.execute("UPDATE changes SET count = count + 1")
        until(lambda: metric(gateway, "keys_set_aside") >= len(STRANGE), 30)
        assert ask(gateway, secret).status_code == 200
        assert ask(gateway, kept).status_code == 200  # as it was last known
        assert "rows of keys" in readiness(gateway)[1]
        later = new_key(gateway, "later")
        assert ask(gateway, later).status_code == 200
    with app(on_disk(tmp_path)) as again:
        assert ask(again, secret).status_code == 200
        assert ask(again, kept).status_code == 401


def test_a_team_whose_limits_cannot_be_read_is_not_free_of_them(tmp_path: Path) -> None:
    with app(on_disk(tmp_path)) as gateway:
        body = {"id": "a", "team": "blue"}
        secret = gateway.client.post("/admin/keys", json=body, headers=bearer("root-secret")).json()["key"]
        with sqlite3.connect(tmp_path / "accounts.db") as db:
            db.execute("INSERT INTO teams VALUES ('blue', 'no limits')")
            db.execute("UPDATE changes SET count = count + 1")
        until(lambda: ask(gateway, secret).status_code == 503, 30)
        assert ask(gateway, secret).json()["error"]["code"] == "books_unavailable"
        gateway.client.put("/admin/teams/blue", json={"concurrency": 5}, headers=bearer("root-secret"))
        assert ask(gateway, secret).status_code == 200


def test_usage_that_somebody_edited_stops_no_other_row(tmp_path: Path) -> None:
    accounts = on_disk(tmp_path)
    with app(accounts) as gateway:
        secret, other = new_key(gateway, "a", budget_month=500.0), new_key(gateway, "b")
        assert [ask(gateway, one).status_code for one in (secret, other)] == [200, 200]
        assert usage_of(gateway, "a")["requests"] == 1
        with sqlite3.connect(tmp_path / "accounts.db") as db:
            db.execute("UPDATE usage SET requests = 'many', cost_nanos = -9 WHERE key_id = 'a'")
            db.execute("UPDATE usage SET cost_nanos = 9223372036854775807 WHERE key_id = 'b'")
            db.execute("UPDATE segments SET applied = 'soon'")
        assert [ask(gateway, one).status_code for one in (secret, other)] == [200, 200]
        assert usage_of(gateway, "b")["requests"] == 2
    with app(accounts) as again:
        assert ask(again, other).status_code == 200
        assert usage_of(again, "b")["requests"] == 3


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_database_is_one_sentence_at_the_start(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "accounts.db").write_bytes(content)
    with pytest.raises(RuntimeError, match="is damaged or no file of SQLite; move it away"), app(on_disk(tmp_path)):
        pass


def test_a_file_of_another_program_is_one_sentence_at_the_start(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "accounts.db") as db:
        db.execute("CREATE TABLE usage (colour TEXT)")
    with pytest.raises(RuntimeError, match="not this product's"), app(on_disk(tmp_path)):
        pass


def test_a_file_replaced_under_the_gateway_is_an_alarm(tmp_path: Path) -> None:
    with app(on_disk(tmp_path)) as gateway:
        secret = new_key(gateway, "a")
        (tmp_path / "accounts.db").rename(tmp_path / "moved.db")
        (tmp_path / "accounts.db").touch()
        until(lambda: "was replaced" in readiness(gateway)[1], 30)
        assert ask(gateway, secret).status_code == 200


def test_keys_that_cannot_be_read_for_too_long_are_a_503_and_no_401(tmp_path: Path) -> None:
    with app(on_disk(tmp_path, keep_keys_s=0.3)) as gateway:
        secret = new_key(gateway, "a")
        assert ask(gateway, secret).status_code == 200
        (tmp_path / "accounts.db").rename(tmp_path / "moved.db")
        until(lambda: ask(gateway, secret).status_code == 503, 30)
        refused = ask(gateway, secret)
        assert refused.json()["error"]["code"] == "books_unavailable"
        assert int(refused.headers["retry-after"]) > 0
        assert _usage(gateway).status_code == 200  # the configuration's own key is not in doubt
        (tmp_path / "moved.db").rename(tmp_path / "accounts.db")
        until(lambda: ask(gateway, secret).status_code == 200, 30)


# --- the journal --------------------------------------------------------------------------------------------------


def test_a_poisoned_journal_is_no_reason_not_to_start(tmp_path: Path) -> None:
    with app(on_disk(tmp_path)) as gateway:
        secret = new_key(gateway, "a")
    folder = tmp_path / "accounts.db.journal"
    day = time.strftime("%Y-%m-%d", time.gmtime())
    huge = ["s", "x", [day, "a", "", "", "m"], [1, 0, 0, 0, 10, 0, 12 * 10**12, 12 * 10**21]]
    good = ["s", "y", [day, "a", "", "", "m"], [1, 0, 0, 0, 10, 0, 5, 1000]]
    lines = [b"\xff\xfe", b"[1,2", json.dumps(huge).encode(), json.dumps(good).encode(), b'["s",1,2,3]']
    (folder / "000000000900.log").write_bytes(b"\n".join(lines) + b"\n")
    (folder / "x.log").write_text("a stranger")
    with app(on_disk(tmp_path)) as again:
        assert readiness(again)[0] == 200
        assert ask(again, secret).status_code == 200
        assert usage_of(again, "a")["requests"] == 2
        assert metric(again, "lines_set_aside") == 4
    assert b"[1,2" in (folder / "set-aside.lines").read_bytes()
    assert (folder / "x.log").exists()


def test_journal_lines_never_reach_a_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next segment cannot be opened while connections come and go: whoever has a low number hears nothing."""
    with app(on_disk(tmp_path)) as gateway:
        secret = new_key(gateway, "a")
        assert ask(gateway, secret).status_code == 200
        real, failed = os.open, []

        def no_more_files(path: Any, flags: int, *more: Any, **named: Any) -> int:
            if str(path).endswith(".log") and flags & os.O_CREAT:
                failed.append(path)
                raise OSError(24, "Too many open files")
            return real(path, flags, *more, **named)

        address = ("127.0.0.1", int(gateway.url.rsplit(":", 1)[1]))
        with monkeypatch.context() as patched:
            patched.setattr("sluicegate.gateway.accounts.journal.segment.os", altered(os, open=no_more_files))
            assert ask(gateway, secret).status_code == 200
            until(lambda: bool(failed), 30)
            idle = [socket.create_connection(address) for _ in range(20)]
            assert {ask(gateway, secret).status_code for _ in range(10)} == {200}
            count = len(failed)
            until(lambda: len(failed) > count + 2, 30)
            assert readiness(gateway)[0] == 200
            assert "segments" in readiness(gateway)[1]
        assert ask(gateway, secret).status_code == 200
        until(lambda: readiness(gateway) == (200, "ready"), 30)
        for connection in idle:
            connection.setblocking(False)
            with pytest.raises(BlockingIOError):
                connection.recv(1)
            connection.close()
        assert usage_of(gateway, "a")["requests"] == 13


SERVER = """
import resource, sys
from sluicegate.gateway.testing import TestApp
limit = int(sys.argv[2])
keys = [{"id": "root", "key": "root-secret", "scopes": ["admin"]}, {"id": "a", "key": "a-secret"}]
with TestApp(pipeline={"admit": ["api-keys", "limits"], "record": ["ledger"]}, keys=keys,
             accounts={"path": sys.argv[1], "flush_s": float(sys.argv[3])}) as app:
    print(app.url, flush=True)
    for line in sys.stdin:
        least = {"full": limit, "room": resource.RLIM_INFINITY}[line.strip()]
        resource.setrlimit(resource.RLIMIT_FSIZE, (least, resource.RLIM_INFINITY))
        print("done", flush=True)
"""


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS])
def test_a_journal_that_takes_no_lines_is_a_503_with_retry_after_and_heals_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    with app(on_disk(tmp_path)) as gateway:
        secret = new_key(gateway, "a")
        assert ask(gateway, secret).status_code == 200
        with monkeypatch.context() as patched:
            patched.setattr("sluicegate.gateway.accounts.journal.segment._write", full)
            until(lambda: readiness(gateway)[0] == 503 or ask(gateway, secret).status_code != 200, 30)
            refused = ask(gateway, secret, stream=True)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "books_unavailable")
            assert int(refused.headers["retry-after"]) > 0
            assert os.strerror(number) in readiness(gateway)[1]
        until(lambda: readiness(gateway) == (200, "ready"), 30)
        assert ask(gateway, secret).status_code == 200
        assert usage_of(gateway, "a")["requests"] == 2


def test_a_full_disk_is_a_503_with_retry_after_and_heals_by_itself(tmp_path: Path) -> None:
    """The kernel refuses to let files of this process grow, as it does when a quota is used up."""
    arguments = [str(tmp_path / "accounts.db"), "2000", "0.05"]
    server = subprocess.Popen(
        [sys.executable, "-c", SERVER, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        client = httpx.Client(base_url=server.stdout.readline().strip(), timeout=30, trust_env=False)

        def ask() -> httpx.Response:
            return client.post("/v1/chat/completions", json=BODY, headers=bearer("a-secret"))

        def told(state: str) -> None:
            server.stdin.write(state + "\n")  # type: ignore[union-attr]
            server.stdin.flush()  # type: ignore[union-attr]
            assert server.stdout.readline() == "done\n"  # type: ignore[union-attr]

        served = [ask().status_code for _ in range(5)]
        told("full")
        statuses: list[int] = []
        until(lambda: statuses.append(ask().status_code) or statuses[-1] != 200, 30)  # type: ignore[func-returns-value]
        refused = ask()
        assert refused.status_code == 503, refused.text
        assert refused.json()["error"]["code"] == "books_unavailable"
        assert int(refused.headers["retry-after"]) > 0
        state = client.get("/readyz")
        assert state.status_code == 503
        assert "make room" in state.text
        assert "sluicegate_books_trouble{" in client.get("/metrics").text
        told("room")
        until(lambda: ask().status_code == 200, 30)
        until(lambda: client.get("/readyz").text == "ready", 30)
        rows = client.get("/admin/usage?since=2000-01-01&by=key_id", headers=bearer("root-secret")).json()["data"]
        answered = len(served) + statuses.count(200) + 1
        assert sum(row["requests"] for row in rows if row["key_id"] == "a") == answered
    finally:
        server.stdin.close()
        server.kill()
        server.wait()


# --- a Redis that pauses, restarts, forgets or lies ----------------------------------------------------------------


@needs_redis
def test_a_pause_of_redis_eats_no_seats_and_no_requests_a_minute(redis: RedisServer) -> None:
    with app({"url": redis.url}) as gateway:
        secret = new_key(gateway, "a", concurrency=4, requests_per_minute=200)
        for _ in range(2):
            redis.freeze()
            assert set(ask_together(gateway, secret, 3)) <= {200, 503}
            redis.thaw()
            until(lambda: ask(gateway, secret).status_code == 200, 30)
        until(lambda: all(status == 200 for status in ask_together(gateway, secret, 4)), 30)
        until(lambda: held(redis, "seats") == 0, 30)
        served = [ask(gateway, secret).status_code for _ in range(150)]
        assert served.count(200) == 150
        used = usage_of(gateway, "a")["requests"]
        until(lambda: held(redis, "requests") <= used, 30)


def held(redis: RedisServer, what: str) -> int:
    """Return what Redis counts as taken of a limit of key `a`, by all gateways."""
    parts = redis.ask("HGETALL", f"{P}:lease:{what}:key:a").split(b"\r\n")[2::2]
    fields = dict(zip(parts[::2], parts[1::2], strict=False))
    return sum(int(amount) for field, amount in fields.items() if b"/" in field)


@needs_redis
def test_a_redis_that_answers_too_late_is_settled_when_it_is_quick_again(redis: RedisServer, tmp_path: Path) -> None:
    with RedisProxy(redis.port) as proxy, app({"url": f"redis://127.0.0.1:{proxy.port}/0"}) as gateway:
        secret = new_key(gateway, "a", concurrency=4, requests_per_minute=100)
        proxy.delay_s = 2.5
        assert {*ask_together(gateway, secret, 4)} == {503}
        proxy.delay_s = 0.0
        until(lambda: ask_together(gateway, secret, 4) == [200] * 4, 30)
        until(lambda: held(redis, "seats") == 0, 30)
        assert held(redis, "requests") < 20


@needs_redis
def test_a_connection_lost_after_the_script_ran_takes_nothing_twice(redis: RedisServer) -> None:
    with RedisProxy(redis.port) as proxy, app({"url": f"redis://127.0.0.1:{proxy.port}/0"}) as gateway:
        secret = new_key(gateway, "a", concurrency=4, requests_per_minute=60)
        for _ in range(6):
            proxy.cut_replies = 2
            ask(gateway, secret)
        proxy.cut_replies = 0
        until(lambda: ask_together(gateway, secret, 4) == [200] * 4, 30)
        until(lambda: held(redis, "seats") == 0, 30)
        until(lambda: held(redis, "requests") <= usage_of(gateway, "a")["requests"], 30)


@needs_redis
def test_usage_without_a_journal_counts_once_whatever_redis_does(redis: RedisServer) -> None:
    with app({"url": redis.url}) as gateway:
        secret = new_key(gateway, "a")
        served = 0
        for _ in range(2):
            redis.freeze()
            served += sum(ask(gateway, secret).status_code == 200 for _ in range(8))
            until(lambda: metric(gateway, "flush_failures") > 0, 30)
            gateway.runtime.accounts.health.counts["flush_failures"] = 0
            redis.thaw()
            until(lambda: readiness(gateway) == (200, "ready"), 30)
        assert served == 16
        assert usage_of(gateway, "a")["requests"] == served


@needs_redis
def test_a_lost_reply_of_a_flush_counts_once(redis: RedisServer) -> None:
    with RedisProxy(redis.port) as proxy, app({"url": f"redis://127.0.0.1:{proxy.port}/0"}) as gateway:
        secret = new_key(gateway, "a")
        for _ in range(5):
            proxy.cut_replies = 3
            assert ask(gateway, secret).status_code == 200
        proxy.cut_replies = 0
        until(lambda: usage_of(gateway, "a").get("requests") == 5, 30)


@needs_redis
@pytest.mark.parametrize("how", ["flushall", "restart"])
def test_an_empty_redis_is_an_alarm_and_locks_nobody_out(redis: RedisServer, how: str) -> None:
    with app({"url": redis.url, "keep_keys_s": 5.0}) as gateway:
        secret = new_key(gateway, "a", requests_per_minute=20)
        gateway.client.put("/admin/teams/blue", json={"concurrency": 5}, headers=bearer("root-secret"))
        assert [ask(gateway, secret).status_code for _ in range(10)] == [200] * 10
        empty(redis, how)
        until(lambda: "lost" in readiness(gateway)[1], 30)
        assert ask(gateway, secret).status_code == 200
        assert metric(gateway, "keys_lost") == 1
        assert "blue" in gateway.runtime.accounts.teams
        later = new_key(gateway, "later")
        assert ask(gateway, later).status_code == 200
        statuses = [ask(gateway, secret).status_code for _ in range(15)]
        assert statuses.count(200) <= 10  # a lost Redis lends nobody a second minute
        until(lambda: ask(gateway, secret).status_code == 503, 30)
        assert ask(gateway, later).status_code == 200


def empty(redis: RedisServer, how: str) -> None:
    if how == "flushall":
        redis.ask("FLUSHALL")
    else:
        redis.kill()
        redis.start()


@needs_redis
def test_what_others_wrote_into_redis_is_not_believed(redis: RedisServer) -> None:
    with app({"url": redis.url}) as gateway:
        secret = new_key(gateway, "a", concurrency=4, requests_per_minute=500, budget_day=100.0)
        assert ask(gateway, secret).status_code == 200
        day = time.strftime("%Y-%m-%d", time.gmtime())
        for at, row in enumerate(STRANGE[:-1]):
            redis.ask("HSET", f"{P}:keys", f"s{at}", row)
        redis.ask("HSET", f"{P}:usage:{day}", "garbage", "1")
        redis.ask("HSET", f"{P}:usage:{day}", '["a","","","scripted","requests"]', "many")
        redis.ask("HSET", f"{P}:usage:{day}", '["a","","","scripted","cost_nanos"]', str(2**63 - 1))
        redis.ask("SET", f"{P}:usage:2026-13-77", "text")
        redis.ask("SET", f"{P}:segments", "no hash")
        for what in ("requests", "seats", "day"):
            redis.ask("HSET", f"{P}:lease:{what}:key:a", "x", "y")
            redis.ask("HSET", f"{P}:lease:{what}:key:a", "/ghost", "999")
            redis.ask("HSET", f"{P}:lease:{what}:key:a", "9999999999/abc", "9" * 30)
        until(lambda: metric(gateway, "keys_set_aside") > 0, 30)
        assert [ask(gateway, secret).status_code for _ in range(30)] == [200] * 30
        assert usage_of(gateway, "a")["requests"] >= 30
        assert metric(gateway, "rows_set_aside") > 0


@needs_redis
@pytest.mark.parametrize("what", ["lease:seats:key:a", "lease:requests:key:a", "keys", "usage"])
def test_a_name_of_ours_with_a_value_of_another_type_is_moved_away(redis: RedisServer, what: str) -> None:
    day = time.strftime("%Y-%m-%d", time.gmtime())
    name = f"{P}:usage:{day}" if what == "usage" else f"{P}:{what}"
    with app({"url": redis.url, "keep_keys_s": 60.0}) as gateway:
        secret = new_key(gateway, "a", concurrency=4, requests_per_minute=500)
        redis.ask("SET", name, "text")
        assert [ask(gateway, secret).status_code for _ in range(30)] == [200] * 30
        if what != "keys":
            assert usage_of(gateway, "a")["requests"] == 30
        else:
            until(lambda: "keys" in readiness(gateway)[1], 30)
            assert ask(gateway, new_key(gateway, "b")).status_code == 200


@needs_redis
def test_a_redis_without_room_is_a_503_and_heals(redis: RedisServer) -> None:
    with app({"url": redis.url}) as gateway:
        secret = new_key(gateway, "a")
        statuses = [ask(gateway, secret).status_code]
        redis.ask("CONFIG", "SET", "maxmemory", "1")
        until(lambda: statuses.append(ask(gateway, secret).status_code) or statuses[-1] == 503, 30)  # type: ignore[func-returns-value]
        assert readiness(gateway)[0] == 503
        redis.ask("CONFIG", "SET", "maxmemory", "0")
        until(lambda: statuses.append(ask(gateway, secret).status_code) or statuses[-1] == 200, 30)  # type: ignore[func-returns-value]
        assert usage_of(gateway, "a")["requests"] == statuses.count(200)


@needs_redis
def test_two_gateways_hold_one_limit_and_one_revocation_through_pauses_and_a_kill(redis: RedisServer) -> None:
    with app({"url": redis.url}) as one, app({"url": redis.url}) as two:
        secret = new_key(one, "a", requests_per_minute=40)
        until(lambda: ask(two, secret).status_code == 200, 30)
        served = 1
        for how in (redis.freeze, lambda: empty(redis, "restart")):
            statuses = ask_together(one, secret, 5) + ask_together(two, secret, 5)
            how()
            statuses += ask_together(one, secret, 3) + ask_together(two, secret, 3)
            redis.thaw()
            until(lambda: ask(one, secret).status_code in (200, 429), 30)
            served += statuses.count(200) + 1
        served += sum(ask(gateway, secret).status_code == 200 for gateway in (one, two) * 40)
        assert served <= 40
        gone = two.client.delete("/admin/keys/a", headers=bearer("root-secret"))
        assert gone.status_code == 200
        until(lambda: {ask(one, secret).status_code, ask(two, secret).status_code} == {401}, 30)
