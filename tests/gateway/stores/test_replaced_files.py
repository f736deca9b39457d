"""Databases that are replaced while the gateway has them open: by a copy, by another file, by a text."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.accounts.records import digest_of
from sluicegate.gateway.testing import TestApp
from tests.adversary.test_batches import UPLOAD
from tests.adversary.test_doors import refusal
from tests.gateway.stores.test_damaged_files import PARTS, gateway, use
from tests.waiting import until

KEYS = [{"id": "root", "sha256": digest_of("root"), "scopes": ["admin"]}]
ROOT = {"authorization": "Bearer root"}
BODY = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "temperature": 0}


def replace(path: Path, content: bytes) -> None:
    """Put another file in its place, as `mv` does, and leave what lies beside it."""
    beside = path.with_name("beside")
    beside.write_bytes(content)
    beside.replace(path)


def is_whole(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as db:
        return bool(db.execute("pragma integrity_check").fetchall() == [("ok",)])


def test_a_text_in_place_of_a_file_is_named_and_a_database_after_it_is_taken(tmp_path: Path) -> None:
    """What was written went on into the file that nobody saw any more."""
    with gateway(tmp_path) as app:
        assert use(app) == {"chat": 200, **dict.fromkeys(PARTS, 200)}
        app.wait_for_outcomes(1)
        for part in PARTS:
            replace(tmp_path / f"{part}.db", b"[server]\nport = 8000\n" * 100)
        assert use(app) == {"chat": 200, **dict.fromkeys(PARTS, 503)}
        until(lambda: {"reviews", "recordings"} <= set(app.runtime.readiness.troubles))
        for part in PARTS:
            assert (tmp_path / f"{part}.db").read_bytes().startswith(b"[server]")
            replace(tmp_path / f"{part}.db", b"")
        until(lambda: set(use(app).values()) == {200})
        until(lambda: not app.runtime.readiness.troubles)
    assert all(is_whole(tmp_path / f"{part}.db") for part in PARTS)


def test_an_earlier_copy_in_place_of_a_file_is_used_and_stays_whole(tmp_path: Path) -> None:
    with gateway(tmp_path) as app:
        use(app)
        app.wait_for_outcomes(1)
    copies = {part: (tmp_path / f"{part}.db").read_bytes() for part in PARTS}
    with gateway(tmp_path) as app:
        for _ in range(20):
            use(app)
        app.wait_for_outcomes(20)
        for part, copy in copies.items():
            replace(tmp_path / f"{part}.db", copy)
        reports = app.client.get("/v1/safety/false_positives").json()["data"]
        assert len(reports) == 1
        assert set(use(app).values()) == {200}
    assert all(is_whole(tmp_path / f"{part}.db") for part in PARTS)


def test_accounts_that_were_replaced_take_no_change_and_wait_for_a_restart_with_all_usage(tmp_path: Path) -> None:
    """A revocation was written into the file that was gone, and the restart that was asked for damaged the new one: the
    journal of the old one was written into it."""
    path = tmp_path / "accounts.db"
    accounts = {"path": str(path), "journal": str(tmp_path / "journal"), "flush_s": 0.05}
    pipeline = {"admit": ["api-keys", "limits"], "record": ["ledger"]}

    def app() -> TestApp:
        return TestApp(pipeline=pipeline, keys=KEYS, accounts=accounts)

    def used(gateway: TestApp) -> int:
        answer = gateway.client.get("/admin/usage?since=2000-01-01&by=key_id", headers=ROOT).json()
        return sum(row["requests"] for row in answer["data"] if row["key_id"] == "a")

    with app() as gateway:
        key = gateway.client.post("/admin/keys", json={"id": "a"}, headers=ROOT).json()["key"]
    copy = path.read_bytes()
    ask: dict[str, Any] = {"json": BODY, "headers": {"authorization": f"Bearer {key}"}}
    with app() as gateway:
        for number in range(40):
            gateway.client.post("/admin/keys", json={"id": f"k{number}"}, headers=ROOT)
        replace(path, copy)
        for refused in (
            gateway.client.delete("/admin/keys/a", headers=ROOT),
            gateway.client.post("/admin/keys", json={"id": "b"}, headers=ROOT),
        ):
            assert refusal(refused) == (503, "books_unavailable")
            assert "replaced under the running gateway; restart it" in refused.json()["error"]["message"]
        assert gateway.client.post("/v1/chat/completions", **ask).status_code == 200
        until(lambda: "it waits in the journal" in gateway.client.get("/readyz").text)
    with app() as gateway:
        assert used(gateway) == 1
        assert gateway.client.post("/v1/chat/completions", **ask).status_code == 200
        assert gateway.client.delete("/admin/keys/a", headers=ROOT).status_code == 200
    assert is_whole(path)


def test_a_cache_goes_on_with_the_file_that_replaced_its_own(tmp_path: Path) -> None:
    path = tmp_path / "cache.db"
    app = TestApp(pipeline={"recall": ["sqlite"]}, stages={"recall": {"sqlite": {"path": str(path)}}})
    with app:
        until(lambda: app.client.post("/v1/chat/completions", json=BODY).headers.get("x-sluicegate-cache") == "hit")
        replace(path, b"")
        until(lambda: app.client.post("/v1/chat/completions", json=BODY).headers.get("x-sluicegate-cache") == "hit")
        with closing(sqlite3.connect(path)) as db:
            assert db.execute("select count(*) from entries").fetchall() == [(1,)]


@pytest.mark.parametrize("content", [b"", b"no database " * 100])
def test_a_folder_of_batches_whose_database_was_replaced_begins_anew(tmp_path: Path, content: bytes) -> None:
    with TestApp(settings={"batches": {"path": str(tmp_path), "min_free_bytes": 0}}) as app:
        until(lambda: app.client.post("/v1/files", **UPLOAD).status_code == 200)
        replace(tmp_path / "batches.sqlite", content)
        until(lambda: app.client.get("/v1/files").json().get("data") == [])
        until(lambda: app.client.post("/v1/files", **UPLOAD).status_code == 200)
    assert is_whole(tmp_path / "batches.sqlite")
    assert len(list(tmp_path.glob("batches.sqlite.damaged-*"))) == bool(content)
    shutil.rmtree(tmp_path)
