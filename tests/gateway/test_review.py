"""What a rail wants a person to look at is held, decided and fetched; nothing held is lost."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from sluicegate.gateway.testing import TestApp
from tests.waiting import until

OPERATOR, REVIEWER, CALLER, OTHER = "operator", "reviewer", "caller", "other"
SCOPES = {OPERATOR: ["admin"], REVIEWER: ["review"]}
KEYS = [
    {"id": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "scopes": SCOPES.get(name, [])}
    for name in (OPERATOR, REVIEWER, CALLER, OTHER)
]
SCRIPT = ["The plan is ", "project nightjar", ", mail a@example.com about it."]
STAGES = {
    "screen": {"blocklist": {"phrases": ["forbidden topic"], "action": "escalate"}},
    "moderate": {"blocklist": {"phrases": ["project nightjar"], "action": "escalate"}, "pii": {"types": ["email"]}},
}


def gateway(path: Path, script: Any = SCRIPT, **review: Any) -> TestApp:
    pipeline = {"admit": ["api-keys"], "screen": ["blocklist"], "moderate": ["blocklist", "pii"]}
    settings = {"review": {"path": str(path), **review}}
    return TestApp(pipeline=pipeline, stages=STAGES, keys=KEYS, script=script, settings=settings)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reviews.sqlite3"


@pytest.fixture
def app(path: Path) -> Iterator[TestApp]:
    with gateway(path) as made:
        yield made


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def ask(app: TestApp, text: str = "hello", **fields: Any) -> httpx.Response:
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], **fields}
    return app.client.post("/v1/chat/completions", json=body, headers=bearer(CALLER))


def fetch(app: TestApp, url: str, key: str = CALLER) -> httpx.Response:
    return app.client.get(url, headers=bearer(key))


def decide(app: TestApp, id: str, verb: str, key: str = REVIEWER) -> httpx.Response:
    return app.client.post(f"/admin/review/{id}/{verb}", json={"note": "seen"}, headers=bearer(key))


def held_answer(app: TestApp) -> dict[str, str]:
    found: dict[str, str] = ask(app).json()["sluicegate"]["review"]
    return found


def test_what_was_clear_is_out_and_the_rest_is_held(app: TestApp) -> None:
    body = ask(app).json()
    choice = body["choices"][0]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("The plan is ", "content_filter")
    review = body["sluicegate"]["review"]
    assert review["url"] == f"/v1/reviews/{review['id']}"
    assert fetch(app, review["url"]).status_code == 202
    assert decide(app, review["id"], "approve").json()["status"] == "approved"
    fetched = fetch(app, review["url"])
    message = fetched.json()["result"]["choices"][0]
    assert fetched.status_code == 200
    assert message["message"]["content"] == "The plan is project nightjar, mail [REDACTED] about it.", "other rails act"
    assert message["finish_reason"] == "stop"


def test_a_stream_ends_with_the_review(app: TestApp) -> None:
    raw = ask(app, stream=True).text
    assert "nightjar" not in raw
    events = [json.loads(line[6:]) for line in raw.splitlines() if line.startswith("data: {")]
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events if e["choices"]) == "The plan is "
    last = events[-1]
    assert last["choices"][0]["finish_reason"] == "content_filter"
    assert fetch(app, last["sluicegate"]["review"]["url"]).json()["status"] == "pending"


def test_a_request_is_held_before_anything_is_generated_and_answered_once_approved(app: TestApp) -> None:
    refused = ask(app, "about the forbidden topic")
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (403, "pending_review")
    assert app.model.jobs == []
    url, id = error["review"]["url"], error["review"]["id"]
    decide(app, id, "approve")
    first = fetch(app, url).json()
    assert first["result"]["sluicegate"]["review"]["id"] != id, "its answer has something to look at of its own"
    assert len(app.model.jobs) == 1
    assert fetch(app, url).json() == first
    assert len(app.model.jobs) == 1, "it is answered once"


@pytest.mark.parametrize(("verb", "status"), [("deny", "denied"), ("expire", "expired")])
def test_what_is_not_approved_is_never_shown(app: TestApp, verb: str, status: str) -> None:
    review = held_answer(app)
    decide(app, review["id"], verb)
    found = fetch(app, review["url"]).json()
    assert found["status"] == status
    assert "nightjar" not in json.dumps(found)
    again = decide(app, review["id"], "approve")
    assert (again.status_code, again.json()["error"]["code"]) == (400, "decided"), "the first decision stands"


def test_what_nobody_decides_in_time_is_denied(path: Path) -> None:
    with gateway(path, ttl_s=0.05) as app:
        review = held_answer(app)
        until(lambda: fetch(app, review["url"]).json()["status"] == "expired")
        assert decide(app, review["id"], "approve").status_code == 400


def test_only_its_tenant_can_fetch_and_only_reviewers_decide(app: TestApp) -> None:
    review = held_answer(app)
    assert fetch(app, review["url"], OTHER).status_code == 404
    assert decide(app, review["id"], "approve", CALLER).status_code == 403
    assert fetch(app, "/admin/review", CALLER).status_code == 403
    assert decide(app, review["id"], "deny", OPERATOR).status_code == 200


def test_a_listing_shows_texts_only_where_asked(app: TestApp) -> None:
    held_answer(app)
    plain, revealed = fetch(app, "/admin/review", REVIEWER), fetch(app, "/admin/review?reveal=true", REVIEWER)
    assert "nightjar" not in plain.text
    [item] = plain.json()["data"]
    assert (item["rail"], item["reason"], item["tenant"]) == ("blocklist", "blocklist", CALLER)
    assert item["characters"] == len("The plan is project nightjar, mail [REDACTED] about it.")
    assert "project nightjar" in revealed.json()["data"][0]["texts"][0]
    assert plain.json()["counts"]["pending"] == 1


def test_a_full_queue_refuses(path: Path) -> None:
    with gateway(path, max_pending=1) as app:
        held_answer(app)
        body = ask(app).json()
        assert "review" not in body.get("sluicegate", {})
        assert body["choices"][0]["finish_reason"] == "content_filter"
        assert ask(app, "a forbidden topic").json()["error"]["code"] == "content_filter"


def test_a_queue_that_is_switched_off_blocks(path: Path) -> None:
    with gateway(path, enabled=False) as app:
        assert ask(app, "a forbidden topic").status_code == 400
        assert ask(app).json()["choices"][0]["message"]["refusal"] == "The answer was stopped by a safety rail."
        assert fetch(app, "/admin/review", OPERATOR).status_code == 404
    assert not path.exists()


def test_a_file_that_cannot_be_written_refuses(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with gateway(tmp_path / "file" / "reviews.sqlite3") as app:
        assert ask(app, "a forbidden topic").json()["error"]["code"] == "content_filter"


def test_a_held_structured_answer_is_whole_and_valid_once_approved(path: Path) -> None:
    script = ['{"plan": "project nightjar", ', '"mail": "a@example.com"}']
    with gateway(path, script) as app:
        schema = {"type": "object", "properties": {"plan": {"type": "string"}, "mail": {"type": "string"}}}
        asked = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        body = ask(app, response_format=asked).json()
        assert body["choices"][0]["message"]["content"] is None
        review = body["sluicegate"]["review"]
        decide(app, review["id"], "approve")
        text = fetch(app, review["url"]).json()["result"]["choices"][0]["message"]["content"]
        assert json.loads(text) == {"plan": "project nightjar", "mail": "[REDACTED]"}


def test_held_texts_are_encrypted_where_there_is_a_secret(path: Path) -> None:
    pytest.importorskip("cryptography", reason="needs the extra: pip install 'sluicegate[encryption]'")
    with gateway(path, secret="ab" * 32) as app:
        review = held_answer(app)
        decide(app, review["id"], "approve")
        assert "nightjar" in fetch(app, review["url"]).text
    files = list(path.parent.glob("reviews.sqlite3*"))
    assert files
    assert not any(b"nightjar" in file.read_bytes() for file in files)


SERVER = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.gateway.test_review import gateway
import time
with gateway(Path({path!r})) as app:
    print(app.url, flush=True)
    time.sleep(600)
"""


