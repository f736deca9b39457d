"""Who changed what is written before it is changed, and nobody changes the log unseen."""

from __future__ import annotations

import errno
import hashlib
import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi.routing import APIRoute
from hypothesis import given, settings
from hypothesis import strategies as st

from sluicegate.gateway.admin import admin_routes
from sluicegate.gateway.audit import Anchor, AuditTrail, AuditWriter, audited
from sluicegate.gateway.audit import trail as audit_trail
from sluicegate.gateway.audit.chain import line_of
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import AuditUnavailable, StageFailed
from tests.waiting import soon

ROOT = {"authorization": "Bearer root-secret"}
FACTS = st.dictionaries(st.text(max_size=5), st.one_of(st.text(max_size=9), st.integers(), st.none()), max_size=3)
ENTRIES = st.lists(st.fixed_dictionaries({"action": st.text(max_size=8), "facts": FACTS}), min_size=1, max_size=6)
SECRETS = st.sampled_from([b"", b"x" * 32])


def chain(entries: list[dict[str, Any]], secret: bytes = b"", at: Anchor = Anchor()) -> list[bytes]:
    lines = []
    for entry in entries:
        line, at = line_of(entry, at, secret)
        lines.append(line)
    return lines


def entries_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


# --- the chain --------------------------------------------------------------------------------------------------------


@given(ENTRIES, SECRETS)
def test_what_was_written_holds(entries: list[dict[str, Any]], secret: bytes) -> None:
    lines = chain(entries, secret)
    found = audited(lines, secret)
    assert (found.broken, found.entries, found.last.seq) == (None, len(entries), len(entries))
    assert all(line.count(b"\n") == 1 for line in lines)
    assert [json.loads(line)["facts"] for line in lines] == [entry["facts"] for entry in entries]


@settings(max_examples=300)
@given(ENTRIES, SECRETS, st.data())
def test_no_byte_can_be_changed_unseen(entries: list[dict[str, Any]], secret: bytes, data: st.DataObject) -> None:
    """Whatever line, place and byte: checking stops at that line."""
    lines = chain(entries, secret)
    which = data.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[which])
    at = data.draw(st.integers(0, len(line) - 2))
    line[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte not in (line[at], 10)))
    lines[which] = bytes(line)
    found = audited(lines, secret)
    assert found.broken is not None
    assert found.broken.line == which + 1
    assert found.entries == which


@given(ENTRIES.filter(lambda found: len(found) > 2), SECRETS, st.data())
def test_no_line_can_be_dropped_moved_or_doubled(
    entries: list[dict[str, Any]], secret: bytes, data: st.DataObject
) -> None:
    lines = chain(entries, secret)
    at = data.draw(st.integers(1, len(lines) - 2))
    dropped = lines[:at] + lines[at + 1 :]
    doubled = lines[: at + 1] + lines[at:]
    moved = [*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]
    for changed in (dropped, doubled, moved):
        assert audited(changed, secret).broken is not None


def test_a_chain_computed_anew_needs_the_secret_or_shows_by_an_anchor() -> None:
    """Without a secret whoever writes the file can forge all of it: only what was noted elsewhere tells."""
    true, forged = [{"action": "a"}, {"action": "b"}], [{"action": "a"}, {"action": "x"}]
    noted = audited(chain(true), b"").last
    assert audited(chain(forged), b"").broken is None
    assert audited(chain(forged), b"", noted).broken is not None
    assert audited(chain(true)[:1], b"", noted).broken is not None, "cut off at the end"
    assert audited(chain([*true, {"action": "c"}]), b"", noted).broken is None
    assert audited(chain(forged), b"k" * 32).broken is not None
    assert audited(chain(forged, b"other" * 8), b"k" * 32).broken is not None


# --- the file ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cut", [1, 2, 40, 75, 10_000])
@pytest.mark.parametrize("times", [1, 2])
def test_a_line_cut_short_by_a_crash_is_marked_by_the_next(tmp_path: Path, cut: int, times: int) -> None:
    """However often it crashes; a line that lost its newline alone is whole."""
    path = tmp_path / "audit.jsonl"
    AuditWriter(path, b"").write({"action": "first"})
    for _ in range(times):
        whole = path.read_bytes()
        AuditWriter(path, b"").write({"action": "lost", "facts": {"a": "b"}})
        longer = path.read_bytes()
        path.write_bytes(longer[: max(len(whole) + 1, len(longer) - cut)])
    torn = audited(path.read_bytes().splitlines(keepends=True), b"")
    assert (torn.broken is None) == (cut == 1)
    AuditWriter(path, b"").write({"action": "next"})
    found = audited(path.read_bytes().splitlines(keepends=True), b"")
    assert found.broken is None
    assert (b'"audit.mend"' in path.read_bytes()) == (cut != 1)


