"""A request that cannot be read ends with an answer in JSON that its client comes to read, in its turn."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator

import pytest

from tests.gateway.faults.driving import BODY, LENGTH, Served, everything, head, served

CHUNKED = b"transfer-encoding: chunked"
KEY = b"sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ=="
OFFER = b"connection: upgrade\r\nupgrade: websocket"
SLOW = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served({"body_s": 30, "head_s": 30}) as found:
        yield found


def refusal(answer: bytes) -> str:
    """Return the code of the error in the last answer."""
    return str(json.loads(answer.rpartition(b"\r\n\r\n")[2])["error"]["code"])


def chunk(extension: bytes = b"") -> bytes:
    return b"%x%b\r\n%b\r\n" % (len(BODY), extension, BODY)


@pytest.mark.parametrize(
    "body",
    [
        chunk(b";a=" + b"x" * 200_000) + b"0\r\n\r\n",
        chunk() + b"0\r\n" + b"x: y\r\n" * 50_000 + b"\r\n",
        chunk() + b"0\r\nx: " + b"y" * 300_000 + b"\r\n\r\n",
        b"zz\r\n" + b"x" * 300_000,
    ],
    ids=["extension", "trailers", "long trailer", "no size"],
)
def test_what_stands_around_a_body_is_refused_with_an_answer(gateway: Served, body: bytes) -> None:
    """The client still sends when it is refused: a connection closed over unread bytes loses its last answer."""
    answer = gateway.raw(head(CHUNKED), body, pause_s=0.05)
    assert answer.startswith(b"HTTP/1.1 400")
    assert refusal(answer) == "invalid_http"
    assert gateway.still_serves()


@pytest.mark.parametrize("junk", [b"NONSENSE\r\n\r\n", head(b"x: " + b"y" * 9000)], ids=["noise", "large head"])
def test_a_refusal_waits_for_the_answers_before_it(junk: bytes) -> None:
    """It was written into the stream that ran."""
    with served({"head_s": 30}, script=["word " * 20] * 5) as gateway:
        request = head(b"content-length: %d" % len(SLOW)) + SLOW
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
            connection.sendall(request)
            connection.recv(1)
            connection.sendall(junk)
            answer = everything(connection)
    stream, _, refused = answer.partition(b"HTTP/1.1 400")
    assert stream.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert refusal(refused) == "invalid_http"


def test_a_refused_client_that_goes_on_sending_is_cut_off(gateway: Served) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(b"NONSENSE\r\n\r\n")
        assert b"HTTP/1.1 400" in connection.recv(4096)
        with pytest.raises(ConnectionError):
            drip(connection, 20)


def drip(connection: socket.socket, seconds: float) -> None:
    ends_s = time.monotonic() + seconds
    while time.monotonic() < ends_s:
        connection.sendall(b"x")
        time.sleep(0.05)


@pytest.mark.parametrize(
    ("line", "more", "status"),
    [
        (b"POST", LENGTH + b"\r\n\r\n" + BODY, 200),
        (b"POST", KEY + b"\r\n" + LENGTH + b"\r\n\r\n" + BODY, 200),
        (b"POST", KEY + b"\r\n" + CHUNKED + b"\r\n\r\n" + chunk() + b"0\r\n\r\n", 200),
        (b"GET", KEY + b"\r\n" + LENGTH + b"\r\n\r\n" + BODY, 405),
        (b"PUT", KEY + b"\r\n\r\n", 405),
        (b"GET", b"\r\n", 400),
        (b"GET", KEY.replace(b"13", b"12") + b"\r\n\r\n", 400),
        (b"GET", KEY + b"\r\nx: " + b"y" * 8400 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 8400 + b" HTTP/1.1\r\nx:", KEY + b"\r\n\r\n", 414),
    ],
    ids=["post", "with a key", "in chunks", "get with a body", "put", "no key", "old", "long header", "long path"],
)
def test_an_offer_of_a_websocket_that_is_none_gets_an_answer(line: bytes, more: bytes, status: int) -> None:
    """Such a connection got no answer and stayed open for good."""
    with served({"body_s": 30, "head_s": 30, "max_head_bytes": 65536}) as gateway:
        start = line + b" /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n" + OFFER + b"\r\n"
        answer = gateway.raw(start + more, limit_s=5)
        assert answer.startswith(b"HTTP/1.1 %d" % status)
        assert gateway.still_serves()


@pytest.mark.parametrize("coding", [b"br", b"gzip", b"identity, deflate", b"GZIP", b"x" * 500, b"\xff"])
def test_a_packed_body_is_refused_by_the_name_of_its_encoding(gateway: Served, coding: bytes) -> None:
    """Whatever is in it: plain JSON under such a header was read as if the header were not there."""
    answer = gateway.raw(head(LENGTH, b"connection: close", b"content-encoding: " + coding) + BODY)
    assert answer.startswith(b"HTTP/1.1 415")
    assert b"unsupported_encoding" in answer


def test_a_body_that_says_that_it_is_not_packed_is_read(gateway: Served) -> None:
    assert gateway.raw(head(LENGTH, b"content-encoding: identity") + BODY).startswith(b"HTTP/1.1 200")
