"""Batches whose folder has two masters, whose disk fails, or whose folder holds what no gateway wrote."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.batches.folder import FolderLock
from sluicegate.gateway.batches.stores.sqlite import SqliteBatchStore
from sluicegate.gateway.testing import TestApp
from tests.adversary.test_doors import bearer, key, keyed, refusal
from tests.altered import altered
from tests.gateway.test_batches import CHAT, line, start
from tests.waiting import until

UPLOAD: Any = {"files": {"file": ("in.jsonl", b"x" * 1000)}, "data": {"purpose": "batch"}}
HOLD = """
import sys, time
from pathlib import Path
from sluicegate.gateway.batches.folder import FolderLock
lock = FolderLock(Path(sys.argv[1]))
assert lock.take()
print("held", flush=True)
time.sleep(600)
"""


def scripted(folder: Path, delay_s: float = 0.0, **batches: Any) -> TestApp:
    settings = {"batches": {"path": str(folder), "concurrency": 2, **batches}}
    return TestApp(script=["Oslo"], delay_s=delay_s, settings=settings)


def batch_of(app: TestApp, batch_id: str) -> dict[str, Any]:
    return dict(app.client.get(f"/v1/batches/{batch_id}").json())


def ended(app: TestApp, batch_id: str, status: str = "completed") -> dict[str, Any]:
    until(lambda: batch_of(app, batch_id)["status"] == status, 30)
    return batch_of(app, batch_id)


def written(app: TestApp, batch: dict[str, Any]) -> list[str]:
    text = app.client.get(f"/v1/files/{batch['output_file_id']}/content").text
    return [json.loads(row)["custom_id"] for row in text.splitlines()]


def holds(app: TestApp) -> bool:
    return "sluicegate_batches_holds_folder 1.0" in app.client.get("/metrics").text


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for name in ("files", "incoming") for path in (folder / name).iterdir())


# --- two gateways, one folder -------------------------------------------------------------------------------------


def test_of_two_gateways_on_one_folder_one_runs_and_the_other_says_so_and_takes_over(tmp_path: Path) -> None:
    """Each line is asked once, but for those that were under way when the first ended."""
    with scripted(tmp_path, delay_s=0.02) as second_first:
        pass  # a gateway that ended leaves no lock
    first, second = scripted(tmp_path, delay_s=0.02), scripted(tmp_path)
    with first:
        batch_id = start(first, 40)
        with second:
            assert (holds(first), holds(second)) == (True, False)
            until(lambda: batch_of(second, batch_id)["request_counts"]["completed"] >= 3)
            for refused in (
                second.client.post("/v1/files", **UPLOAD),
                second.client.post("/v1/batches", json={"input_file_id": "file-x", "endpoint": CHAT}),
                second.client.post(f"/v1/batches/{batch_id}/cancel"),
                second.client.delete(f"/v1/files/{batch_of(second, batch_id)['input_file_id']}"),
            ):
                assert refusal(refused) == (503, "batches_elsewhere")
                assert f"process {os.getpid()}" in refused.json()["error"]["message"]
                assert refused.headers["retry-after"]
            assert second.model.jobs == []
            first.__exit__()
            until(lambda: holds(second))
            batch = ended(second, batch_id)
            assert len(set(written(second, batch))) == 40
            assert batch["request_counts"] == {"total": 40, "completed": 40, "failed": 0}
            assert 40 <= len(first.model.jobs) + len(second.model.jobs) <= 42  # two ran at a time
    assert second_first.model.jobs == []


def test_a_lock_is_given_back_by_a_holder_that_was_killed(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with scripted(tmp_path) as app:
            told = app.client.post("/v1/files", **UPLOAD)
            assert f"process {holder.pid} on" in told.json()["error"]["message"]
            holder.send_signal(signal.SIGKILL)
            until(lambda: holds(app))
            ended(app, start(app, 3))
    finally:
        holder.kill()
        holder.wait()


def test_a_holder_whose_lock_file_was_replaced_stops(tmp_path: Path) -> None:
    with scripted(tmp_path, delay_s=0.05) as app:
        batch_id = start(app, 200)
        (tmp_path / "batches.lock").unlink()
        other = FolderLock(tmp_path)
        assert other.take()
        until(lambda: not holds(app))
        assert refusal(app.client.post("/v1/files", **UPLOAD)) == (503, "batches_elsewhere")
        other.give_back()
        until(lambda: holds(app))
        assert batch_of(app, batch_id)["status"] in ("in_progress", "completed")


@pytest.mark.parametrize("note", [b"", b"\xff" * 600, b"[]", b'{"pid": 1e400, "host": 1, "since_s": "x"}'])
def test_garbage_in_the_lock_file_hurts_nobody(tmp_path: Path, note: bytes) -> None:
    (tmp_path / "batches.lock").write_bytes(note)
    assert "process" in FolderLock(tmp_path).holder()
    with scripted(tmp_path) as app:
        assert holds(app)


# --- a disk that fails --------------------------------------------------------------------------------------------


def database(app: TestApp) -> sqlite3.Connection:
    store = app.runtime.batches._store
    assert isinstance(store, SqliteBatchStore)
    return store._db


def fill(app: TestApp) -> None:
    """Make SQLite answer as on a full disk from now on."""
    store = app.runtime.batches._store
    assert isinstance(store, SqliteBatchStore)
    with store._lock:
        pages = store._db.execute("pragma page_count").fetchone()[0]
        store._db.execute(f"pragma max_page_count = {pages}")


def free(app: TestApp) -> None:
    store = app.runtime.batches._store
    assert isinstance(store, SqliteBatchStore)
    with store._lock:
        store._db.execute("pragma max_page_count = 1000000")


def test_a_batch_waits_for_a_full_disk_and_goes_on_and_asks_nothing_twice(tmp_path: Path) -> None:
    with scripted(tmp_path, delay_s=0.01) as app:
        batch_id = start(app, 60)
        until(lambda: batch_of(app, batch_id)["request_counts"]["completed"] >= 1)
        fill(app)
        until(lambda: "sluicegate" in batch_of(app, batch_id), 30)
        told = batch_of(app, batch_id)
        assert told["status"] == "in_progress"
        assert "full" in told["sluicegate"]["waiting"]["reason"]
        assert told["sluicegate"]["waiting"]["again_at"] >= told["sluicegate"]["waiting"]["since"]
        assert "sluicegate_batches_waiting_for_disk 1.0" in app.client.get("/metrics").text
        assert app.ask(stream=False).status == 200  # nobody else notices
        free(app)
        batch = ended(app, batch_id)
        assert "sluicegate" not in batch
        assert len(written(app, batch)) == 60
        assert len([job for job in app.model.jobs if job.priority]) == 60


def failing(name: str, times: int, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """Make `os.NAME` fail as a disk does, so many times."""
    real: Callable[..., Any] = getattr(os, name)
    left = [times]

    def broken(*arguments: Any, **options: Any) -> Any:
        if left[0]:
            left[0] -= 1
            raise OSError(code, os.strerror(code))
        return real(*arguments, **options)

    monkeypatch.setattr("sluicegate.gateway.batches.file_store.os", altered(os, **{name: broken}))


@pytest.mark.parametrize("call", ["fsync", "rename", "write", "open"])
@pytest.mark.parametrize("code", [28, 5], ids=["ENOSPC", "EIO"])
def test_an_upload_that_fails_leaves_nothing_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    with scripted(tmp_path) as app:
        failing(call, 1, monkeypatch, code)
        assert refusal(app.client.post("/v1/files", **UPLOAD)) == (507, "insufficient_storage")
        assert left_in(tmp_path) == []
        assert app.client.get("/v1/files").json()["data"] == []
        assert app.client.post("/v1/files", **UPLOAD).status_code == 200
        assert len(left_in(tmp_path)) == 1


def test_a_record_that_cannot_be_written_leaves_no_file(tmp_path: Path) -> None:
    with scripted(tmp_path) as app:
        fill(app)
        answers = [app.client.post("/v1/files", **UPLOAD) for _ in range(60)]
        kept = [answer for answer in answers if answer.status_code == 200]
        assert refusal(answers[-1]) == (507, "insufficient_storage")
        assert len(left_in(tmp_path)) == len(kept)


@pytest.mark.parametrize("call", ["fsync", "rename", "write"])
def test_results_that_cannot_be_written_are_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    with scripted(tmp_path, delay_s=0.02) as app:
        batch_id = start(app, 5)
        failing(call, 2, monkeypatch, 28)
        batch = ended(app, batch_id)
        assert len(written(app, batch)) == 5
        assert len(left_in(tmp_path)) == 2


def test_an_upload_that_its_client_leaves_is_gone(tmp_path: Path) -> None:
    def half() -> Any:
        yield b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n' + b"y" * 3_000_000
        raise ConnectionError

    with scripted(tmp_path) as app:
        with pytest.raises(ConnectionError):
            app.client.post("/v1/files", content=half(), headers={"content-type": "multipart/form-data; boundary=x"})
        until(lambda: left_in(tmp_path) == [])
        until(lambda: not app.runtime.batches._quotas._coming)


def test_below_the_floor_of_free_bytes_nothing_is_uploaded_or_begun(tmp_path: Path) -> None:
    with scripted(tmp_path) as app:
        batch_id = start(app, 1)
        ended(app, batch_id)
        file_id = batch_of(app, batch_id)["input_file_id"]
    with scripted(tmp_path, min_free_bytes=10**15) as app:
        told = app.client.post("/v1/files", **UPLOAD)
        assert refusal(told) == (507, "insufficient_storage")
        assert "min_free_bytes" in told.json()["error"]["message"]
        asked = {"input_file_id": file_id, "endpoint": CHAT}
        assert refusal(app.client.post("/v1/batches", json=asked)) == (507, "insufficient_storage")
        assert app.client.get(f"/v1/files/{file_id}/content").status_code == 200
        assert app.client.delete(f"/v1/files/{file_id}").status_code == 200


# --- what is read back --------------------------------------------------------------------------------------------


def test_what_no_gateway_wrote_is_set_aside_at_the_start(tmp_path: Path) -> None:
    """Records, results and files; what is whole goes on."""
    with scripted(tmp_path, delay_s=0.05) as app:
        batch_id = start(app, 20)
        until(lambda: batch_of(app, batch_id)["request_counts"]["completed"] >= 4)
    db = sqlite3.connect(tmp_path / "batches.sqlite")
    rows = [("x", "{"), ("y", "[]"), ("z", '{"id": "../../etc"}'), ("w", None), ("v", "[" * 5000)]
    for name, record in rows:
        db.execute("insert into files values (?, '', 1, ?)", (name, record))
        db.execute("insert into batches values (?, '', 1, 'in_progress', ?)", (name, record))
    done = [row[0] for row in db.execute("select line from results where batch = ? order by line", (batch_id,))]
    db.execute("update results set body = x'ff00' where batch = ? and line = ?", (batch_id, done[0]))
    db.execute("update results set status = 'ok' where batch = ? and line = ?", (batch_id, done[1]))
    db.execute("update results set prompt_tokens = -5 where batch = ? and line = ?", (batch_id, done[2]))
    db.commit()
    db.close()
    (tmp_path / "files" / "stray").write_bytes(b"")
    (tmp_path / "incoming" / "file-half").write_bytes(b"half")
    with scripted(tmp_path) as app:
        batch = ended(app, batch_id)
        assert written(app, batch) == [f"line-{i}" for i in range(20)]
        assert batch["request_counts"] == {"total": 20, "completed": 20, "failed": 0}
        assert len(app.client.get("/v1/batches").json()["data"]) == 1
        assert not {"stray", "file-half"} & set(left_in(tmp_path))
        assert [path.name for path in (tmp_path / "aside").iterdir()] == ["stray"]
        assert database(app).execute("select count(*) from aside").fetchone()[0] == 2 * len(rows) + 3


@pytest.mark.parametrize(
    "damage", [b"this is no database", b"SQLite format 3\x00" + b"\xff" * 5000], ids=["no", "torn"]
)
def test_a_damaged_database_is_set_aside_and_the_gateway_serves(tmp_path: Path, damage: bytes) -> None:
    with scripted(tmp_path) as app:
        app.client.post("/v1/files", **UPLOAD)
    (tmp_path / "batches.sqlite").write_bytes(damage)
    with scripted(tmp_path) as app:
        ended(app, start(app, 3))
        assert [path for path in tmp_path.iterdir() if ".damaged-" in path.name]
        assert len(list((tmp_path / "aside").iterdir())) == 1  # the upload that no record names any more


def test_a_batch_whose_input_is_gone_or_cut_fails_and_keeps_what_it_has(tmp_path: Path) -> None:
    with scripted(tmp_path, delay_s=0.05) as app:
        batch_id = start(app, 30)
        until(lambda: batch_of(app, batch_id)["request_counts"]["completed"] >= 2)
        input_id = batch_of(app, batch_id)["input_file_id"]
    path = tmp_path / "files" / input_id
    path.write_bytes(path.read_bytes()[:-40])
    with scripted(tmp_path) as app:
        batch = ended(app, batch_id, "failed")
        assert batch["errors"]["data"][0]["line"] == 30
        assert 2 <= len(written(app, batch)) < 30
    with scripted(tmp_path / "other", delay_s=0.05) as app:
        gone_id = start(app, 30)
        until(lambda: batch_of(app, gone_id)["status"] == "in_progress")
        input_id = batch_of(app, gone_id)["input_file_id"]
    (tmp_path / "other" / "files" / input_id).unlink()
    with scripted(tmp_path / "other") as app:
        assert "gone" in ended(app, gone_id, "failed")["errors"]["data"][0]["message"]


# --- quotas and forms ---------------------------------------------------------------------------------------------


def test_files_and_batches_of_a_tenant_have_quotas_that_name_what_to_remove(tmp_path: Path) -> None:
    limits = {"max_files": 3, "max_bytes": 2_500, "max_open": 1, "concurrency": 1}
    with keyed(tmp_path, key("a"), key("b"), batches=limits, delay_s=0.2) as app:
        sent = [app.client.post("/v1/files", headers=bearer("a"), **UPLOAD) for _ in range(3)]
        assert [answer.status_code for answer in sent] == [200, 200, 413]
        assert refusal(sent[-1]) == (413, "file_quota_exceeded")
        assert "max_bytes" in sent[-1].text
        assert "DELETE /v1/files" in sent[-1].text
        assert app.client.post("/v1/files", headers=bearer("b"), **UPLOAD).status_code == 200
        assert app.client.delete(f"/v1/files/{sent[0].json()['id']}", headers=bearer("a")).status_code == 200
        small: Any = {"files": {"file": ("s", line(1, model="scripted").encode())}, "data": {"purpose": "batch"}}
        ids = [app.client.post("/v1/files", headers=bearer("a"), **small).json()["id"] for _ in range(2)]
        over = app.client.post("/v1/files", headers=bearer("a"), **small)
        assert refusal(over) == (413, "file_quota_exceeded")
        assert "max_files" in over.text
        asked = {"input_file_id": ids[0], "endpoint": CHAT}
        assert app.client.post("/v1/batches", json=asked, headers=bearer("a")).status_code == 200
        second = app.client.post("/v1/batches", json=asked, headers=bearer("a"))
        assert refusal(second) == (429, "batch_quota_exceeded")
        assert second.headers["retry-after"]


PART = b'--x\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n{}\r\n'


@pytest.mark.parametrize(
    "body",
    [
        b"".join(b'--x\r\ncontent-disposition: form-data; name="f%d"\r\n\r\nv\r\n' % i for i in range(5000)) + b"--x--",
        b'--x\r\ncontent-disposition: form-data; name="' + b"n" * 100_000 + b'"\r\n\r\nv\r\n--x--',
        b'--x\r\ncontent-disposition: form-data; name="f"\r\n' + b"h: v\r\n" * 10_000 + b"\r\nv\r\n--x--",
        b'--x\r\ncontent-disposition: form-data; name="purpose"\r\n\r\n' + b"p" * 1_000_000 + b"\r\n--x--",
        PART + PART + b"--x--",
        PART,
        PART + b"--x",
        b"--x\r\n\r\nnameless\r\n--x--",
        b"--x--",
        b"",
        b"\r\n" * 100_000,
        b"--y--",
        PART.replace(b'"file"', b'"other"') + b"--x--",
    ],
    ids=lambda body: f"{len(body)} bytes",
)
def test_forms_that_are_bombs_or_broken_are_refused_and_leave_nothing(tmp_path: Path, body: bytes) -> None:
    with scripted(tmp_path) as app:
        for kind in ("multipart/form-data; boundary=x", "multipart/form-data; boundary=x; boundary=y"):
            answer = app.client.post("/v1/files", content=body, headers={"content-type": kind})
            assert answer.status_code == 400, answer.text
        for kind in ("multipart/form-data", f"multipart/form-data; boundary={'x' * 5000}", "text/plain", ""):
            answer = app.client.post("/v1/files", content=PART + b"--x--", headers={"content-type": kind})
            assert answer.status_code == 400, kind
        assert left_in(tmp_path) == []


def test_a_filename_is_only_a_name(tmp_path: Path) -> None:
    with scripted(tmp_path) as app:
        for name, kept in (("../../etc/passwd", "passwd"), ("a\\b", "b"), ("/", "file"), ("n" * 1000, "n" * 255)):
            sent = app.client.post("/v1/files", files={"file": (name, b"x")}, data={"purpose": "batch"})
            assert sent.json()["filename"] == kept


def test_a_tenant_that_waits_for_its_limits_keeps_nobody_waiting(tmp_path: Path) -> None:
    """All places of the worker are few; whoever may not run now gives its place back."""
    slow = key("slow", limits={"requests_per_minute": 3})
    with keyed(tmp_path, slow, key("quick"), batches={"concurrency": 2}) as app:
        start(app, 50, **bearer("slow"))
        until(lambda: any(outcome.error == "rate_limit_exceeded" for outcome in app.outcomes))
        quick = start(app, 20, **bearer("quick"))
        until(
            lambda: app.client.get(f"/v1/batches/{quick}", headers=bearer("quick")).json()["status"] == "completed", 30
        )


def test_many_uploads_at_once_stay_within_the_quota(tmp_path: Path) -> None:
    big: Any = {"files": {"file": ("in.jsonl", b"x" * 2_000_000)}, "data": {"purpose": "batch"}}
    with scripted(tmp_path, max_bytes=5_000_000) as app, ThreadPoolExecutor(12) as pool:
        found = list(pool.map(lambda _: app.client.post("/v1/files", **big).status_code, range(12)))
        assert set(found) <= {200, 413}
        kept = sum(path.stat().st_size for path in (tmp_path / "files").iterdir())
        assert kept <= 5_000_000
        assert kept == 2_000_000 * found.count(200)
