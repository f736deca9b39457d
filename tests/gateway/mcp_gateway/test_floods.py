"""MCP servers over HTTP that send without end beside calls, or let a call be resumed for ever: bounded like a call."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.gateway.mcp_gateway.agents import call, gateway, listed, refused, text_of
from tests.gateway.mcp_gateway.interim_heads import before_each_answer
from tests.gateway.mcp_gateway.servers import Tools, upstream
from tests.gateway.serving import serving
from tests.waiting import until

TOOLS = [{"name": "go", "description": "Goes.", "inputSchema": {"type": "object"}}]
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
SAMPLING = {**PING, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 3}}
REPORT = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}


def _event(message: Mapping[str, Any]) -> bytes:
    return b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"


@dataclass
class Flooding:
    """A server of the revision with sessions, whose clients open a stream to listen. `streams`: what the answer to each
    GET begins with; `answer`: events that come before a call's own, None = they never end; `resumed`: the answer to a
    GET that goes on with a call."""

    answer: list[bytes] = field(default_factory=list)
    resumed: list[bytes] = field(default_factory=list)
    is_resumable: bool = False
    gets: list[bool] = field(default_factory=list)
    """For each GET, whether it named an event to go on from."""
    left: Any = None
    """Done once the client of the newest request has left."""
    answers: int = 0
    """To questions of this server."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            part = await receive()
            body += part.get("body", b"")
            if not part.get("more_body"):
                break
        self._send = send
        self.left = asyncio.ensure_future(receive())
        if scope["method"] == "GET":
            await self._listen(dict(scope["headers"]))
        elif scope["method"] == "DELETE":
            await self._whole(200, b"")
        else:
            await self._post(json.loads(body))

    async def _post(self, message: dict[str, Any]) -> None:
        method, number = message.get("method"), message.get("id")
        if method is None:
            self.answers += 1
        if method == "initialize":
            about = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {"listChanged": True}}}
            await self._result(number, {**about, "serverInfo": {"name": "x", "version": "1"}}, b"s1")
        elif method == "tools/list":
            await self._result(number, {"tools": TOOLS})
        elif method == "tools/call":
            await self._head(b"text/event-stream")
            await self._parts([b"retry: 0\r\nid: 5\r\ndata:\r\n\r\n"] if self.is_resumable else self.answer)
            if not self.is_resumable:
                await self._parts([_event(_done(number))])
            await self._send({"type": "http.response.body", "body": b""})
        elif number is None or method is None:
            await self._whole(202, b"")
        else:
            gone = {"jsonrpc": "2.0", "id": number, "error": {"code": -32601, "message": "no"}}
            await self._whole(200, json.dumps(gone).encode())

    async def _listen(self, headers: Mapping[bytes, bytes]) -> None:
        self.gets.append(b"last-event-id" in headers)
        await self._head(b"text/event-stream")
        if b"last-event-id" in headers:
            await self._parts(self.resumed)
        else:
            while True:
                await self._parts([_event(REPORT) * 100])
                await asyncio.sleep(0)
        await self._send({"type": "http.response.body", "body": b""})

    async def _result(self, number: Any, result: Mapping[str, Any], session: bytes = b"") -> None:
        body = json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode()
        await self._whole(200, body, session)

    async def _whole(self, status: int, body: bytes, session: bytes = b"") -> None:
        await self._head(b"application/json", status, session)
        await self._send({"type": "http.response.body", "body": body})

    async def _head(self, kind: bytes, status: int = 200, session: bytes = b"") -> None:
        headers = [(b"content-type", kind)] + ([(b"mcp-session-id", session)] if session else [])
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def _parts(self, parts: list[bytes]) -> None:
        for part in parts:
            await self._send({"type": "http.response.body", "body": part, "more_body": True})


def _done(number: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "result": {"content": [{"type": "text", "text": "done"}]}}


def test_no_stream_is_opened_on_which_a_server_could_send_without_end() -> None:
    """All that it carries goes nowhere here, and the client reads it on the event loop for as long as it lasts."""
    server = Flooding()
    with serving(server) as url, gateway({"s": {"url": f"{url}/mcp"}}) as app:
        for _ in range(3):
            assert text_of(call(app, "go", server="s")) == "done"
        assert server.gets == []


