"""A disk that turns read-only while the gateway runs: refusals say so, nothing is lost, `/readyz` knows it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.accounts.records import digest_of
from sluicegate.gateway.audit import trail as audit_trail
from sluicegate.gateway.audit.trail import AuditWriter
from sluicegate.gateway.readiness import disk_space
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins.contract.disk_paths import unwritable
from tests.adversary.test_doors import refusal
from tests.scale.failing_disk import FailingDisk, can_fail
from tests.scale.small_disk import SmallDisk, can_mount
from tests.waiting import until

SECRET = "ab" * 32
UPLOAD: Any = {"files": {"file": ("in.jsonl", b"x" * 100)}, "data": {"purpose": "batch"}}
CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (disk_space, audit_trail):
        monkeypatch.setattr(module, "EVERY_S" if module is disk_space else "LOOK_S", 0.05)
    monkeypatch.setattr(disk_space, "OFTEN_S", 0.05)


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[FailingDisk]:
    if not can_fail():
        pytest.skip("no disk that fails can be mounted here")
    disk = FailingDisk(tmp_path)
    yield disk
    disk.unmount()


def gateway(folder: Path) -> TestApp:
    settings: dict[str, Any] = {
        "audit": {"path": str(folder / "audit.jsonl")},
        "review": {"path": str(folder / "reviews.db")},
        "feedback": {"path": str(folder / "feedback.db")},
        "recording": {"enabled": True, "path": str(folder / "recordings.db"), "secret": SECRET},
        "batches": {"path": str(folder / "batches"), "min_free_bytes": 0},
        "telemetry": {"history": str(folder / "history")},
        "routing": {"state": str(folder / "routes.json"), "models": {"m": {"weights": {"scripted": 1}}}},
        "server": {"min_free_bytes": 0},
    }
    keys = [{"id": "root", "sha256": digest_of("root"), "scopes": ["admin"]}]
    cache = {"recall": {"sqlite": {"path": str(folder / "cache.db")}}}
    return TestApp(pipeline={"admit": ["api-keys"], "recall": ["sqlite"]}, stages=cache, settings=settings, keys=keys)


def says(app: TestApp, words: str) -> bool:
    return words in app.client.get("/readyz").text


def test_all_that_an_error_of_the_disk_forbids_is_refused_and_back_with_another_disk(
    failing: FailingDisk, tmp_path: Path
) -> None:
    """Feedback, reviews and the cache stayed with the disk that was gone, for as long as the process lived."""
    with gateway(failing.path) as app:
        app.client.headers["authorization"] = "Bearer root"
        id = app.client.post("/v1/chat/completions", json=CHAT).json()["id"]
        feedback = {"json": {"request_id": id, "score": 1.0}}
        until(lambda: app.client.post("/v1/feedback", **feedback).status_code == 200)
        failing.fail()
        for part in ("audit", "reviews", "feedback", "recordings", "batches", "history", "routes"):
            until(lambda part=part: says(app, f"disk: the disk of {part} takes no writes"))  # type: ignore[misc]
        until(lambda: says(app, "audit: [audit] path cannot be written (read-only file system)"))
        assert app.client.post("/v1/chat/completions", json=CHAT).status_code == 200
        for answer, expected in (
            (app.client.post("/v1/feedback", **feedback), (503, "database_unavailable")),
            (app.client.post("/v1/safety/false_positives", json={"text": "a"}), (503, "database_unavailable")),
            (app.client.post("/v1/files", **UPLOAD), (507, "insufficient_storage")),
            (app.client.post("/v1/cache/purge", json={}), (503, "audit_unavailable")),
            (app.client.put("/admin/routes/m/weights", json={"weights": {"scripted": 2}}), (503, "audit_unavailable")),
        ):
            assert refusal(answer) == expected
        for _ in range(10):
            assert says(app, "audit: [audit] path cannot be written"), "the refusal lasts, and so does the reason"
        shutil.copytree(failing.path, tmp_path / "copy", ignore=shutil.ignore_patterns("lost+found", "*.lock"))
        failing.unmount()
        shutil.copytree(tmp_path / "copy", failing.path, dirs_exist_ok=True)
        until(lambda: app.client.post("/v1/feedback", **feedback).status_code == 200)
        [kept] = app.client.get("/admin/feedback", params={"request_id": id}).json()["data"]
        assert kept["score"] == 1
        assert app.client.post("/v1/safety/false_positives", json={"text": "a"}).status_code == 200
        until(lambda: app.client.post("/v1/files", **UPLOAD).status_code == 200)
        assert app.client.post("/v1/cache/purge", json={}).status_code == 200
        assert app.client.get("/admin/recordings").status_code == 200
        until(lambda: app.client.get("/readyz").text == "ready")


def test_a_log_on_a_disk_mounted_read_only_is_reported_before_a_change_is_refused(tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("no file system can be mounted here")
    disk = SmallDisk(tmp_path / "disk", 1)
    settings = {
        "audit": {"path": str(tmp_path / "disk" / "audit.jsonl")},
        "server": {"min_free_bytes": 0},
        "routing": {"models": {"m": {"weights": {"scripted": 1}}}},
    }
    change = {"url": "/admin/routes/m/weights", "json": {"weights": {"scripted": 2}}}
    try:
        with TestApp(settings=settings) as app:
            until(lambda: app.runtime.audit.entries > 0)
            disk.set_writable(False)
            until(lambda: says(app, "audit: [audit] path cannot be written (read-only file system)"))
            assert says(app, "disk: the disk of audit takes no writes (read-only file system)")
            assert refusal(app.client.put(**change)) == (503, "audit_unavailable")
            disk.set_writable(True)
            until(lambda: app.client.get("/readyz").text == "ready")
            assert app.client.put(**change).status_code == 200
    finally:
        disk.unmount()


def test_an_audit_log_stays_unwritable_for_as_long_as_its_disk_is(failing: FailingDisk) -> None:
    """The kernel still calls such a disk writable: the failure was over at the next look, and `/readyz` well."""
    writer = AuditWriter(failing.path / "audit.jsonl", b"")
    writer.write({"state": "done"})
    writer.check(None)
    failing.fail()
    with pytest.raises(OSError, match="Read-only"):
        writer.write({"state": "done"})
    with pytest.raises(OSError, match="read-only") as refused:
        writer.check(None)
    with pytest.raises(OSError, match="read-only"):
        writer.check(refused.value)
    assert unwritable(failing.path) == "read-only file system"


def test_a_folder_that_takes_writes_is_left_as_it_was(tmp_path: Path) -> None:
    assert unwritable(tmp_path) == ""
    assert not list(tmp_path.iterdir())
