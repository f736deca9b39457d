"""The console's history of a whole gateway: over restarts, without content unless opted in, and when it breaks."""

from __future__ import annotations

import hashlib
import socketserver
import sqlite3
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest

from sluicegate.gateway.history.details import outline
from sluicegate.gateway.settings import TelemetrySettings
from sluicegate.gateway.testing import TestApp
from tests.gateway.certificates import self_signed
from tests.gateway.upstream.servers import ScriptedServer, answers, gateway, running, says
from tests.waiting import until

KEYS = [
    {"id": name, "sha256": hashlib.sha256(name.encode()).hexdigest(), "scopes": scopes}
    for name, scopes in (("op", ["admin"]), ("both", ["admin", "review"]), ("reviewer", ["review"]), ("app", []))
]
BLOCKING = {"screen": {"blocklist": {"phrases": ["halberd"], "action": "block"}}}
SCHEMA = {
    "type": "object",
    "properties": {"kind": {"enum": ["walrus", "orca"], "description": "a secret animal"}},
    "required": ["kind"],
}
SHAPED: dict[str, Any] = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}}
SECRET = "ab" * 32


def kept(folder: Path | str = "", **telemetry: Any) -> TestApp:
    settings = {"telemetry": {"history": str(folder), **telemetry}}
    pipeline = {"admit": ["api-keys"], "screen": ["blocklist"]}
    return TestApp(pipeline=pipeline, stages=BLOCKING, keys=KEYS, settings=settings)


def ask(app: TestApp, path: str, key: str = "op", **params: Any) -> Any:
    found = app.client.get(f"/admin/console/{path}", params=params, headers={"authorization": f"Bearer {key}"})
    return found.json() if found.status_code == 200 else found


def send(app: TestApp, text: str, key: str = "app", **fields: Any) -> int:
    body = {"model": "scripted", "messages": [{"role": "user", "content": text}], **fields}
    heads = {"authorization": f"Bearer {key}", "x-sluicegate-feature": "search"}
    return int(app.client.post("/v1/chat/completions", json=body, headers=heads).status_code)


def listed(app: TestApp, count: int, **params: Any) -> list[dict[str, Any]]:
    until(lambda: ask(app, "requests")["total"] >= count, 20)
    return list(ask(app, "requests", **params)["recent"])


def test_requests_and_their_traces_outlive_the_gateway(tmp_path: Path) -> None:
    with kept(tmp_path) as app:
        assert send(app, "hello") == 200
        assert send(app, "tell me of the halberd") == 400
        before = listed(app, 2)
    with kept(tmp_path) as app:
        assert listed(app, 2) == before
        refused, answered = before
        assert (refused["outcome"], refused["ended"], refused["status"]) == ("refused", "content_filter", 400)
        assert (answered["route"], answered["feature"], answered["key"]) == ("/v1/chat/completions", "search", "app")
        found = ask(app, f"requests/{refused['id']}")
        assert "blocklist" in found["error"]["message"]
        assert found["spans"][found["focus"]]["name"] == "run_guardrail blocklist"
        assert ask(app, f"requests/{refused['trace']}")["id"] == refused["id"]
        assert ask(app, "figures")["outcomes"]["refused"] == 1


def test_what_rails_found_outlives_the_gateway(tmp_path: Path) -> None:
    found = []
    for _ in range(2):
        with kept(tmp_path) as app:
            send(app, "tell me of the halberd")
            listed(app, len(found) + 1)
            heads = {"authorization": "Bearer op"}
            found.append(app.client.get("/admin/rails/history?last=3600", headers=heads).json())
    before, after = found
    assert before["verdicts"] == [["screen", "blocklist", "block", 1]]
    assert after["verdicts"] == [["screen", "blocklist", "block", 2]]
    assert after["categories"] == [["screen", "blocklist", "blocklist", "block", 2]]
    assert after["since_s"] == before["since_s"]
    assert after["survives"]


def test_without_a_folder_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with kept() as app:
        send(app, "hello")
        assert len(listed(app, 1)) == 1
    assert list(tmp_path.rglob("*")) == []