@pytest.mark.parametrize("question", [PING, SAMPLING], ids=["ping", "sampling"])
def test_questions_of_a_server_are_bounded_for_each_call(question: Mapping[str, Any]) -> None:
    """A megabyte of pings would be 20,000 messages of ours."""
    server = Flooding(answer=[_event(question) * 100] * 100)
    with serving(server) as url, gateway({"s": {"url": f"{url}/mcp"}}) as app:
        error = refused(app, "go", server="s")
        assert error["code"] == "upstream_failed"
        assert "64 questions" in error["message"]
        assert server.answers <= 64
        server.answer = [_event(question)] * 10
        for _ in range(10):  # each call has its own
            assert text_of(call(app, "go", server="s")) == "done"
        until(lambda: server.answers >= 100)


def test_reports_within_a_call_are_passed_over() -> None:
    server = Flooding(answer=[_event(REPORT) * 100] * 20)
    with serving(server) as url, gateway({"s": {"url": f"{url}/mcp"}}) as app:
        assert text_of(call(app, "go", server="s")) == "done"


def test_a_call_that_a_server_lets_be_resumed_ends_with_the_call() -> None:
    """The server names no pause. Asked without one it was asked 900 times, and each stack was deeper than the last."""
    server = Flooding(is_resumable=True, resumed=[b"retry: 0\r\nid: 5\r\ndata:\r\n\r\n"])
    with serving(server) as url, gateway({"s": {"url": f"{url}/mcp", "timeout_s": 1.0}}) as app:
        error = refused(app, "go", server="s")
        assert "within 1 s" in error["message"]
        assert all(server.gets)
        assert 1 <= len(server.gets) <= 6


def test_what_resumes_a_call_counts_towards_its_bytes() -> None:
    server = Flooding(is_resumable=True, resumed=[_event(REPORT) * 100, b"id: 5\r\ndata:\r\n\r\n"])
    settings = {"timeout_s": 30.0, "max_result_bytes": 20_000}
    with serving(server) as url, gateway({"s": {"url": f"{url}/mcp", **settings}}) as app:
        assert "20000 bytes" in refused(app, "go", server="s")["message"]


def test_a_call_that_is_resumed_once_is_answered() -> None:
    server = Flooding(is_resumable=True)
    server.resumed = [_event(_done("taken for the call that is resumed"))]
    with serving(server) as url, gateway({"s": {"url": f"{url}/mcp"}}) as app:
        assert text_of(call(app, "go", server="s")) == "done"
        assert server.gets == [True]


def test_a_server_that_drips_is_read_no_longer_than_a_call_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment now and then keeps a stream alive for whoever counts the seconds between two of them."""
    monkeypatch.setattr("sluicegate.gateway.mcp.servers.http_bounds.GRACE_S", 2.0)  # listing takes one when busy
    ended = threading.Event()

    class Dripping(Flooding):
        async def _parts(self, parts: list[bytes]) -> None:
            try:
                while not self.left.done():
                    await self._send({"type": "http.response.body", "body": b": x\r\n\r\n", "more_body": True})
                    await asyncio.sleep(0.05)
            finally:  # uvicorn may refuse a part before it says that the client has left
                ended.set()

    with serving(Dripping()) as url, gateway({"s": {"url": f"{url}/mcp", "timeout_s": 0.5}}) as app:
        assert "within 0.5 s" in refused(app, "go", server="s")["message"]
        assert ended.wait(5)


@pytest.mark.parametrize(("heads", "found"), [(3, ["s__fine"]), (1000, [])])
def test_heads_that_begin_no_answer_are_bounded(heads: int, found: list[str]) -> None:
    """A server that went on with them took all of the event loop, 1 s at a time, for as long as a call may take."""
    with (
        upstream(Tools().add("fine")) as url,
        before_each_answer(url, heads) as proxy,
        gateway({"s": {"url": proxy, "start_s": 5.0}}) as app,
    ):
        assert listed(app) == found
        if found:
            assert text_of(call(app, "s__fine")) == "done"
        else:
            assert "'s'" in app.client.get("/readyz").text
