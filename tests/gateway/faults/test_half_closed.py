"""A client that closes its side of the connection after its request still gets the answer; for one that is gone the
work ends."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

from sluicegate.gateway.testing import TestApp
from sluicegate.plugins.testing.doubles import MODEL
from tests.waiting import until

BODIES: Any = {
    "/v1/chat/completions": {"messages": [{"role": "user", "content": "Hi"}]},
    "/v1/messages": {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99},
    "/v1/responses": {"input": "Hi"},
}
LAST = {"/v1/chat/completions": b"[DONE]", "/v1/messages": b"message_stop", "/v1/responses": b"response.completed"}


@pytest.fixture
def slow() -> Iterator[TestApp]:
    """Run a gateway whose model takes most of a second for an answer."""
    with TestApp(script=["word "] * 12, delay_s=0.06) as app:
        yield app


def connected(app: TestApp) -> socket.socket:
    address = urlsplit(app.url)
    assert address.port is not None
    return socket.create_connection((str(address.hostname), address.port), timeout=60)


def request(path: str, *, stream: bool) -> bytes:
    body = json.dumps({"model": MODEL, "stream": stream, **BODIES[path]}).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n"
    )
    return head.encode() + b"\r\n" + body


def everything(connection: socket.socket) -> bytes:
    """Read to the end of the connection."""
    found = b""
    while more := connection.recv(65_536):
        found += more
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_the_answer_comes_to_a_client_that_sends_no_more(slow: TestApp, path: str, stream: bool) -> None:
    with connected(slow) as connection:
        connection.sendall(request(path, stream=stream))
        connection.shutdown(socket.SHUT_WR)
        found = everything(connection)
    heads = [line for line in found.split(b"\r\n") if line.startswith(b"HTTP/1.1 ")]
    assert heads[-1] == b"HTTP/1.1 200 OK"
    assert set(heads[:-1]) <= {b"HTTP/1.1 100 Continue"}
    assert found.count(b"word") >= 12
    assert not stream or LAST[path] in found


def test_a_client_of_the_standard_library_passes_over_what_looks_whether_it_reads(slow: TestApp) -> None:
    from http.client import HTTPResponse

    with connected(slow) as connection:
        connection.sendall(request("/v1/chat/completions", stream=False))
        connection.shutdown(socket.SHUT_WR)
        answer = HTTPResponse(connection, method="POST")
        answer.begin()
        assert json.loads(answer.read())["choices"][0]["message"]["content"].count("word") == 12


def test_all_of_several_requests_are_answered(slow: TestApp) -> None:
    with connected(slow) as connection:
        for stream in (False, True, False):
            connection.sendall(request("/v1/chat/completions", stream=stream))
        connection.shutdown(socket.SHUT_WR)
        found = everything(connection)
    assert (found.count(b"HTTP/1.1 200 OK"), found.count(b"[DONE]")) == (3, 1)


@pytest.mark.parametrize("stream", [False, True])
def test_the_work_for_a_client_that_is_gone_ends(stream: bool) -> None:
    with TestApp(script=["word "] * 4000, delay_s=0.05) as app:
        connection = connected(app)
        connection.sendall(request("/v1/chat/completions", stream=stream))
        until(lambda: bool(app.model.jobs))
        time.sleep(0.2)
        connection.close()
        began = time.monotonic()
        app.wait_for_outcomes(limit_s=30)
        assert time.monotonic() - began < 10, "the whole answer takes 200 s"
        assert app.outcomes[0].error is not None


def test_a_half_closed_connection_ends_with_its_answer(slow: TestApp) -> None:
    """It is not kept for a request that can never come."""
    with connected(slow) as connection:
        connection.sendall(request("/v1/chat/completions", stream=False))
        connection.shutdown(socket.SHUT_WR)
        connection.settimeout(3)
        assert everything(connection).endswith(b"}")


def test_half_a_request_is_answered_to_nobody(slow: TestApp) -> None:
    with connected(slow) as connection:
        connection.sendall(request("/v1/chat/completions", stream=False)[:-5])
        connection.shutdown(socket.SHUT_WR)
        assert b"200" not in everything(connection)