def started(path: Path) -> tuple[subprocess.Popen[str], httpx.Client]:
    root = str(Path(__file__).resolve().parents[2])
    code = SERVER.format(root=root, path=str(path))
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, httpx.Client(base_url=process.stdout.readline().strip(), timeout=30, trust_env=False)


def test_what_is_held_survives_a_kill_and_a_restart(path: Path) -> None:
    """SIGKILL right after the caller heard of it, then another process on the same file."""
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hello"}]}
    process, client = started(path)
    try:
        answered = client.post("/v1/chat/completions", json=body, headers=bearer(CALLER)).json()
        asked = {**body, "messages": [{"role": "user", "content": "the forbidden topic"}]}
        refused = client.post("/v1/chat/completions", json=asked, headers=bearer(CALLER)).json()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    ids = [answered["sluicegate"]["review"]["id"], refused["error"]["review"]["id"]]
    with gateway(path) as app:
        listed = fetch(app, "/admin/review", OPERATOR).json()["data"]
        assert [item["id"] for item in listed] == ids
        for id in ids:
            decide(app, id, "approve")
        assert "nightjar" in fetch(app, f"/v1/reviews/{ids[0]}").text
        assert fetch(app, f"/v1/reviews/{ids[1]}").json()["result"]["object"] == "chat.completion"


def test_the_file_is_for_its_owner_only(app: TestApp, path: Path) -> None:
    held_answer(app)
    assert path.stat().st_mode & 0o077 == 0
    assert sqlite3.connect(path).execute("pragma journal_mode").fetchone() == ("wal",)
