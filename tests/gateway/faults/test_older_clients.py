"""Clients that offer more than HTTP/1.1, or speak less, get what they asked for as if they had sent it plainly."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.gateway.faults.driving import BODY, LENGTH, Served, everything, head, served

OFFER = b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA"
"""As Java's HTTP client makes it with its first request to any server without TLS."""
STREAM = json.dumps({**json.loads(BODY), "stream": True}).encode()


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served() as found:
        yield found


def body_of(answer: bytes) -> bytes:
    return answer.partition(b"\r\n\r\n")[2]


@pytest.mark.parametrize(
    "offer", [OFFER, b"connection: close, upgrade\r\nupgrade: h2c", b"connection: upgrade\r\nupgrade: x/2"]
)
def test_an_offer_of_another_protocol_is_passed_over_and_the_body_is_read(gateway: Served, offer: bytes) -> None:
    answer = gateway.raw(head(offer, LENGTH) + BODY)
    assert answer.startswith(b"HTTP/1.1 200")
    assert json.loads(body_of(answer))["object"] == "chat.completion"
    assert (b"connection: close" in answer) == (b"close" in offer)


def test_its_body_may_come_in_chunks_and_in_pieces(gateway: Served) -> None:
    chunks = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    sent = head(OFFER, b"transfer-encoding: chunked") + chunks
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(sent), 16):
            connection.sendall(sent[at : at + 16])
        assert everything(connection).startswith(b"HTTP/1.1 200")


def test_requests_before_and_behind_it_on_its_connection_are_answered(gateway: Served) -> None:
    plain = head(LENGTH) + BODY
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(plain + head(OFFER, LENGTH) + BODY + plain)
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 3 and (data := connection.recv(65536)):
            answer += data
    assert answer.count(b"HTTP/1.1 200") == 3


def test_a_heap_of_offers_is_refused(gateway: Served) -> None:
    """Each is read twice, with all that follows it."""
    answer = gateway.raw((head(OFFER, LENGTH) + BODY) * 100)
    assert b"HTTP/1.1 400" in answer
    assert gateway.still_serves()


def test_an_answer_to_http_1_0_has_no_chunks(gateway: Served) -> None:
    """It ends with its connection, as a client of that time reads it."""
    old = head(b"content-length: %d" % len(STREAM)).replace(b"HTTP/1.1", b"HTTP/1.0")
    answer = gateway.raw(old + STREAM)
    assert b"transfer-encoding" not in answer.lower()
    events = body_of(answer).decode().split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(json.loads(event.removeprefix("data: ")) for event in events[:-2])


def test_an_answer_of_known_length_to_http_1_0_says_its_length(gateway: Served) -> None:
    answer = gateway.raw(head(LENGTH).replace(b"HTTP/1.1", b"HTTP/1.0") + BODY)
    assert b"content-length: %d\r\n" % len(body_of(answer)) in answer
    assert b"connection: close" in answer


@pytest.mark.parametrize("packed", [b"gzip, chunked", b"deflate,chunked", b"x, chunked"])
def test_a_body_packed_on_its_way_is_refused(gateway: Served, packed: bytes) -> None:
    sent = head(b"transfer-encoding: " + packed) + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)
    assert gateway.raw(sent).startswith(b"HTTP/1.1 400")
    assert gateway.still_serves()