def test_a_line_that_somebody_cut_cannot_pass_for_a_crash(tmp_path: Path) -> None:
    lines = chain([{"action": "a"}, {"action": "b"}, {"action": "c"}])
    lines[1] = lines[1][:20] + b"\n"
    found = audited(lines, b"")
    assert found.broken is not None
    assert found.broken.line == 2


def write_many(path: Path, count: int, name: str) -> None:
    writer = AuditWriter(path, b"")
    for at in range(count):
        writer.write({"action": "x", "by": name, "target": str(at)})


def test_several_processes_write_one_chain(tmp_path: Path) -> None:
    path, context = tmp_path / "audit.jsonl", multiprocessing.get_context("spawn")
    running = [context.Process(target=write_many, args=(path, 25, str(at))) for at in range(3)]
    for process in running:
        process.start()
    for process in running:
        process.join(300)
    found = audited(path.read_bytes().splitlines(keepends=True), b"")
    assert (found.broken, found.entries) == (None, 75)
    for name in "012":
        assert [e["target"] for e in entries_of(path) if e["by"] == name] == [str(at) for at in range(25)]


def test_a_log_that_is_moved_away_goes_on_in_the_next_file(tmp_path: Path) -> None:
    path, moved = tmp_path / "audit.jsonl", tmp_path / "audit.jsonl.1"
    writer = AuditWriter(path, b"")
    writer.write({"action": "a"})
    path.rename(moved)
    writer.write({"action": "b"})
    both = moved.read_bytes().splitlines(keepends=True) + path.read_bytes().splitlines(keepends=True)
    assert audited(both, b"").broken is None
    assert audited(path.read_bytes().splitlines(keepends=True), b"").first.seq == 1
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("first", ["another", "one that was behind", "one after all ended"])
def test_whoever_begins_the_next_file_continues_the_chain(first: str, tmp_path: Path) -> None:
    """A command, which has written nothing yet, or a gateway beside which another one wrote the last line."""
    path = tmp_path / "audit.jsonl"
    one, other = AuditWriter(path, b""), AuditWriter(path, b"")
    one.write({"action": "a"})
    other.write({"action": "b"})
    os.rename(path, tmp_path / "audit.jsonl.1")
    writer = one if first == "one that was behind" else AuditWriter(path, b"")
    if first == "one after all ended":
        del one, other
    assert writer.write({"action": "c"}).seq == 3
    AuditWriter(path, b"").write({"action": "d"})
    lines = [*(tmp_path / "audit.jsonl.1").read_bytes().splitlines(True), *path.read_bytes().splitlines(True)]
    found = audited(lines, b"")
    assert (found.broken, found.entries) == (None, 4)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff" * 500, b"-3:" + b"0" * 64, b"9:short"])
