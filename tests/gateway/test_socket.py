"""Chat completions over a WebSocket: the same chunks, keys and rails; ended by a message or by leaving."""

from __future__ import annotations

import json
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from sluicegate.gateway.testing import TestApp
from tests.gateway.conftest import RunningGateway
from tests.waiting import LIMIT_S, until

BODY: dict[str, Any] = {"model": "bundled", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 5}


def open_socket(url: str, **headers: str) -> ClientConnection:
    origin = headers.pop("origin", None)
    address = url.replace("http", "ws", 1) + "/v1/chat/completions/ws"
    return connect(address, additional_headers=headers, origin=origin, proxy=None)  # type: ignore[arg-type]


def answer(socket: ClientConnection, body: dict[str, Any] | str) -> list[dict[str, Any]]:
    socket.send(body if isinstance(body, str) else json.dumps(body))
    chunks = []
    while (message := socket.recv(timeout=LIMIT_S)) != "[DONE]":
        chunks.append(json.loads(message))
    return chunks


def text_of(chunks: list[dict[str, Any]]) -> str:
    return "".join(c["delta"].get("content") or "" for chunk in chunks for c in chunk["choices"])


def test_one_connection_answers_one_message_after_the_other(gateway: RunningGateway) -> None:
    """The chunks are those of the stream over HTTP; an error ends its answer, not the connection."""
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["red", "blue"]}}}
    with open_socket(gateway.url) as socket:
        first = answer(socket, {**BODY, "response_format": fmt, "stream_options": {"include_usage": True}})
        assert text_of(first) in ('"red"', '"blue"')
        assert first[-1]["usage"]["completion_tokens"] > 0
        for wrong, code in (
            (BODY | {"model": "nope"}, "model_not_found"),
            ("{", "invalid_json"),
            ("[]", "invalid_json"),
        ):
            [error] = answer(socket, wrong)
            assert error["error"]["code"] == code
        assert answer(socket, BODY)[-1]["choices"][0]["finish_reason"]


def test_a_message_ends_the_answer_that_is_being_written(gateway: RunningGateway) -> None:
    with open_socket(gateway.url) as socket:
        socket.send(json.dumps({**BODY, "max_tokens": 800, "ignore_eos": True}))
        socket.recv(timeout=LIMIT_S)
        socket.send('{"type": "cancel"}')
        while socket.recv(timeout=LIMIT_S) != "[DONE]":
            pass
        until(lambda: gateway.metric("sluicegate_requests_running") == 0)
        assert answer(socket, BODY)


def test_a_client_that_leaves_frees_its_blocks(gateway: RunningGateway) -> None:
    before = gateway.metric("sluicegate_kv_cache_usage_ratio")
    with open_socket(gateway.url) as socket:
        for _ in range(3):
            socket.send(json.dumps({**BODY, "max_tokens": 800, "ignore_eos": True}))
        socket.recv(timeout=LIMIT_S)
        until(lambda: gateway.metric("sluicegate_requests_running") >= 1)
        socket.close_timeout = 0  # it has not read what came, and would wait for the end of that
    until(lambda: gateway.metric("sluicegate_requests_running") == 0)
    assert gateway.metric("sluicegate_kv_cache_usage_ratio") == pytest.approx(before)


def test_disconnects_ends_the_answer_that_is_being_written() -> None:
    with TestApp(script=["word "] * 5000, delay_s=0.01) as gateway:
        with open_socket(gateway.url) as socket:
            socket.send(json.dumps({**BODY, "model": "scripted", "max_tokens": 10_000}))
            socket.recv(timeout=LIMIT_S)
            socket.close_timeout = 0
        [outcome] = gateway.wait_for_outcomes(1)
        assert outcome.error == "cancelled"
        assert gateway.model.generations[0].cancelled


def test_who_has_no_key_gets_no_socket() -> None:
    with TestApp(keys=[{"id": "a", "key": "k"}], pipeline={"admit": ["api-keys"]}, script=["hi"]) as gateway:
        with pytest.raises(InvalidStatus) as caught:
            open_socket(gateway.url)
        assert caught.value.response.status_code == 401
        with open_socket(gateway.url, authorization="Bearer k") as socket:
            assert text_of(answer(socket, {**BODY, "model": "scripted"})) == "hi"


@pytest.mark.parametrize("path", ["/nope", "/v1/chat/completions", "/v1/messages", "/", "/a%00b"])
def test_a_socket_at_another_path_is_refused_with_the_paths_that_serve_some(
    path: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It was an empty 403, and uvicorn logs an error for each refused handshake."""
    with TestApp() as gateway, pytest.raises(InvalidStatus) as caught:
        connect(gateway.url.replace("http", "ws", 1) + path, proxy=None)
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
    response = caught.value.response
    assert (response.status_code, response.headers["content-type"]) == (404, "application/json")
    error = json.loads(response.body or b"{}")["error"]
    assert error["code"] == "unknown_url"
    assert "WebSockets are served at /v1/chat/completions/ws" in error["message"]


def test_a_key_that_may_not_call_the_route_is_told_so() -> None:
    keys = [{"id": "a", "key": "k", "routes": ["/v1/embeddings"]}]
    with TestApp(keys=keys, pipeline={"admit": ["api-keys"]}) as gateway, pytest.raises(InvalidStatus) as caught:
        open_socket(gateway.url, authorization="Bearer k")
    error = json.loads(caught.value.response.body or b"{}")["error"]
    assert (caught.value.response.status_code, error["code"]) == (403, "permission_denied")


def test_a_page_of_somebody_else_gets_no_socket(gateway: RunningGateway) -> None:
    """A browser would send its cookies and reach loopback, so that the origin must be this gateway's own."""
    with pytest.raises(InvalidStatus) as caught:
        open_socket(gateway.url, origin="https://evil.example")
    assert caught.value.response.status_code == 403
    with open_socket(gateway.url, origin=gateway.url) as socket:
        assert answer(socket, BODY)


def test_rails_hold_on_a_socket_too() -> None:
    rail = {"phrases": ["forbidden"], "action": "block"}
    stages = {"moderate": {"blocklist": rail}}
    with (
        TestApp(script=["It is for", "bidden."], pipeline={"moderate": ["blocklist"]}, stages=stages) as gateway,
        open_socket(gateway.url) as socket,
    ):
        chunks = answer(socket, {**BODY, "model": "scripted"})
    assert chunks[-1]["choices"][0]["finish_reason"] == "content_filter"
    assert "for" not in text_of(chunks)