def test_without_opting_in_neither_texts_nor_words_of_a_schema_are_kept(tmp_path: Path) -> None:
    with kept(tmp_path) as app:
        tool = {"type": "function", "function": {"name": "look_up", "description": "my plan", "parameters": SCHEMA}}
        send(app, "about the walrus", **SHAPED)
        send(app, "tell me of the halberd", tools=[tool], stop=["orca"])
        words = ("walrus", "orca", "secret animal", "my plan", "halberd")
        found = [ask(app, f"requests/{line['id']}", "both") for line in listed(app, 2)]
        assert not [word for word in words if word in str(found)]
        with_tool, shaped = found
        assert shaped["shape"]["value"]["properties"]["kind"]["enum"] == "(2 values)"
        assert with_tool["tools"][0]["name"] == "look_up"
        assert with_tool["parameters"]["stop"] == "(1 values)"
    data = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"walrus" not in data


def test_with_content_schema_tools_and_texts_are_shown(tmp_path: Path) -> None:
    with kept(tmp_path, content=True) as app:
        send(app, "about the walrus", **SHAPED)
        found = ask(app, f"requests/{listed(app, 1)[0]['id']}")
        assert "a secret animal" in found["asked"][0]["text"]
        assert found["messages"][0]["text"] == "about the walrus"


@pytest.mark.parametrize("secret", ["", SECRET])
def test_what_a_rail_withheld_is_for_reviewers_alone(tmp_path: Path, secret: str) -> None:
    """From memory while the gateway runs; from the disk only where it is sealed. Never to a plain operator."""
    with kept(tmp_path, content=True, history_secret=secret) as app:
        send(app, "tell me of the halberd")
        [line] = listed(app, 1)
        place = f"requests/{line['id']}"
        assert ask(app, f"{place}/withheld", "op").status_code == 403
        assert ask(app, f"{place}/withheld", "app").status_code == 403
        for reviewer in ("both", "reviewer"):
            assert ask(app, f"{place}/withheld", reviewer)["data"][0]["text"] == "tell me of the halberd"
        told = ask(app, place)
        assert (told["withheld"], told["may_review"]) == (1, False)
        assert "halberd" not in str(told)
    with kept(tmp_path, content=True, history_secret=secret) as app:
        assert "halberd" not in str(ask(app, place, "both"))
        again = ask(app, f"{place}/withheld", "both")
        if secret:
            assert again["data"][0]["text"] == "tell me of the halberd"
        else:
            assert again.status_code == 404
    assert b"halberd" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())


def test_a_trace_sealed_under_another_secret_is_an_error_in_words_and_its_line_stays(tmp_path: Path) -> None:
    with kept(tmp_path, history_secret=SECRET) as app:
        send(app, "hello")
        before = listed(app, 1)
    with kept(tmp_path, history_secret="cd" * 32) as app:
        assert listed(app, 1) == before
        found = ask(app, f"requests/{before[0]['id']}")
        assert (found.status_code, "history_secret" in found.json()["error"]["message"]) == (500, True)


@pytest.mark.parametrize("breakage", ["a file in the way", "not a database"])
def test_a_history_that_cannot_be_written_is_a_trouble_and_stops_nothing(tmp_path: Path, breakage: str) -> None:
    folder = tmp_path / "history"
    if breakage == "a file in the way":
        folder.write_text("")
    else:
        folder.mkdir()
        (folder / "requests.sqlite3").write_bytes(b"nothing that SQLite knows " * 100)
    with kept(folder) as app:
        assert send(app, "hello") == 200
        until(lambda: "history" in app.runtime.readiness.troubles)
        assert app.runtime.readiness.serves
        assert ask(app, "requests").status_code == 503
        assert send(app, "hello again") == 200


def test_a_lock_of_somebody_else_loses_nothing_that_was_there(tmp_path: Path) -> None:
    with kept(tmp_path) as app:
        send(app, "hello")
        listed(app, 1)
        with sqlite3.connect(tmp_path / "requests.sqlite3") as other:
            other.execute("begin immediate")
            assert send(app, "while it is locked") == 200
            other.rollback()
        send(app, "after that")
        assert len(listed(app, 2)) >= 2