def test_a_note_that_is_none_costs_no_line(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit.jsonl.last").write_bytes(content)
    writer = AuditWriter(path, b"")
    assert [writer.write({"action": "a"}).seq for _ in range(2)] == [1, 2]
    assert audited(path.read_bytes().splitlines(True), b"").entries == 2


def test_a_folder_that_takes_no_note_costs_no_line(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    (tmp_path / "audit.jsonl.last").mkdir()
    writer = AuditWriter(path, b"")
    writer.write({"action": "a"})
    os.rename(path, tmp_path / "audit.jsonl.1")
    assert writer.write({"action": "b"}).seq == 2, "one process alone knows where it stands"


def test_facts_that_no_line_has_room_for_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    AuditWriter(path, b"").write({"action": "a", "facts": {"x": "\U0001f600" * 400_000}})
    AuditWriter(path, b"").write({"action": "b"})
    assert [entry.get("facts") for entry in entries_of(path)] == ["too long", None]
    assert audited(path.read_bytes().splitlines(keepends=True), b"").broken is None


# --- the gateway ------------------------------------------------------------------------------------------------------


def keyed(tmp_path: Path, **more: Any) -> TestApp:
    recording = {"enabled": True, "path": str(tmp_path / "recordings.db"), "secret": "ab" * 32}
    tables = {"audit": {"path": str(tmp_path / "audit.jsonl")}, "recording": recording, **more}
    keys = [{"id": "root", "key": "root-secret", "scopes": ["admin"]}, {"id": "u", "key": "user-secret"}]
    return TestApp(
        pipeline={"admit": ["api-keys"], "recall": ["memory"]},
        keys=keys,
        accounts={"path": str(tmp_path / "accounts.db")},
        settings={"routing": {"models": {"public": {"weights": {"scripted": 1.0}}}}, **tables},
    )


CALLS: dict[str, tuple[str, str, Any]] = {
    "keys.create": ("POST", "/admin/keys", {"id": "new", "scopes": ["admin"], "limits": {"concurrency": 3}}),
    "keys.rotate": ("POST", "/admin/keys/new/rotate", {"grace_s": 5}),
    "keys.limits": ("PUT", "/admin/keys/new/limits", {"requests_per_minute": 7}),
    "keys.revoke": ("DELETE", "/admin/keys/new", None),
    "teams.limits": ("PUT", "/admin/teams/blue", {"budget_day": 2.5}),
    "models.add": ("POST", "/admin/models", {"settings": {"path": "/none", "name": "m"}}),
    "models.remove": ("DELETE", "/admin/models/m", None),
    "routes.weights": ("PUT", "/admin/routes/public/weights", {"weights": {"scripted": 3}}),
    "routes.rollback": ("POST", "/admin/routes/public/rollback", None),
    "rollouts.begin": ("PUT", "/admin/rollouts/public", {"settings": {"canary": "other", "baseline": "scripted"}}),
    "rollouts.stop": ("POST", "/admin/rollouts/public/stop", {"reason": "enough"}),
    "recordings.replay": ("POST", "/admin/recordings/none/replay", {}),
    "recordings.delete": ("DELETE", "/admin/recordings?key=u", None),
    "feedback.forget": ("DELETE", "/admin/feedback?key=u", None),
    "cache.purge": ("POST", "/v1/cache/purge", {"all_tenants": True}),
    "cache.false_hit": ("POST", "/v1/cache/false_hits", {"entry": "0" * 64, "model": "scripted"}),
    "review.approve": ("POST", "/admin/review/none/approve", None),
    "mcp.look": ("POST", "/admin/mcp/servers/none/look", None),
    "mcp.approve": ("POST", "/admin/mcp/tools/none/any/approve", {"fingerprint": "0" * 64}),
    "gateway.reload": ("POST", "/admin/reload", None),
}
"""A call of every route that changes something. Some fail here, which is written too."""
FIXED = {"models.add", "models.remove"}
"""The scripted generator hosts no models: refused before anything is begun."""
ABSENT = {"review.approve", "mcp.look", "mcp.approve", "rollouts.begin", "rollouts.stop", "recordings.replay"}
"""What is asked for is not there, which is found once it is begun."""


def test_every_route_of_operators_that_changes_something_is_called_below(tmp_path: Path) -> None:
    with keyed(tmp_path) as app:
        routes = [route for route in admin_routes(app.runtime).routes if isinstance(route, APIRoute)]
    asking = {"/admin/rails/try", "/admin/lint"}
    """They take a body, and change and keep nothing."""
    assert asking <= {route.path for route in routes}
    changing = [(m, r) for r in routes for m in r.methods if m not in ("GET", "HEAD") and r.path not in asking]
    for method, route in changing:
        assert any(
            m == method and route.path_regex.fullmatch(path.partition("?")[0]) for m, path, _ in CALLS.values()
        ), route.path
    assert len(changing) == len(CALLS)


def test_each_of_them_leaves_a_line_before_and_one_after(tmp_path: Path) -> None:
    """With who, what and how it ended; the whole is a chain, and holds no secret."""
    secrets = ["root-secret", "user-secret"]
    with keyed(tmp_path) as app:
        base = app.runtime.settings
        app.runtime.reloader.source = lambda: base
        ended = {}
        for action, (method, path, body) in CALLS.items():
            answer = app.client.request(method, path, json=body, headers=ROOT)
            ended[action] = answer.status_code < 400
            secrets += [answer.json()["key"]] if "key" in answer.json() else []
    trail = tmp_path / "audit.jsonl"
    found = [entry for entry in entries_of(trail) if entry["action"] in CALLS]
    for action in CALLS.keys() - FIXED:
        begun, after = [entry for entry in found if entry["action"] == action]
        assert begun["state"] == "begun"
        assert after["state"] == ("done" if ended[action] else "failed")
        assert after["of"] == begun["seq"]
        assert begun["by"] == after["by"] == "root"
    assert {action for action, worked in ended.items() if not worked} == {*FIXED, *ABSENT}
    assert len(secrets) == 4
    assert not any(secret in trail.read_text() for secret in secrets)
    assert not re.search(
        "[0-9a-f]{64}", re.sub(r'"(prev|hash|configuration|target|fingerprint)":"\w{64}"', "", trail.read_text())
    )
    names = [entry["action"] for entry in entries_of(trail)]
    assert (names[0], names[-1]) == ("gateway.start", "gateway.stop")
    assert audited(trail.read_bytes().splitlines(keepends=True), b"").broken is None
    weights = next(entry for entry in found if entry["action"] == "routes.weights")
    assert weights["facts"] == {"before": {"scripted": 1.0}, "weights": {"scripted": 3.0}}


def test_what_cannot_be_written_down_is_not_changed(tmp_path: Path) -> None:
    """A folder takes the file's place: no operator changes anything, callers are served, and it heals by itself."""
    path = tmp_path / "audit.jsonl"
    with keyed(tmp_path) as app:
        before = dict(app.runtime.routes.routes["public"].weights)
        path.rename(tmp_path / "moved")
        path.mkdir()
        for action, (method, url, body) in CALLS.items():
            if action in FIXED or "/new/" in url or url.endswith("/new"):
                continue
            refused = app.client.request(method, url, json=body, headers=ROOT)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "audit_unavailable"), action
            assert int(refused.headers["retry-after"]) > 0
        assert app.client.get("/admin/keys/", headers=ROOT).status_code in (200, 307, 404)
        assert "new" not in app.runtime.accounts.keyring.records
        assert app.runtime.routes.routes["public"].weights == before
        body = {"model": "scripted", "messages": [{"role": "user", "content": "Hi"}]}
        answered = app.client.post("/v1/chat/completions", json=body, headers={"authorization": "Bearer user-secret"})
        assert answered.status_code == 200
        assert "sluicegate_audit_failures_total" in app.client.get("/metrics", headers=ROOT).text
        path.rmdir()
        method, url, body = CALLS["keys.create"]
        assert app.client.request(method, url, json=body, headers=ROOT).status_code == 200


@pytest.mark.asyncio
async def test_a_change_that_fails_is_said_to_have_failed(tmp_path: Path) -> None:
    app = keyed(tmp_path)
    async with app:
        with pytest.raises(StageFailed):
            async with app.runtime.audit.change("me", "x.y", "z"):
                raise StageFailed("recall", "memory", "broke")
    failed = [entry for entry in entries_of(tmp_path / "audit.jsonl") if entry["action"] == "x.y"][-1]
    assert (failed["state"], failed["error"]) == ("failed", "stage_failed")


def test_without_a_path_nothing_is_written_and_all_works(tmp_path: Path) -> None:
    with keyed(tmp_path, audit={}) as app:
        method, url, body = CALLS["keys.create"]
        assert app.client.request(method, url, json=body, headers=ROOT).status_code == 200
    assert not list(tmp_path.glob("audit*"))


# --- commands ---------------------------------------------------------------------------------------------------------


def sluicegate(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sluicegate.gateway.commands.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environ}, timeout=300)


