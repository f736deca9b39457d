"""What callers say of answers: each of its own, once, bounded, and comments never in the clear."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.feedback.recent import RecentAnswers
from sluicegate.gateway.feedback.store import AnsweredRequest
from sluicegate.gateway.testing import TestApp
from tests.waiting import until

SECRET = "ab" * 32
KEYS = [
    {"id": "alice", "key": "key-alice", "tenant": "one"},
    {"id": "bob", "key": "key-bob", "tenant": "one"},
    {"id": "root", "key": "key-root", "scopes": ["admin"]},
]
KEYED: Mapping[str, Any] = {"keys": KEYS, "pipeline": {"admit": ["api-keys", "limits"]}}


def as_(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer key-{name}"}


def asked(app: TestApp, name: str = "", *, stream: bool = False) -> str:
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    answer = app.client.post("/v1/chat/completions", json=body, headers=as_(name) if name else {})
    assert answer.status_code == 200, answer.text
    if stream:
        return str(answer.text.split('"id":"', 1)[1].split('"', 1)[0])
    return str(answer.json()["id"])


def say(app: TestApp, id: str, name: str = "", **said: Any) -> httpx.Response:
    return app.client.post("/v1/feedback", json={"request_id": id, **said}, headers=as_(name) if name else {})


def code(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()["error"]["code"]


@pytest.mark.parametrize("stream", [False, True])
def test_feedback_is_given_at_once_and_again_later(stream: bool) -> None:
    with TestApp(settings={"feedback": {"secret": SECRET}}) as app:
        id = asked(app, stream=stream)
        until(lambda: say(app, id, score=0.5).status_code == 200)
        until(lambda: not app.runtime.feedback._waiting)  # type: ignore[union-attr]  # it is on
        assert say(app, id, score=1, label="nice", comment="so long 😀").json()["request_id"] == id
        [kept] = app.client.get("/admin/feedback").json()["data"]
        assert (kept["score"], kept["label"], kept["has_comment"]) == (1, "nice", True)
        assert "comment" not in kept
        [shown] = app.client.get("/admin/feedback?reveal=true").json()["data"]
        assert shown["comment"] == "so long 😀"


def test_feedback_on_one_request_is_found() -> None:
    with TestApp(settings={"feedback": {}}) as app:
        first, second = asked(app), asked(app)
        for id, score in ((first, 0), (second, 1)):
            until(lambda id=id, score=score: say(app, id, score=score).status_code == 200)  # type: ignore[misc]
        for id, score in ((first, 0), (second, 1)):
            [found] = app.client.get("/admin/feedback", params={"request_id": id}).json()["data"]
            assert (found["request_id"], found["score"]) == (id, score)
        assert app.client.get("/admin/feedback?request_id=nobody").json()["data"] == []


def test_a_key_speaks_of_its_own_requests_alone() -> None:
    with TestApp(settings={"feedback": {}}, **KEYED) as app:
        id = asked(app, "alice")
        for name in ("bob", "root"):
            assert code(say(app, id, name, score=0)) == (404, "request_not_found")
        assert say(app, id, "alice", score=0).status_code == 200
        assert code(app.client.post("/v1/feedback", json={"request_id": id, "score": 0}))[0] == 401
        assert app.client.get("/admin/feedback", headers=as_("alice")).status_code == 403
        assert app.client.delete("/admin/feedback?key=alice", headers=as_("bob")).status_code == 403
        gone = app.client.delete("/admin/feedback?key=alice", headers=as_("root"))
        assert gone.json() == {"forgotten": 1}
        assert app.client.get("/admin/feedback", headers=as_("root")).json()["data"] == []
        assert code(say(app, id, "alice", score=0)) == (404, "request_not_found")


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"score": 1.01},
        {"score": -0.1},
        {"score": "good"},
        {"score": 1, "label": "x" * 65},
        {"comment": "x" * 5000},
        {"score": 1, "stars": 5},
        {"request_id": "", "score": 1},
        {"request_id": "a\x00b", "score": 1},
        {"request_id": "x" * 129, "score": 1},
        {"request_id": None, "score": 1},
    ],
)
def test_what_is_no_feedback_is_refused(said: dict[str, Any]) -> None:
    with TestApp(settings={"feedback": {"secret": SECRET}}) as app:
        body = {"request_id": asked(app), **said}
        assert app.client.post("/v1/feedback", json=body).status_code in (400, 422)


@pytest.mark.parametrize("file", ["", "feedback.sqlite3"], ids=["in memory", "in a file"])
def test_only_so_many_requests_of_a_key_are_remembered(tmp_path: Path, file: str) -> None:
    """The newest ones; another key's do not count."""
    path = str(tmp_path / file) if file else ""
    with TestApp(settings={"feedback": {"max_requests": 3, "path": path}}, **KEYED) as app:
        first = asked(app, "bob")
        ids = [asked(app, "alice") for _ in range(6)]
        until(lambda: not app.runtime.feedback._waiting)  # type: ignore[union-attr]  # it is on
        assert [say(app, id, "alice", score=1).status_code for id in ids] == [404, 404, 404, 200, 200, 200]
        assert say(app, first, "bob", score=1).status_code == 200


