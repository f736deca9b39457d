"""Requests that were recorded, asked again: what is kept and for how long, what is told, and what never leaves."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.commands import cli
from sluicegate.gateway.config import load
from sluicegate.gateway.database import DatabaseUnavailable
from sluicegate.gateway.recording import recorder
from sluicegate.gateway.recording.replaying import changed_fields, difference
from sluicegate.gateway.recording.store import Recording
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError, ContentBlocked, GenerationFailed, Job
from tests.waiting import until

OLD, NEW = "m@1", "m@2"
SECRET = "cd" * 32
KEYS = [
    {"id": "alice", "key": "key-alice", "tenant": "one"},
    {"id": "bob", "key": "key-bob", "tenant": "two"},
    {"id": "root", "key": "key-root", "scopes": ["admin"]},
]
TOKEN = "sk-proj-Zk3Jd8fQ0pLw7Xv2Nc5Rt9Yb1Hm4Gs6Ae8Uo"
SCHEMA = {"type": "object", "properties": {"total": {"type": "number"}, "paid": {"type": "boolean"}}}
FORM = {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}
Script = Callable[[Job], list[str]]


def invoices(job: Job) -> list[str]:
    """Answer by version: the new one writes another number for a question in three, in another order of keys."""
    assert job.request is not None
    text = job.request.messages[-1].content
    number = sum(map(ord, text)) % 3
    if job.model == OLD:
        return [json.dumps({"total": 1.50, "paid": True})]
    return [json.dumps({"paid": True, "total": 2 if number == 0 else 1.5})]


@contextmanager
def recording(path: Path, script: Script = invoices, **more: Any) -> Iterator[TestApp]:
    tables = {"recording": {"enabled": True, "path": str(path), "secret": SECRET, **more.pop("recording", {})}}
    tables |= more.pop("tables", {})
    more.setdefault("pipeline", {})
    with TestApp(script=script, names=(OLD, NEW), settings=tables, **more) as app:
        yield app


def recorded(app: TestApp, count: int, **params: Any) -> list[dict[str, Any]]:
    def listed() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = app.client.get("/admin/recordings", params=params).json()["data"]
        return found

    until(lambda: len(listed()) == count)
    return listed()


def replay(app: TestApp, id: str, **body: Any) -> dict[str, Any]:
    answer = app.client.post(f"/admin/recordings/{id}/replay", json=body)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def as_(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-{name}"}


# --- what differs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_a_version_is_compared_field_by_field_and_values_stay_here(tmp_path: Path, stream: bool) -> None:
    with recording(tmp_path / "r.sqlite3", accounts={"prices": {NEW: {"input": 0, "output": 1e6}}}) as app:
        app.ask("c", model=OLD, stream=stream, **FORM)  # ord("c") is 99
        [one] = recorded(app, 1)
        assert (one["facts"]["model"], one["facts"]["verdict"]) == (OLD, "passed")
        same = replay(app, one["id"])
        assert (same["same"], same["json"], same["fields"]) == (True, True, [])
        other = replay(app, one["id"], model=NEW)
        assert other["fields"] == [{"path": "/total", "change": "changed"}]
        assert (other["before"]["model"], other["after"]["model"]) == (OLD, NEW)
        assert other["after"]["cost"] > 0 == other["before"]["cost"]
        shown = replay(app, one["id"], model=NEW, reveal=True)
        assert shown["fields"] == [{"path": "/total", "change": "changed", "before": 1.5, "after": 2}]
        assert len(recorded(app, 1)) == 1  # a replay is no recording
        missing = app.client.post(f"/admin/recordings/{one['id']}/replay", json={"model": "nobody"})
        assert (missing.status_code, missing.json()["error"]["code"]) == (404, "model_not_found")
        assert app.client.post(f"/admin/recordings/{one['id']}/replay", json={"policy": "nobody"}).status_code == 400
        assert app.client.post("/admin/recordings/none/replay", json={}).status_code == 404


def test_a_policy_is_tried_on_what_was_asked(tmp_path: Path) -> None:
    """Under `texts = "received"`, so that there is something left to find."""
    policies = {
        "default": {"screen": {"secrets": {"mode": "shadow"}}, "moderate": {"secrets": {"mode": "shadow"}}},
        "strict": {"keys": ["nobody"], "screen": {"secrets": {"mode": "enforce"}}},
    }
    settings = {"policies": policies}
    pipeline = {"screen": ["secrets"], "moderate": ["secrets"]}
    with recording(
        tmp_path / "r.sqlite3",
        lambda job: ["fine"],
        stages={"screen": {"secrets": {"action": "block"}}},
        tables=settings,
        pipeline=pipeline,
        recording={"texts": "received"},
    ) as app:
        app.ask(f"my key is {TOKEN}", model=OLD, stream=False)
        app.ask("hello", model=OLD, stream=False)
        verdicts = {replay(app, one["id"], policy="strict")["after"]["verdict"] for one in recorded(app, 2)}
        assert verdicts == {ContentBlocked.code, "passed"}
        assert {replay(app, one["id"])["after"]["verdict"] for one in recorded(app, 2)} == {"passed"}


def test_what_a_rail_took_out_is_not_kept_unless_the_operator_wants_it(tmp_path: Path) -> None:
    stages = {"screen": {"secrets": {"action": "redact"}}}
    for texts, kept in (("screened", False), ("received", True)):
        path = tmp_path / f"{texts}.sqlite3"
        with recording(
            path, lambda job: ["ok"], stages=stages, pipeline={"screen": ["secrets"]}, recording={"texts": texts}
        ) as app:
            app.ask(f"my key is {TOKEN}", model=OLD, stream=False)
            [one] = recorded(app, 1)
            assert app.runtime.recorder is not None
            _, body = app.runtime.recorder._store.get(one["id"])  # type: ignore[misc]  # it is there
            assert (TOKEN in json.dumps(body)) is kept
            assert "key-" not in json.dumps(body).replace("key_id", "")


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, [("/a", "changed")]),
        ({"a": [1, 2]}, {"a": [1]}, [("/a/1", "gone")]),
        ({"a": {}}, {"a": {"b": None}}, [("/a", "gone"), ("/a/b", "new")]),
        ({"a/b": 1, "~": 2}, {"a/b": 2, "~": 2}, [("/a~1b", "changed")]),
        ([], {}, [("", "changed")]),
    ],
)
def test_fields_differ_as_json_values(before: Any, after: Any, expected: list[tuple[str, str]]) -> None:
    assert [(one["path"], one["change"]) for one in changed_fields(before, after)] == expected


def test_answers_are_compared_with_their_calls() -> None:
    def answer(text: str, *calls: tuple[str, str]) -> dict[str, Any]:
        return {"text": text, "finish_reason": "stop", "calls": [{"name": n, "arguments": a} for n, a in calls]}

    called = answer("", ("pay", '{"to": 1}'))
    assert difference([called], [answer("", ("pay", '{"to":1.0}'))])["same"]
    changed = difference([called], [answer("", ("pay", '{"to":2}'))])
    assert (changed["same"], changed["fields"][0]["path"]) == (False, "/to")
    assert not difference([called], [answer("", ("ask", '{"to": 1}'))])["same"]
    assert not difference([called], [])["same"]
    assert difference([answer("a")], [answer("b")])["text"] == {"before": "a", "after": "b"}


# --- what is kept -------------------------------------------------------------------------------------------------


def test_nothing_lies_in_the_clear_and_a_callers_deletion_takes_the_key_with_it(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite3"
    with recording(path, lambda job: ["answer of the gods"], keys=KEYS, pipeline={"admit": ["api-keys"]}) as app:
        for name, user in (("alice", "u1"), ("alice", "u2"), ("bob", "u1")):
            body = {"model": OLD, "messages": [{"role": "user", "content": f"whisper of {name}"}], "user": user}
            assert app.client.post("/v1/chat/completions", json=body, headers=as_(name)).status_code == 200
        assert app.client.get("/admin/recordings", headers=as_("alice")).status_code == 403
        app.client.headers.update(as_("root"))
        recorded(app, 3)
        assert len(recorded(app, 2, key="alice")) == 2
        with closing(sqlite3.connect(path)) as db:
            copies = db.execute("select subject, id, body from recordings").fetchall()
        stored = path.read_bytes() + path.with_name(path.name + "-wal").read_bytes()
        assert not [text for text in (b"whisper", b"gods", b"content") if text in stored]
        assert app.client.delete("/admin/recordings?user=u1").status_code == 400
        assert app.client.delete("/admin/recordings").status_code == 400
        assert app.client.delete("/admin/recordings?tenant=one&user=u1").json() == {"deleted": 1}
        assert len(recorded(app, 1, key="alice")) == 1
        assert app.client.delete("/admin/recordings?key=alice").json() == {"deleted": 1}
        [left] = recorded(app, 1)
        with closing(sqlite3.connect(path)) as db:
            keys = {subject for (subject,) in db.execute("select subject from recording_keys")}
            for subject, id, body in copies:  # somebody kept the rows
                db.execute("insert or ignore into recordings values (?, ?, 0, 0, '{}', ?)", (id, subject, body))
            db.commit()
        assert len(keys) == 1
        opened = [app.client.post(f"/admin/recordings/{id}/replay", json={}).status_code for _, id, _ in copies]
        assert sorted(opened) == [200, 404, 404]
        assert left["facts"]["key_id"] == "bob"


def test_what_a_stranger_asks_is_not_kept(tmp_path: Path) -> None:
    """Under `texts = "received"`, where what rails and limits refused is."""
    with recording(
        tmp_path / "r.sqlite3", keys=KEYS, pipeline={"admit": ["api-keys"]}, recording={"texts": "received"}
    ) as app:
        body = {"model": OLD, "messages": [{"role": "user", "content": "hello"}]}
        statuses = [
            app.client.post("/v1/chat/completions", json=body, headers=headers).status_code
            for headers in ({}, {"authorization": "Bearer of-nobody"}, as_("alice"))
        ]
        assert statuses == [401, 401, 200]
        app.client.headers.update(as_("root"))
        [kept] = recorded(app, 1)
        assert kept["facts"]["key_id"] == "alice"


def test_age_and_bytes_end_recordings_the_oldest_first(tmp_path: Path) -> None:
    with recording(tmp_path / "r.sqlite3", lambda job: ["x" * 1000]) as app:
        for number in range(6):
            app.ask(str(number), model=OLD, stream=False)
        found = recorded(app, 6)
        store = app.runtime.recorder._store  # type: ignore[union-attr]  # it is on
        store.trim(3600, sum(one["size"] for one in found[:4]))
        assert [one["id"] for one in recorded(app, 4)] == [one["id"] for one in found[:4]]
        store.trim(0, 10**9)
        recorded(app, 0)
        with store._tables.transaction() as db:
            assert db.execute("select count(*) from sluicegate.recording_keys").fetchall() == [(0,)]


def test_what_is_too_long_or_fails_is_left_out_and_counted(tmp_path: Path) -> None:
    def script(job: Job) -> list[str]:
        if job.request is not None and job.request.messages[-1].content == "break":
            raise GenerationFailed("broken")
        return ["ok"]

    with recording(tmp_path / "r.sqlite3", script, recording={"max_request_bytes": 3000}) as app:
        app.ask("x" * 4000, model=OLD, stream=False)
        app.ask("break", model=OLD, stream=False)
        app.ask("short", model=OLD, stream=False)
        recorded(app, 1)
        assert app.runtime.recorder is not None
        assert app.runtime.recorder.stats()["left_out_total"] == 1


@contextmanager
def tampered(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=30)) as db:
        yield db
        db.commit()


def keyed(app: TestApp, name: str, text: str) -> None:
    body = {"model": OLD, "messages": [{"role": "user", "content": text}]}
    assert app.client.post("/v1/chat/completions", json=body, headers=as_(name)).status_code == 200


@pytest.mark.parametrize(
    "change",
    [
        "body = substr(body, 1, length(body) - 9)",
        "body = x''",
        "body = 'text'",
        "body = (select body from recordings where subject != {subject} limit 1)",
        "body = (select body from recordings where subject = {subject} and id != {id} limit 1)",
        "record = substr(record, 1, 40)",
        "record = '[]'",
        "record = '{{}}'",
    ],
    ids=["truncated", "empty", "a text", "another caller's", "another request's", "half facts", "a list", "no facts"],
)
def test_a_damaged_recording_is_an_error_in_words_and_hides_no_other(tmp_path: Path, change: str) -> None:
    path = tmp_path / "r.sqlite3"
    with recording(path, keys=KEYS, pipeline={"admit": ["api-keys"]}) as app:
        for name, text in (("alice", "a"), ("alice", "b"), ("bob", "c")):
            keyed(app, name, text)
        app.client.headers.update(as_("root"))
        ids = [one["id"] for one in recorded(app, 2, key="alice")]
        with tampered(path) as db:
            subject, id = db.execute(
                "select quote(subject), quote(id) from recordings where id = ?", ids[:1]
            ).fetchone()
            db.execute(f"update recordings set {change.format(subject=subject, id=id)} where id = {id}")
        assert len(recorded(app, 3)) == 3
        answer = app.client.post(f"/admin/recordings/{ids[0]}/replay", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "recording_damaged")
        assert ids[0] in answer.json()["error"]["message"]
        assert replay(app, ids[1])["same"]
        assert cli.main(["replay", "--url", app.url, "--key", "key-root"]) == 1
        assert app.client.delete(f"/admin/recordings?id={ids[0]}").json() == {"deleted": 1}


@pytest.mark.parametrize("change", [{"answers": None}, {"answers": [{}]}, {"request": {}}, {"request": None}, None])
def test_what_another_release_recorded_otherwise_is_an_error_in_words(tmp_path: Path, change: Any) -> None:
    with recording(tmp_path / "r.sqlite3") as app:
        app.ask("c", model=OLD, stream=False)
        [one] = recorded(app, 1)
        store = app.runtime.recorder._store  # type: ignore[union-attr]  # it is on
        listed, body = store.get(one["id"]) or (None, None)
        kept = json.dumps(None if change is None else {**body, **change}).encode()
        store.add([Recording("other", "default", "", "", listed.facts, kept)])  # type: ignore[union-attr]
        answer = app.client.post("/admin/recordings/other/replay", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "recording_damaged")


def test_a_damaged_key_of_one_caller_stops_no_recording_of_others(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite3"
    with recording(path, keys=KEYS, pipeline={"admit": ["api-keys"]}) as app:
        keyed(app, "alice", "a")
        app.client.headers.update(as_("root"))
        recorded(app, 1)
        with tampered(path) as db:
            db.execute("update recording_keys set sealed = substr(sealed, 1, 20)")
        for name in ("alice", "bob"):
            keyed(app, name, "later")
        recorded(app, 1, key="bob")
        assert app.runtime.recorder is not None
        until(lambda: app.runtime.recorder.stats()["left_out_total"] == 1)  # type: ignore[union-attr]
        assert "DELETE /admin/recordings?key=ID" in app.runtime.recorder.troubles()[0].reason
        assert app.client.delete("/admin/recordings?key=alice").json() == {"deleted": 1}
        keyed(app, "alice", "at last")
        recorded(app, 1, key="alice")
        assert not app.runtime.recorder.troubles()


def test_what_is_too_old_goes_while_nothing_new_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "TRIM_EVERY", 2)
    with recording(tmp_path / "r.sqlite3", recording={"keep_s": 1.0}) as app:
        app.ask("c", model=OLD, stream=False)
        recorded(app, 1)

        def full(found: Any) -> Any:
            raise DatabaseUnavailable(0, "r.sqlite3 finds no room on its disk; make room")

        store = app.runtime.recorder._store  # type: ignore[union-attr]  # it is on
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(store, "add", full)
            app.ask("d", model=OLD, stream=False)
            recorded(app, 0)
            assert [trouble.reason for trouble in app.runtime.recorder.troubles()]  # type: ignore[union-attr]
        recorded(app, 1)


def test_what_was_recorded_is_asked_again_while_the_disk_is_full(tmp_path: Path) -> None:
    with recording(tmp_path / "r.sqlite3") as app:
        app.ask("c", model=OLD, stream=False, **FORM)
        [one] = recorded(app, 1)
        _pages(app, 1)
        for _ in range(3):
            assert app.ask("d" * 3000, model=OLD, stream=False, **FORM).status == 200
        until(app.runtime.recorder.troubles)  # type: ignore[union-attr]  # it is on
        assert "finds no room" in app.runtime.recorder.troubles()[0].reason  # type: ignore[union-attr]
        assert replay(app, one["id"], model=NEW)["before"]["model"] == OLD
        waits = app.runtime.recorder._waiting[0]  # type: ignore[union-attr]
        answer = app.client.post(f"/admin/recordings/{waits.id}/replay", json={})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "database_unavailable")
        _pages(app, 100_000)
        recorded(app, 4)
        assert replay(app, waits.id, model=NEW)["before"]["model"] == OLD


def _pages(app: TestApp, most: int) -> None:
    """Limit the file to so many pages, or to as many as are written already, as a disk does."""
    tables = app.runtime.recorder._tables  # type: ignore[union-attr]  # it is on
    with tables.transaction() as db:
        db.execute(f"pragma sluicegate.max_page_count = {most}")


def test_another_secret_opens_nothing_and_no_secret_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.sqlite3"
    with recording(path) as app:
        app.ask("c", model=OLD, stream=False, **FORM)
        [one] = recorded(app, 1)
    with recording(path, recording={"secret": "ef" * 32}) as app:
        assert app.client.post(f"/admin/recordings/{one['id']}/replay", json={}).status_code >= 400
    for wrong in ({}, {"secret": SECRET}):
        with pytest.raises(ConfigurationError, match="recording"):
            load(None, {}, overrides={"recording": {"enabled": True, **wrong}})


# --- the command --------------------------------------------------------------------------------------------------


def test_the_command_counts_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with recording(tmp_path / "r.sqlite3") as app:
        for text in "abcdefghi":
            app.ask(text, model=OLD, stream=False, **FORM)
        recorded(app, 9)
        at = ["replay", "--url", app.url, "--model", NEW]
        assert cli.main(at) == 0
        told = capsys.readouterr().out
        assert "9 requests asked again, 0 could not be" in told
        assert "changed  /total" in told
        assert cli.main([*at, "--json", "--at-least", "0.9"]) == 1
        report = json.loads(capsys.readouterr().out)
        assert (report["same"]["n"], round(report["same"]["value"], 3)) == (9, 0.667)
        assert report["same"]["low"] < 0.667 < report["same"]["high"]
        [field] = report["fields"]
        assert (field["path"], field["n"], field["of"]) == ("/total", 3, 9)
        assert "before" not in json.dumps([one["fields"] for one in report["requests"]])
        assert cli.main([*at[:3], "--limit", "2"]) == 0
        assert "2 requests" in capsys.readouterr().out
        assert cli.main([*at[:3], "--model", "nobody"]) == 1
        assert "there is no model 'nobody'" in capsys.readouterr().out
        assert cli.main([*at[:3], "--of-key", "nobody"]) == 2
    assert cli.main(at) == 2
    assert "is a gateway there?" in capsys.readouterr().err


def test_what_the_cache_answered_before_is_no_measure_of_cost(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A kept answer cost nothing, whichever version made it: figures tell of those that were generated."""
    with recording(tmp_path / "r.sqlite3", pipeline={"recall": ["memory"]}) as app:
        for text in ("a", "a", "a"):
            app.ask(text, model=OLD, stream=False, temperature=0, **FORM)
        recorded(app, 3)
        assert cli.main(["replay", "--url", app.url, "--json"]) == 0
        report = json.loads(capsys.readouterr().out)
        assert (report["replayed"], report["from_cache"], report["completion_tokens"]["difference"]) == (3, 2, 0)
        assert cli.main(["replay", "--url", app.url, "--limit", "2"]) == 0
        told = capsys.readouterr().out
        assert "2 were answered by the cache before" in told
        assert "completion_tokens" not in told