def test_commands_write_into_the_same_chain_and_verify_it(tmp_path: Path) -> None:
    path, secret = tmp_path / "audit.jsonl", tmp_path / "secret"
    secret.write_text("s" * 40)
    environ = {
        "SLUICEGATE_ACCOUNTS__PATH": str(tmp_path / "accounts.db"),
        "SLUICEGATE_AUDIT__PATH": str(path),
        "SLUICEGATE_AUDIT__SECRET_FILE": str(secret),
    }
    made = sluicegate("keys", "create", "a", "--team", "t", **environ)
    assert made.returncode == 0, made.stderr
    assert sluicegate("keys", "revoke", "a", **environ).returncode == 0
    assert [(e["action"], e["state"]) for e in entries_of(path)] == [
        ("keys.create", "begun"),
        ("keys.create", "done"),
        ("keys.revoke", "begun"),
        ("keys.revoke", "done"),
    ]
    assert made.stdout.strip() not in path.read_text()
    good = sluicegate("audit", "verify", **environ)
    assert good.returncode == 0
    assert good.stdout.startswith("4 lines hold; the last is 4:")
    noted = good.stdout.split()[-1]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:3]))
    assert sluicegate("audit", "verify", **environ).returncode == 0
    cut = sluicegate("audit", "verify", "--expect", noted, **environ)
    assert cut.returncode == 1
    assert "number 4, which was noted, is not here" in cut.stdout
    path.write_text(path.read_text().replace("keys.revoke", "keys.rotate", 1))
    broken = sluicegate("audit", "verify", "--json", **environ)
    assert (broken.returncode, json.loads(broken.stdout)["broken"]["line"]) == (1, 3)