def test_what_is_remembered_in_memory_ends_with_its_time() -> None:
    recent = RecentAnswers(most=10)
    for number in range(4):
        recent.add(AnsweredRequest("key a", f"r{number}", "m"))
    recent.expire(keep_s=60.0)
    assert recent.find("key a", "r0") == AnsweredRequest("key a", "r0", "m")
    assert recent.find("key b", "r0") is None
    time.sleep(0.02)
    recent.add(AnsweredRequest("key b", "r0", "m"))
    recent.add(AnsweredRequest("key a", "r1", "other"))  # again: the newest of its kind
    recent.expire(keep_s=0.01)
    assert [recent.find("key a", f"r{number}") for number in (0, 2, 3)] == [None] * 3
    assert recent.find("key a", "r1") == AnsweredRequest("key a", "r1", "other")
    recent.forget("key b")
    assert recent.find("key b", "r0") is None
    assert recent.find("key a", "r1") is not None


def test_comments_lie_encrypted_and_are_refused_where_they_cannot(tmp_path: Path) -> None:
    path = tmp_path / "feedback.sqlite3"
    with TestApp(settings={"feedback": {"secret": SECRET, "path": str(path)}}) as app:
        assert say(app, asked(app), comment="my very own words").status_code == 200
    with closing(sqlite3.connect(path)) as db:
        [(comment,)] = db.execute("select comment from feedback").fetchall()
    assert b"own words" not in path.read_bytes() + comment
    with TestApp(settings={"feedback": {"path": str(path)}}) as app:
        assert say(app, asked(app), comment="my very own words").status_code == 400
    with TestApp(settings={"feedback": {"enabled": False}}) as app:
        assert code(say(app, asked(app), score=1)) == (404, "feedback_off")


def test_a_comment_that_does_not_open_hides_no_other(tmp_path: Path) -> None:
    path = tmp_path / "feedback.sqlite3"
    with TestApp(settings={"feedback": {"secret": SECRET, "path": str(path)}}) as app:
        for words in ("first", "second"):
            assert say(app, asked(app), comment=words).status_code == 200
        with closing(sqlite3.connect(path, timeout=30)) as db:
            db.execute("update feedback set comment = x'00' where at_s = (select min(at_s) from feedback)")
            db.commit()
        answer = app.client.get("/admin/feedback?reveal=true")
        assert answer.status_code == 200, answer.text
        assert [(one["has_comment"], one["comment"]) for one in answer.json()["data"]] == [
            (True, "second"),
            (True, None),
        ]


def test_a_restart_keeps_what_can_be_spoken_of_and_what_was_said(tmp_path: Path) -> None:
    settings = {"feedback": {"path": str(tmp_path / "feedback.sqlite3")}}
    with TestApp(settings=settings) as app:
        said, unsaid = asked(app), asked(app)
        assert say(app, said, score=0.25).status_code == 200
    with TestApp(settings=settings) as app:
        assert say(app, unsaid, score=0.75).status_code == 200
        found = {one["request_id"]: one["score"] for one in app.client.get("/admin/feedback").json()["data"]}
    assert found == {said: 0.25, unsaid: 0.75}


def test_half_a_character_is_refused_and_breaks_nothing() -> None:
    with TestApp(settings={"feedback": {"secret": SECRET}}) as app:
        for field in ("request_id", "label", "comment"):
            body = {"request_id": asked(app), "score": 1, field: "\ud800"}
            sent = json.dumps(body).encode("ascii")
            answer = app.client.post("/v1/feedback", content=sent, headers={"content-type": "application/json"})
            assert answer.status_code in (400, 422), (field, answer.text)
        assert say(app, asked(app), score=1).status_code == 200
