"""Who may come in, and by which name: a page in somebody's browser, a caller with a key, and whoever floods a door."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.routing import APIRoute
from websockets.exceptions import ConnectionClosed, InvalidStatus

from sluicegate.gateway.http.host_check import PROBES
from sluicegate.gateway.testing import TestApp
from sluicegate.plugins import ConfigurationError
from tests.gateway.test_socket import open_socket
from tests.waiting import LIMIT_S

CHAT = "/v1/chat/completions"
TURN = [{"role": "user", "content": "hi"}]
BODY: dict[str, Any] = {"model": "scripted", "messages": TURN}
FORM: Any = {"files": {"file": ("in.jsonl", b"{}")}, "data": {"purpose": "batch"}}
KEYED: dict[str, Any] = {"pipeline": {"admit": ["api-keys", "limits"], "record": ["ledger"]}}


@pytest.fixture(scope="module")
def open_gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestApp]:
    """Run a gateway without keys, as on a laptop."""
    with TestApp(settings={"batches": {"path": str(tmp_path_factory.mktemp("open"))}}) as app:
        yield app


def key(id: str, **more: Any) -> dict[str, Any]:
    return {"id": id, "key": f"secret-{id}", **more}


def bearer(id: str) -> dict[str, str]:
    return {"authorization": f"Bearer secret-{id}"}


def keyed(folder: Any, *keys: dict[str, Any], **more: Any) -> TestApp:
    settings = {"batches": {"path": str(folder / "batches"), **more.pop("batches", {})}}
    settings["review"] = {"path": str(folder / "reviews.sqlite3"), **more.pop("review", {})}
    return TestApp(keys=keys, settings=settings, **KEYED, **more)


def raw(app: TestApp, head: bytes, body: bytes = b"") -> tuple[int, bytes]:
    """Send bytes as they are; return the status and the body that come back."""
    host, port = app.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
        connection.sendall(head + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        answer = b""
        while part := connection.recv(65536):
            answer += part
    status, _, rest = answer.partition(b"\r\n")
    return int(status.split()[1]), rest.partition(b"\r\n\r\n")[2]


def refusal(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def routes(app: TestApp) -> list[tuple[str, str]]:
    """Return (method, path) of everything that is served over HTTP, found in the application itself."""
    found, waiting = [], list(app.app.routes)
    while waiting:
        route: Any = waiting.pop()
        inner = getattr(route, "original_router", None) or getattr(route, "router", None)
        waiting.extend(getattr(inner, "routes", None) or ())
        if isinstance(route, APIRoute):
            found += [
                (method, re.sub(r"{[^}]*}", "x", route.path.replace("{verb}", "approve"))) for method in route.methods
            ]
    return sorted(set(found))


# --- Host ---------------------------------------------------------------------------------------------------------


def test_without_keys_every_route_but_the_probes_refuses_a_strangers_name(open_gateway: TestApp) -> None:
    every = routes(open_gateway)
    assert {("POST", CHAT), ("GET", "/metrics"), ("GET", "/openapi.json"), ("GET", "/console")} <= set(every)
    for method, path in every:
        answer = open_gateway.client.request(method, path, headers={"host": "evil.example"})
        assert answer.status_code == (200 if path in PROBES else 403), (method, path, answer.text)
        if answer.status_code == 403 and method != "HEAD":
            assert "foreign_host" in answer.text
    assert refusal(open_gateway.client.get("/nowhere", headers={"host": "evil.example"})) == (403, "foreign_host")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:8000",
        "localhost.",
        "localhost:",
        "127.0.0.1",
        "127.8.9.10:1",
        "[::1]",
        "[::1]:65535",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
    ],
)
def test_names_of_loopback_are_own_names(open_gateway: TestApp, host: str) -> None:
    assert open_gateway.client.get("/v1/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "localhost.evil.example",
        "evil.localhost.example",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io:8000",
        "xlocalhost",
        "foo.localhost",
        "0.0.0.0",
        "[::]",
        "[::2]",
        "[::ffff:8.8.8.8]",
        "128.0.0.1",
        "gateway",
        "xn--lcalhost-x1a",
    ],
)
def test_names_that_only_look_like_loopback_are_refused(open_gateway: TestApp, host: str) -> None:
    assert refusal(open_gateway.client.get("/v1/models", headers={"host": host})) == (403, "foreign_host")


@pytest.mark.parametrize(
    "host",
    [
        b"[::1",
        b"::1",
        b"[::1]x",
        b"[::1]:x",
        b"[]",
        b"[localhost]",
        b"[::1%25eth0]",
        b"user@localhost",
        b"user:word@localhost",
        b"localhost:80:80",
        b"localhost:0",
        b"localhost:65536",
        b"localhost:-1",
        b"localhost:+1",
        b"localhost..",
        b".",
        b"localhost, evil.example",
        b"localhost evil.example",
        b"localhost/x",
        b"localhost#x",
        b"localhost\\x",
        b"http://localhost",
        b"127.1",
        b"2130706433",
        b"0x7f000001",
        b"127.0.0.01",
        b"l\xf6calhost",
        b"-localhost-",
        b"",
        b"a" * 300,
        b"*",
    ],
    ids=repr,
)
@pytest.mark.parametrize("path", [b"/v1/models", b"/admin/cache"])
def test_a_malformed_host_is_a_400(open_gateway: TestApp, host: bytes, path: bytes) -> None:
    status, body = raw(open_gateway, b"GET %s HTTP/1.1\r\nHost: %s\r\n" % (path, host))
    assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_host")


@pytest.mark.parametrize("second", [b"localhost", b"evil.example"])
def test_two_hosts_are_a_400_with_keys_and_without(open_gateway: TestApp, second: bytes) -> None:
    head = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: %s\r\n" % second
    with TestApp(keys=[key("a")], **KEYED) as closed:
        for app in (open_gateway, closed):
            status, body = raw(app, head)
            assert (status, json.loads(body)["error"]["code"]) == (400, "invalid_host")


@pytest.mark.parametrize(
    ("header", "code"), [(b"Authorization: Bearer ", "invalid_authorization"), (b"X-Api-Key: ", "invalid_x_api_key")]
)
def test_two_keys_are_a_400(header: bytes, code: str) -> None:
    """Whose request it is would depend on which one somebody takes."""
    with TestApp(keys=[key("a"), key("b")], **KEYED) as closed:
        for shown in (b"secret-a", b"secret-b"):
            head = b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + header + b"secret-a\r\n" + header + shown + b"\r\n"
            status, body = raw(closed, head)
            assert (status, json.loads(body)["error"]["code"]) == (400, code)
        assert raw(closed, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + header + b"secret-a\r\n")[0] == 200


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
def test_a_request_that_names_no_host_is_a_400_but_for_the_probes(open_gateway: TestApp, version: bytes) -> None:
    assert raw(open_gateway, b"GET /v1/models HTTP/%s\r\n" % version)[0] == 400
    assert raw(open_gateway, b"GET /healthz HTTP/%s\r\n" % version)[0] == 200


@pytest.mark.parametrize(
    ("target", "status"),
    [
        (b"http://localhost/v1/models", 200),
        (b"http://evil.example/v1/models", 403),
        (b"http://user@localhost/v1/models", 400),
        (b"HTTP://evil.example:80/v1/models", 403),
        (b"ftp://localhost/v1/models", 400),
    ],
)
def test_the_name_in_an_absolute_target_counts(open_gateway: TestApp, target: bytes, status: int) -> None:
    assert raw(open_gateway, b"GET %s HTTP/1.1\r\nHost: localhost\r\n" % target)[0] == status


def test_targets_of_proxies_are_never_a_500(open_gateway: TestApp) -> None:
    for line in (b"CONNECT evil.example:443", b"CONNECT localhost:80", b"OPTIONS *", b"GET //evil.example/v1/models"):
        assert 400 <= raw(open_gateway, line + b" HTTP/1.1\r\nHost: localhost\r\n")[0] < 500


def test_configured_names_are_own_names_and_may_not_operate() -> None:
    settings = {"server": {"allowed_hosts": ["gateway.lan", "other.lan:8443"], "allowed_origins": ["https://app.lan"]}}
    with TestApp(settings=settings) as app:
        hosts = (("gateway.lan:1", 200), ("GATEWAY.lan.", 200), ("other.lan:8443", 200), ("other.lan", 403))
        for host, status in hosts:
            assert app.client.get("/v1/models", headers={"host": host}).status_code == status, host
        for origin, status in (("https://app.lan", 200), ("https://app.lan:443", 200), ("http://app.lan", 403)):
            assert app.client.post(CHAT, json=BODY, headers={"origin": origin}).status_code == status, origin
        assert app.client.get("/admin/cache", headers={"host": "gateway.lan"}).status_code == 403
        with open_socket(app.url, origin="https://app.lan"):
            pass


@pytest.mark.parametrize(
    "server",
    [
        {"allowed_hosts": ["*"]},
        {"allowed_hosts": ["http://x"]},
        {"allowed_origins": ["null"]},
        {"allowed_origins": ["app.lan"]},
        {"allowed_origins": ["*"]},
    ],
    ids=str,
)
def test_a_name_in_the_configuration_that_is_none_stops_the_start(server: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="allowed_"):
        TestApp(settings={"server": server})


def test_with_keys_a_strange_host_is_served_to_who_has_one() -> None:
    with TestApp(keys=[key("a")], **KEYED) as app:
        for host in ("gateway.example", "my_service:8000"):
            assert app.client.get("/v1/models", headers={"host": host}).status_code == 401
            assert app.client.get("/v1/models", headers={"host": host, **bearer("a")}).status_code == 200


def test_keys_that_the_door_does_not_ask_for_do_not_open_it_to_strange_names() -> None:
    with TestApp(keys=[key("a")]) as app:  # `admit` runs no `api-keys`
        assert refusal(app.client.post(CHAT, json=BODY, headers={"host": "evil.example"})) == (403, "foreign_host")


# --- Origin, and what a page may send -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("https://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("http://localhost:1", 403),
        ("null", 403),
        ("chrome-extension://abcdef", 403),
        ("file://", 400),
        ("http://[", 400),
        ("http://[::1", 400),
        ("http://user@127.0.0.1", 400),
        ("127.0.0.1", 400),
        ("http://127.0.0.1/x", 400),
        ("http://a, http://b", 400),
        ("", 400),
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/admin/cache", "/metrics"])
def test_a_strangers_or_malformed_origin_is_refused(open_gateway: TestApp, path: str, origin: str, status: int) -> None:
    answer = open_gateway.client.get(path, headers={"origin": origin})
    assert refusal(answer) == (status, "foreign_origin" if status == 403 else "invalid_origin")
    if path == "/v1/models":
        with pytest.raises(InvalidStatus) as caught:
            open_socket(open_gateway.url, origin=origin).__enter__()
        assert caught.value.response.status_code == status


def test_the_gateways_own_pages_may_use_it(open_gateway: TestApp) -> None:
    port = open_gateway.url.rsplit(":", 1)[1]
    for origin in (open_gateway.url, f"http://localhost:{port}", f"http://[::1]:{port}"):
        assert open_gateway.client.post(CHAT, json=BODY, headers={"origin": origin}).status_code == 200, origin


def test_two_origins_are_a_400(open_gateway: TestApp) -> None:
    head = b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n"
    assert raw(open_gateway, head)[0] == 400


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/json", "x"]
)
@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/v1/batches", "/v1/safety/false_positives", "/admin/reload"])
def test_a_body_that_a_page_may_send_unasked_does_not_run(open_gateway: TestApp, path: str, kind: str) -> None:
    before = len(open_gateway.outcomes)
    answer = open_gateway.client.post(path, content=json.dumps(BODY), headers={"content-type": kind})
    told = answer.json()
    assert answer.status_code == 415
    assert told["type" if path == "/v1/messages" else "error"] is not None
    assert len(open_gateway.outcomes) == before


def test_json_by_its_other_names_runs(open_gateway: TestApp) -> None:
    for kind in ("application/json", "APPLICATION/JSON; charset=utf-8", "application/vnd.api+json"):
        sent = open_gateway.client.post(CHAT, content=json.dumps(BODY), headers={"content-type": kind})
        assert sent.status_code == 200, kind


def test_a_body_of_no_type_runs_for_scripts_and_not_for_browsers(open_gateway: TestApp) -> None:
    plain = {"content": json.dumps(BODY)}
    assert open_gateway.client.post(CHAT, **plain).status_code == 200  # type: ignore[arg-type]
    for mark in ({"origin": open_gateway.url}, {"sec-fetch-site": "same-origin"}):
        assert open_gateway.client.post(CHAT, headers=mark, **plain).status_code == 415  # type: ignore[arg-type]


def test_another_sites_page_gets_nothing_without_an_origin_either(open_gateway: TestApp) -> None:
    cross = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
    assert refusal(open_gateway.client.get("/v1/files", headers=cross)) == (403, "foreign_origin")
    led_here = cross | {"sec-fetch-mode": "navigate"}
    assert open_gateway.client.get("/console", headers=led_here).status_code == 200
    assert open_gateway.client.post("/v1/batches/x/cancel", headers=led_here).status_code == 403


# --- admit --------------------------------------------------------------------------------------------------------

OPEN = {
    "/": "a page that names the others",
    "/healthz": "alive or not",
    "/readyz": "a state",
    "/health": "a state",
    "/ping": "a state",
    "/metrics": "documented: for Prometheus alone",
    "/docs": "a page that holds nothing",
    "/docs/x": "its parts",
    "/console": "a page that holds nothing",
    "/console/x": "its parts",
}
IDENTIFIED = {
    "/v1/models": "a list in memory",
    "/v1/models/x": "the same",
    "/version": "a constant",
    "/load": "the length of a list",
    "/openapi.json": "a document that is made once",
    "/v1/responses/x": "always 404: nothing is stored",
    "/v1/responses/x/input_items": "the same",
    "/v1/responses/x/cancel": "the same",
    "/v1/responses/compact": "the same",
    "/mcp": "lists from memory; each call of a tool is counted",
    "/mcp/x": "the same",
}
"""A key is asked for, and nothing is counted: no work is done and nothing is kept."""
BODIES: dict[str, Any] = {
    "/v1/completions": {"model": "scripted", "prompt": "hi"},
    "/v1/responses": {"model": "scripted", "input": "hi"},
    "/v1/messages": {"model": "scripted", "messages": TURN, "max_tokens": 5},
    "/v1/messages/count_tokens": {"model": "scripted", "messages": TURN},
    "/v1/responses/input_tokens": {"model": "scripted", "input": "hi"},
    "/tokenize": {"model": "scripted", "prompt": "hi"},
    "/detokenize": {"model": "scripted", "tokens": [65]},
    "/v1/rerank": {"model": "scripted", "query": "a", "documents": ["b"]},
    "/v2/rerank": {"model": "scripted", "query": "a", "documents": ["b"]},
    "/rerank": {"model": "scripted", "query": "a", "documents": ["b"]},
    "/v1/score": {"model": "scripted", "text_1": "a", "text_2": ["b"]},
    "/score": {"model": "scripted", "text_1": "a", "text_2": ["b"]},
    "/v1/embeddings": {"model": "scripted", "input": "hi"},
    "/v1/moderations": {"input": "hi"},
    "/v1/batches": {"input_file_id": "file-x", "endpoint": CHAT},
    "/v1/messages/batches": {"requests": [{"custom_id": "a", "params": {}}]},
    "/v1/safety/false_positives": {"text": "hi"},
    "/v1/feedback": {"request_id": "none", "score": 1},
    "/v1/cache/false_hits": {"entry": "0" * 64, "model": "scripted"},
    "/v1/cache/purge": {},
    CHAT: BODY,
    "/admin/keys": {"id": "x"},
    "/admin/models": {"settings": {}},
    "/admin/routes/x/weights": {"weights": {"scripted": 1}},
}


def call(app: TestApp, method: str, path: str, **headers: str) -> httpx.Response:
    if (method, path) == ("POST", "/v1/files"):
        return app.client.post(path, headers=headers, **FORM)  # type: ignore[no-any-return]
    body = {"json": BODIES.get(path, {})} if method in ("POST", "PUT") else {}
    return app.client.request(method, path, headers=headers, **body)  # type: ignore[no-any-return]


def test_every_route_is_behind_admit_or_the_operators_guard_or_explained(tmp_path: Any) -> None:
    """A key whose one request of this minute is used gets a 429 everywhere, or a 403 where only operators may."""
    with keyed(tmp_path, key("spent", limits={"requests_per_minute": 1})) as app:
        assert app.client.post(CHAT, json=BODY, headers=bearer("spent")).status_code == 200
        for method, path in routes(app):
            told = (method, path)
            if path in OPEN:
                assert call(app, method, path).status_code in (200, 404), told
                continue
            assert call(app, method, path).status_code == 401, told
            found = call(app, method, path, **bearer("spent")).status_code
            guarded = path.startswith("/admin/") or (path.startswith("/v1/safety/") and method != "POST")
            expected = (200, 404) if path in IDENTIFIED else (403,) if guarded else (429,)
            assert found in expected, (told, found)


def test_forty_uploads_and_sixty_reports_meet_the_limit_of_the_key(tmp_path: Any) -> None:
    limits = {"requests_per_minute": 20}
    with keyed(tmp_path, key("up", limits=limits), key("told", limits=limits)) as app:
        sent = [call(app, "POST", "/v1/files", **bearer("up")).status_code for _ in range(40)]
        assert sent == [200] * 20 + [429] * 20
        told = [call(app, "POST", "/v1/safety/false_positives", **bearer("told")) for _ in range(60)]
        assert [answer.status_code for answer in told] == [200] * 20 + [429] * 40
        assert int(told[-1].headers["retry-after"]) >= 1


def test_calls_that_generate_nothing_need_no_seat_no_tokens_and_no_money(tmp_path: Any) -> None:
    limits = {"concurrency": 1, "tokens_per_minute": 2000, "budget_day": 0.5}
    with keyed(tmp_path, key("a", limits=limits)) as app:
        for _ in range(5):
            assert call(app, "GET", "/v1/files", **bearer("a")).status_code == 200
        left = app.client.get("/v1/models", headers=bearer("a")).headers
        assert left["x-ratelimit-remaining-tokens"] == "2000"
        assert app.client.post(CHAT, json={**BODY, "max_tokens": 10}, headers=bearer("a")).status_code == 200


def test_reports_have_a_quota_that_operators_free(tmp_path: Any) -> None:
    ops = key("ops", scopes=["admin"])
    with keyed(tmp_path, key("a"), key("b"), ops, review={"max_reports": 2}) as app:
        kept = [call(app, "POST", "/v1/safety/false_positives", **bearer("a")) for _ in range(3)]
        assert [answer.status_code for answer in kept] == [200, 200, 413]
        assert refusal(kept[-1]) == (413, "report_quota_exceeded")
        assert call(app, "POST", "/v1/safety/false_positives", **bearer("b")).status_code == 200
        path = f"/v1/safety/false_positives/{kept[0].json()['id']}"
        assert call(app, "DELETE", path, **bearer("a")).status_code == 403
        assert call(app, "DELETE", path, **bearer("ops")).json()["deleted"]
        assert call(app, "DELETE", path, **bearer("ops")).status_code == 404
        assert call(app, "POST", "/v1/safety/false_positives", **bearer("a")).status_code == 200


def test_with_keys_the_pages_hold_nothing_and_the_document_asks_for_one() -> None:
    with TestApp(keys=[key("a")], **KEYED) as app:
        assert refusal(app.client.get("/openapi.json")) == (401, "missing_api_key")
        assert CHAT in app.client.get("/openapi.json", headers=bearer("a")).json()["paths"]
        for page in ("/docs", "/console"):
            assert "scripted" not in app.client.get(page).text
        assert app.client.get("/admin/console/overview").status_code == 401


# --- sockets ------------------------------------------------------------------------------------------------------

CANCEL = '{"type": "cancel"}'
ASKED = json.dumps({"model": "scripted", "messages": TURN, "max_tokens": 50})


def ends(connection: Any, count: int) -> int:
    """Count the end marks that come, until `count` are there."""
    found = 0
    while found < count:
        found += connection.recv(timeout=30) == "[DONE]"
    return found


@pytest.mark.parametrize("delay_s", [0.0, 0.002], ids=["at-once", "slowly"])
def test_fifty_messages_each_cancelled_at_once_get_fifty_ends(delay_s: float) -> None:
    with TestApp(script=["word "] * 20, delay_s=delay_s) as app, open_socket(app.url) as connection:
        for _ in range(50):
            connection.send(ASKED)
            connection.send(CANCEL)
        assert ends(connection, 50) == 50
        with pytest.raises(TimeoutError):
            connection.recv(timeout=0.3)
        connection.send(ASKED)
        assert ends(connection, 1) == 1


def test_cancels_without_a_message_and_in_excess_end_nothing_that_comes_later() -> None:
    with TestApp(script=["Hello", " back"]) as app, open_socket(app.url) as connection:
        for _ in range(20):
            connection.send(CANCEL)
        connection.send(ASKED)
        texts = []
        while (message := connection.recv(timeout=30)) != "[DONE]":
            texts.append(json.loads(message)["choices"][0]["delta"].get("content") or "")
        assert "".join(texts) == "Hello back"


def test_cancels_behind_many_messages_are_read_and_end_them() -> None:
    with TestApp(script=["word "] * 5000, delay_s=0.01) as app, open_socket(app.url) as connection:
        for _ in range(40):
            connection.send(json.dumps({**json.loads(ASKED), "max_tokens": 5000}))
        for _ in range(40):
            connection.send(CANCEL)
        assert ends(connection, 40) == 40


def test_a_flood_of_messages_is_answered_one_after_the_other() -> None:
    with TestApp(script=["hi"]) as app, open_socket(app.url) as connection:
        for _ in range(300):
            connection.send(ASKED)
        assert ends(connection, 300) == 300
        assert len(app.wait_for_outcomes(300)) == 300


def test_binary_and_broken_messages_get_an_error_and_an_end() -> None:
    with TestApp(script=["hi"]) as app, open_socket(app.url) as connection:
        for message in (b"\x00\xff", ASKED.encode(), "", "{", "[]", "null", '{"type": "cancel", "x": 1}'):
            connection.send(message)
            assert "error" in json.loads(connection.recv(timeout=30)), message
            assert connection.recv(timeout=30) == "[DONE]"
        connection.send(ASKED)
        assert ends(connection, 1) == 1


def test_a_message_larger_than_a_body_closes_with_1009() -> None:
    with TestApp(script=["hi"], settings={"server": {"max_body_bytes": 10_000}}) as app:
        with open_socket(app.url) as connection:
            connection.send("x" * 10_001)
            with pytest.raises(ConnectionClosed):
                connection.recv(timeout=30)
        assert connection.close_code == 1009
        with open_socket(app.url) as connection:
            connection.send(ASKED)
            assert ends(connection, 1) == 1


def test_a_flood_of_pings_delays_nobody_for_good() -> None:
    with TestApp(script=["hi"]) as app, open_socket(app.url) as connection:
        for _ in range(3000):
            connection.ping()
        connection.send(ASKED)
        assert ends(connection, 1) == 1
        assert app.ask().text == "hi"


def test_a_socket_of_a_strangers_name_is_refused_without_keys_and_a_strangers_page_with_them() -> None:
    with TestApp() as app:
        for host in ("evil.example", "[::1"):
            address = app.url.removeprefix("http://").split(":")
            with socket.create_connection((address[0], int(address[1])), timeout=LIMIT_S) as connection:
                connection.sendall(
                    f"GET {CHAT}/ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
                )
                assert connection.recv(4096).split()[1] in (b"403", b"400"), host
    with TestApp(keys=[key("a")], **KEYED) as app:
        for origin in ("https://evil.example", "http://[", "null"):
            with pytest.raises(InvalidStatus) as caught:
                open_socket(app.url, origin=origin, **bearer("a")).__enter__()
            assert caught.value.response.status_code in (400, 403)
        with open_socket(app.url, origin=app.url, **bearer("a")):
            pass


OPERATORS = ("/admin", "/v1/cache")
MALFORMED = ({"content": b"{"}, {"json": []}, {"json": {"nonsense": 1}}, {"content": b"\xff"})


def test_nobody_is_told_what_is_wrong_with_a_body_before_who_asks() -> None:
    """Every route of operators, found in the application: with no key a 401, with one that may not a 403, whatever the
    body and the query are."""
    with TestApp(keys=[key("a"), key("boss", scopes=["admin"])], **KEYED) as app:
        every = [(method, path) for method, path in routes(app) if path.startswith(OPERATORS)]
        assert len(every) > 15
        for method, path in every:
            for body in MALFORMED:
                asked: dict[str, Any] = {"url": path, "params": {"limit": "nonsense", "status": "?"}, **body}
                assert app.client.request(method, **asked).status_code == 401, (method, path)
                wrong = {"authorization": "Bearer wrong"}
                assert app.client.request(method, **asked, headers=wrong).status_code == 401, (method, path)
                if path.startswith("/admin"):
                    told = app.client.request(method, **asked, headers=bearer("a"))
                    assert told.status_code == 403, (method, path)
        told = app.client.post("/admin/keys", content=b"{", headers=bearer("boss"))
        assert told.status_code == 400


def test_without_keys_a_strange_name_is_refused_before_a_body_is_read() -> None:
    with TestApp(settings={"server": {"allowed_hosts": ["friend.example"]}}) as app:
        told = app.client.post("/admin/keys", content=b"{", headers={"host": "friend.example"})
        assert told.status_code == 403
        assert app.client.post("/admin/keys", content=b"{").status_code == 400
