"""What stands behind a body is no part of a request's head, and heads are measured however they arrive."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from tests.gateway.faults.driving import BODY, LENGTH, LIMITS, Served, everything, head, served

KEY = "a-key-of-some-length"
CHUNKED = b"transfer-encoding: chunked"


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served({"body_s": 30, "head_s": 30}) as found:
        yield found


def chunked(*head_lines: bytes, trailers: bytes) -> bytes:
    return head(CHUNKED, *head_lines) + b"%x\r\n" % len(BODY) + BODY + b"\r\n0\r\n" + trailers + b"\r\n"


@pytest.mark.parametrize(
    "trailer", [b"host: evil.example", b"x-sluicegate-depth: -1", b"content-type: text/plain", b"x-request-id: forged"]
)
def test_a_trailer_is_no_header(gateway: Served, trailer: bytes) -> None:
    """A proxy lets nobody say these, or says them itself; it passes trailers on as they are."""
    answer = gateway.raw(chunked(trailers=trailer + b"\r\n"))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"forged" not in answer


def test_a_key_in_a_trailer_opens_nothing() -> None:
    with served({"body_s": 30}, keys=[{"id": "one", "key": KEY}], pipeline={"admit": ["api-keys"]}) as gateway:
        bearer = b"authorization: Bearer " + KEY.encode()
        assert gateway.raw(chunked(trailers=bearer + b"\r\n")).startswith(b"HTTP/1.1 401")
        assert gateway.raw(chunked(bearer, trailers=b"authorization: Bearer other\r\n")).startswith(b"HTTP/1.1 200")


def test_many_trailers_are_passed_over(gateway: Served) -> None:
    assert gateway.raw(chunked(trailers=b"x: y\r\n" * 200)).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize("start", [b"0\r\nx: ", b"0\r\n", b"1;a="], ids=["value", "name", "extension"])
def test_bytes_that_are_no_body_end_the_connection(gateway: Served, start: bytes) -> None:
    """The parser keeps a trailer until it is whole: without a bound that is all that a client sends in `body_s`."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(head(CHUNKED) + start)
        with pytest.raises(ConnectionError):
            connection.sendall(b"a" * (24 << 20))
    assert gateway.still_serves()


def test_a_body_of_many_small_chunks_is_read(gateway: Served) -> None:
    """Their sizes are more bytes than the body, and more than a head may have."""
    body = BODY[:-1] + b" " * (4 * LIMITS["max_head_bytes"]) + b"}"  # type: ignore[operator, arg-type]
    pieces = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    assert gateway.raw(head(CHUNKED), pieces, b"0\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_sizes_of_chunks_that_come_by_themselves_are_no_trailers(gateway: Served) -> None:
    """Many clients write the size of a chunk apart from it, after a read that is larger than a head may be."""
    body = BODY[:-1] + b" " * (8 * LIMITS["max_head_bytes"]) + b"}"  # type: ignore[operator, arg-type]
    half = len(body) // 2
    pieces = [
        b"%x\r\n" % half,
        body[:half],
        b"\r\n%x\r" % (len(body) - half),
        b"\n",
        body[half:],
        b"\r\n0",
        b"\r\n\r\n",
    ]
    assert gateway.raw(head(CHUNKED), *pieces, pause_s=0.02).startswith(b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("line", "words"),
    [(b"x: " + b"a" * 8300, b"larger than 8192 bytes"), (b"\r\n".join([b"x: 1"] * 60), b"more than 50 headers")],
    ids=["bytes", "headers"],
)
def test_a_head_is_measured_when_it_comes_in_one_piece(gateway: Served, line: bytes, words: bytes) -> None:
    """A head within one read was let through, however large; and what is refused is refused in words."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(head(LENGTH, line) + BODY)
        answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 400")
    assert words in answer