def test_a_command_changes_nothing_where_it_cannot_be_written_down(tmp_path: Path) -> None:
    environ = {"SLUICEGATE_ACCOUNTS__PATH": str(tmp_path / "a.db"), "SLUICEGATE_AUDIT__PATH": str(tmp_path)}
    refused = sluicegate("keys", "create", "a", **environ)
    assert refused.returncode == 2
    assert "[audit] path" in refused.stderr
    assert "no keys yet" in sluicegate("keys", "list", **{**environ, "SLUICEGATE_AUDIT__PATH": ""}).stdout


def test_the_digest_of_a_start_tells_configurations_apart_and_no_secret(tmp_path: Path) -> None:
    digests = []
    for key in ("one", "two"):
        keys = [{"id": "k", "key": key}]
        with TestApp(keys=keys, settings={"audit": {"path": str(tmp_path / "audit.jsonl")}}):
            pass
        digests.append(entries_of(tmp_path / "audit.jsonl")[-2]["facts"]["configuration"])
    assert digests[0] == digests[1], "an API key is no part of it"
    assert digests[0] != hashlib.sha256(b"").hexdigest()


async def test_readiness_says_that_the_log_takes_no_line_and_that_it_does_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While nobody changes anything, too."""
    monkeypatch.setattr(audit_trail, "LOOK_S", 0.01)
    log = tmp_path / "audit.jsonl"
    async with TestApp(settings={"audit": {"path": str(log)}}) as app:
        audit = app.runtime.audit
        await soon(lambda: audit.entries > 0)
        assert audit.troubles() == ()
        log.rename(tmp_path / "aside")
        log.mkdir()
        await soon(lambda: bool(audit.troubles()))
        said = (await app.client.get("/readyz")).text
        assert said.splitlines()[0] == "degraded"
        assert "audit: [audit] path cannot be written (it is a folder); changes by operators are refused" in said
        log.rmdir()
        await soon(lambda: not audit.troubles())
        assert (await app.client.get("/readyz")).text == "ready"


async def test_a_full_disk_is_reported_by_the_line_that_failed_until_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(audit_trail, "LOOK_S", 0.01)
    log = tmp_path / "audit.jsonl"
    log.symlink_to("/dev/full")
    written = AuditTrail(AuditWriter(log, b""))
    with pytest.raises(AuditUnavailable, match="No space left on device"):
        async with written.change("me", "keys.create"):
            raise AssertionError("nothing is changed")
    [trouble] = written.troubles()
    assert "No space left on device" in trouble.reason
    assert not trouble.refuses
    log.unlink()
    written.start()
    await soon(lambda: not written.troubles())  # the disk below has room
    await written.stop_watching()
    written.close()


def test_what_cannot_be_looked_at_stays_until_a_line_is_written(tmp_path: Path) -> None:
    writer = AuditWriter(tmp_path / "audit.jsonl", b"")
    quota = OSError(errno.EDQUOT, "Disk quota exceeded")
    with pytest.raises(OSError, match="quota"):
        writer.check(quota)
    writer.check(OSError(errno.ENOSPC, "No space left on device"))
    writer.check(OSError(errno.EACCES, "Permission denied"))
    writer.check(None)
    assert not (tmp_path / "audit.jsonl").exists()
