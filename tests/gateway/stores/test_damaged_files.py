"""A file that SQLite cannot use: `/readyz` names it and says what to do, callers get a 503, all else is served, and the
file that is put in its place is taken without a restart."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.testing import TestApp
from tests.waiting import until

SECRET = "ab" * 32
PARTS = {"reviews": "review", "feedback": "feedback", "recordings": "recording"}
"""Table of the configuration by part."""


def gateway(folder: Path) -> TestApp:
    tables: dict[str, dict[str, Any]] = {table: {"path": str(folder / f"{part}.db")} for part, table in PARTS.items()}
    tables["recording"] |= {"enabled": True, "secret": SECRET}
    keys = [{"id": "operator", "key": "operator", "scopes": ["admin"]}]
    return TestApp(pipeline={"admit": ["api-keys"]}, settings=tables, keys=keys)


def use(app: TestApp) -> dict[str, int]:
    """Ask each part for something; the status by part, and that of a plain request."""
    app.client.headers["authorization"] = "Bearer operator"
    asked = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}
    calls = {
        "chat": ("POST", "/v1/chat/completions", asked),
        "reviews": ("POST", "/v1/safety/false_positives", {"text": "harmless", "rail": "pii"}),
        "feedback": ("GET", "/admin/feedback", None),
        "recordings": ("GET", "/admin/recordings", None),
    }
    return {part: app.client.request(verb, path, json=body).status_code for part, (verb, path, body) in calls.items()}


def harm(path: Path, how: str) -> None:
    """Harm a file. `cut`: the first page alone stays. `overwritten`: all but the first 100 bytes, which say that it is
    SQLite's."""
    for beside in ("-wal", "-shm"):
        Path(f"{path}{beside}").unlink(missing_ok=True)
    kept = path.read_bytes()
    if how == "a folder":
        path.unlink()
        path.mkdir()
    else:
        path.write_bytes(
            {"noise": b"\xa5\x17" * 4000, "cut": kept[:4096], "overwritten": kept[:100] + b"\xff" * 8000}[how]
        )


@pytest.mark.parametrize("how", ["noise", "cut", "overwritten", "a folder"])
def test_each_part_names_its_file_and_goes_on_with_another(
    how: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with gateway(tmp_path) as app:
        assert set(use(app).values()) <= {200}
        app.wait_for_outcomes(1)
    for part in PARTS:
        harm(tmp_path / f"{part}.db", how)
    caplog.set_level(logging.ERROR)
    with gateway(tmp_path) as app:
        ready = app.runtime
        until(lambda: set(PARTS) <= set(ready.readiness.troubles))
        assert ready.readiness.state == "degraded"
        for part in PARTS:
            [trouble] = ready.readiness.troubles[part]
            assert f"{tmp_path / part}.db " in trouble.reason
            assert "Errno" not in trouble.reason
            assert ("a file, in a folder" if how == "a folder" else "move it away") in trouble.reason
        assert use(app) == {"chat": 200, **dict.fromkeys(PARTS, 503)}
        for part in PARTS:
            (tmp_path / f"{part}.db").rename(tmp_path / f"{part}.away")
        until(lambda: set(use(app).values()) == {200})
        until(lambda: not ready.readiness.troubles)
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("settings", "file"),
    [({"accounts": {"path": "accounts.db"}}, "accounts.db"), ({"routing": {"state": "routes"}}, "routes.rollouts")],
)
@pytest.mark.parametrize("content", [b"\xa5\x17" * 4000, None])
def test_a_start_that_a_file_prevents_is_told_in_one_sentence(
    settings: dict[str, dict[str, str]], file: str, content: bytes | None, tmp_path: Path
) -> None:
    path = tmp_path / file
    path.write_bytes(content) if content is not None else path.mkdir()
    tables = {table: {name: str(tmp_path / at) for name, at in found.items()} for table, found in settings.items()}
    with pytest.raises(RuntimeError) as refused, TestApp(settings=tables):
        pass
    told = str(refused.value)
    assert f"{path} " in told
    assert ("move it away" if content else "a file, in a folder") in told
    assert not any(noise in told for noise in ("Errno", "Error", "\n"))
    assert path.is_dir() if content is None else path.read_bytes() == content


@pytest.mark.parametrize("name", ["batches.lock", "batches.sqlite"])
def test_a_folder_of_batches_that_cannot_be_used_is_named_to_operators_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).mkdir()
    with TestApp(settings={"batches": {"path": str(tmp_path)}}) as app:
        [trouble] = app.runtime.readiness.troubles["batches"]
        assert f"tried again: {tmp_path / name} cannot be opened; it has to be a file, in a folder" in trouble.reason
        answer = app.client.get("/v1/files")
        assert (answer.status_code, answer.json()["error"]["code"]) == (507, "insufficient_storage")
        assert str(tmp_path) not in answer.text
        (tmp_path / name).rmdir()
        until(lambda: app.client.get("/v1/files").status_code == 200)
        assert "batches" not in app.runtime.readiness.troubles


def test_a_gateway_that_never_started_leaves_no_line_that_it_stopped(tmp_path: Path) -> None:
    """Beside one that runs, on whose files it failed."""
    tables = {"accounts": {"path": str(tmp_path / "accounts.db")}, "audit": {"path": str(tmp_path / "audit.jsonl")}}
    with TestApp(settings=tables):
        with pytest.raises(RuntimeError, match="another gateway writes"), TestApp(settings=tables):
            pass
        lines = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert ['"gateway.start"' in line for line in lines] == [True]