@pytest.mark.parametrize(
    "params", [{"outcome": "'"}, {"limit": 0}, {"before": -1}, {"from_s": "nan"}, {"nothing": 1}, {"over_ms": -1}]
)
def test_a_filter_that_means_nothing_is_refused(params: dict[str, Any]) -> None:
    with kept() as app:
        assert ask(app, "requests", **params).status_code in (400, 422)


def test_hostile_names_are_kept_as_they_are_and_cut(tmp_path: Path) -> None:
    with kept(tmp_path) as app:
        hostile = "'; drop table requests; --" + "<img onerror=x>" * 100
        assert send(app, "hello", model=hostile[:256]) in (400, 404)
        [line] = listed(app, 1, outcome="rejected")
        assert line["model"] == hostile[:256]
        assert len(listed(app, 1, model=hostile[:256])) == 1
        assert ask(app, "choices")["model"] == [hostile[:256]]


def test_operators_read_why_a_server_could_not_be_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as a certificate that has expired; the caller is not told, and reads no address."""
    cert, key = self_signed(since_days=9, days=-1)
    for name, content in (("server.pem", cert), ("server.key", key)):
        (tmp_path / name).write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "server.pem"))
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as server:
        terms = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        terms.load_cert_chain(tmp_path / "server.pem", tmp_path / "server.key")
        server.socket = terms.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with gateway(f"https://localhost:{server.server_address[1]}", retries=0) as app:
            error = app.ask("hi", stream=False, model="far").error or {}
            assert error["message"] == "the server behind model 'far' cannot be reached"
            [found] = app.client.get("/admin/console/requests").json()["recent"]
            whole = app.client.get(f"/admin/console/requests/{found['id']}").json()
            assert "certificate has expired" in whole["error"]["cause"]
        server.shutdown()


def test_a_dead_server_is_unavailable_and_not_overloaded() -> None:
    """Its requests are marked as failed, with what was tried; the page of models names the server and its breaker."""
    server = ScriptedServer(*[answers(500)] * 20, says("fine"))
    with running(server) as url, gateway(url, retries=0, failures_to_open=2, pause_s=60) as app:
        for _ in range(3):
            app.ask("hi", stream=False, model="far")
        found = app.client.get("/admin/console/requests").json()["recent"]
        assert [line["ended"] for line in found] == ["upstream_unavailable", "upstream_failed", "upstream_failed"]
        assert [line["status"] for line in found] == [503, 502, 502]
        assert {line["outcome"] for line in found} == {"failed"}
        whole = app.client.get(f"/admin/console/requests/{found[0]['id']}").json()
        assert whole["spans"][whole["focus"]]["mark"] == "bad"
        assert "left alone" in whole["error"]["message"]
        [model] = [m for m in app.client.get("/admin/console/models").json()["data"] if m["name"] == "far"]
        [health] = model["servers"]
        assert (health["state"], health["failures_in_a_row"]) == ("left_alone", 2)
        assert health["wait_s"] > 0


@pytest.mark.parametrize(
    ("schema", "shown"),
    [
        ({"type": "string", "const": "x"}, {"type": "string", "const": "(1 characters)"}),
        ({"properties": {"enum": {"type": "string"}}}, {"properties": {"enum": {"type": "string"}}}),
        ({"x-note": "words", "minimum": 3}, {"x-note": "(5 characters)", "minimum": 3}),
        ("a|b", "(3 characters)"),
        ({"enum": [1, 2, 3], "required": ["a"]}, {"enum": "(3 values)", "required": ["a"]}),
        (True, True),
    ],
)
def test_an_outline_has_the_structure_and_none_of_the_words(schema: Any, shown: Any) -> None:
    assert outline(schema) == shown


def test_the_history_is_off_by_default() -> None:
    assert TelemetrySettings().history == ""
