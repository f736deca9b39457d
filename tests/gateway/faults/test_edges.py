"""What a hostile or broken request gets: a clear answer or a closed connection, and nobody else notices."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.gateway.faults.driving import BODY, CHAT, LENGTH, Served, everything, head, served
from tests.waiting import until


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.mark.parametrize(
    "request_bytes",
    [
        head(LENGTH, b"transfer-encoding: chunked") + b"0\r\n\r\n" + BODY,
        head(b"content-length: 5", LENGTH) + BODY,
        head(b"transfer-encoding: chunked, identity") + b"0\r\n\r\n",
        head(b"transfer-encoding : chunked") + b"0\r\n\r\n",
        head(b"content-length: -1") + BODY,
        head(b"content-length: +5") + BODY,
        head(b"transfer-encoding: chunked") + b"zz\r\n",
        head(b"x: a\x00b", LENGTH) + BODY,
        b"GET / HTTP/1.1\nhost: localhost\n bad\n\n",
        head(b"content-length: 0\r\n folded: 1", LENGTH) + BODY,
        head(b"transfer-encoding: x\r\n chunked") + b"0\r\n\r\n",
        head(b"transfer-encoding: chunked", b"transfer-encoding: identity") + b"0\r\n\r\n" + BODY,
        head(b"transfer-encoding: chunked") + b"1;a=\nb\r\n{\r\n0\r\n\r\n",
        head(b"content-length: 0x10") + BODY,
        head(b"x\xe9y: 1\r\nhost : evil", LENGTH) + BODY,
        b"\x16\x03\x01\x02\x00\x01\x00\x01",
        b"NONSENSE\r\n\r\n",
    ],
    ids=[
        "both",
        "two lengths",
        "te identity",
        "blank",
        "negative",
        "plus",
        "chunk",
        "nul",
        "bare lf",
        "tls",
        "noise",
        "folded length",
        "folded te",
        "two te",
        "chunk extension",
        "hex",
        "blank host",
    ],
)
def test_ambiguous_requests_are_refused_and_the_connection_closed(gateway: Served, request_bytes: bytes) -> None:
    """Whoever stands in front might read them otherwise: nothing of the kind is ever served."""
    answer = gateway.raw(request_bytes)
    assert b"HTTP/1.1 200" not in answer
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    assert gateway.still_serves()


def test_a_header_of_the_client_cannot_add_headers_to_the_answer(gateway: Served) -> None:
    sent = head(b"x-request-id: a%0d%0aset-cookie: x=1", b"x-sluicegate-feature: b\tset-cookie: y", LENGTH) + BODY
    answer = gateway.raw(sent)
    assert b"HTTP/1.1 200" in answer
    assert b"set-cookie" not in answer.lower()


@pytest.mark.parametrize("piece", [b"x-%d: y\r\n", b"x-%d: " + b"y" * 500 + b"\r\n"])
def test_a_flood_of_headers_is_cut_off(gateway: Served, piece: bytes) -> None:
    flood = b"POST / HTTP/1.1\r\n" + b"".join(piece % n for n in range(20_000))
    try:
        answer = gateway.raw(flood)
    except ConnectionError:  # closed while it was still sending
        answer = b""
    assert b"200" not in answer[:20]
    assert gateway.still_serves()


def test_one_endless_header_is_cut_off(gateway: Served) -> None:
    answer = gateway.raw(b"POST / HTTP/1.1\r\nx: ", *[b"y" * 4000] * 3)
    assert b"larger than 8192 bytes" in answer


@pytest.mark.parametrize("started", [b"", b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\n"])
def test_a_head_that_never_ends_is_given_up(gateway: Served, started: bytes) -> None:
    answer = gateway.raw(*([started] if started else []))
    assert b"did not come within 0.3 s" in answer


def test_a_body_that_never_ends_is_given_up(gateway: Served) -> None:
    answer = gateway.raw(head(b"content-length: 500") + b"{", pause_s=0.7)
    assert b"408" in answer[:20]
    assert b"request_timeout" in answer


def test_a_body_that_never_ends_is_given_up_behind_a_whole_one(gateway: Served) -> None:
    """On one connection, sent at once: that the first body is there says nothing of the second."""
    answer = b""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(head(LENGTH) + BODY + head(b"content-length: 500") + b"{")
        while b"request_timeout" not in answer and (data := connection.recv(65536)):
            answer += data
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"HTTP/1.1 408" in answer


@pytest.mark.parametrize(
    ("started", "drop"),
    [
        (head(b"content-length: 5000") + b"{", b"x"),
        (head(b"transfer-encoding: chunked") + b"1\r\n{\r\n", b"1\r\nx\r\n"),
    ],
    ids=["length", "chunks"],
)
def test_drops_of_a_body_that_was_given_up_keep_no_connection_open(
    gateway: Served, started: bytes, drop: bytes
) -> None:
    """The answer came, and whoever goes on sending is closed after as long as a whole body may take."""
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection:
        connection.sendall(started)
        assert connection.recv(12) == b"HTTP/1.1 408"

        def closed() -> bool:
            try:
                connection.sendall(drop)
            except ConnectionError:
                return True
            return False

        until(closed)
    assert gateway.still_serves()


def test_a_giant_body_is_not_read(gateway: Served) -> None:
    answer = gateway.raw(head(b"content-length: 99999999999") + b"x" * 1000)
    assert answer.startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("nbytes", [30_000, 4_000_000, 100_000_000])
def test_a_client_that_reads_after_its_whole_body_reads_the_413(nbytes: int) -> None:
    """urllib sends `Connection: close`, and reads when all is sent: it got a broken pipe."""
    with served({"max_body_bytes": 10_000}) as gateway:
        asked = urllib.request.Request(gateway.url + CHAT, b"x" * nbytes, {"content-type": "application/json"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(asked, timeout=60)
        assert refused.value.code == 413
        assert "larger than the 10000 bytes" in json.loads(refused.value.read())["error"]["message"]
        assert gateway.still_serves()


def send_on(connection: socket.socket, nbytes: int) -> None:
    for _ in range(nbytes // 65_536):
        connection.sendall(b"x" * 65_536)


def test_no_more_of_a_refused_body_is_passed_over_than_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes on sending after that is cut off, whatever it said of its length."""
    monkeypatch.setattr("sluicegate.gateway.http.connection.protocol.PASSED_OVER_BYTES", 1_000_000)
    with (
        served({"max_body_bytes": 10_000, "body_s": 60}) as gateway,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=30) as connection,
    ):
        connection.sendall(head(b"content-length: 99999999999", b"connection: close"))
        with pytest.raises(ConnectionError):
            send_on(connection, 2000 * 65_536)
        assert gateway.still_serves()


@pytest.mark.parametrize(
    "body",
    [
        b"\xff\xfe{}",
        b'{"model": "scripted", "messages": [{"role": "user", "content": "\xed\xa0\x80"}]}',
        b'{"a":' * 100_000,
        b"[" * 1_000_000,
        b'{"model": 1e999}',
        b'{"model": "scripted", "messages": [{"role": "user", "content": "\\ud800"}]}',
    ],
    ids=["bom", "surrogate bytes", "deep objects", "deep arrays", "infinity", "lone surrogate"],
)
def test_malformed_json_is_a_400(gateway: Served, body: bytes) -> None:
    answer = httpx.post(gateway.url + CHAT, content=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"


def test_a_body_that_grows_past_the_limit_is_cut_off_and_not_kept() -> None:
    """Sent in chunks, so that nothing says how much is coming: 413, and memory is of the limit, not of the body."""
    limit, chunk = 1 << 20, b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
    with served({"max_body_bytes": limit}) as gateway:
        before = rss_bytes()
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=5) as connection:
            connection.sendall(head(b"transfer-encoding: chunked"))
            with contextlib.suppress(ConnectionError, TimeoutError):  # closed while it was still sending
                for _ in range(2000):
                    connection.sendall(chunk)
            with contextlib.suppress(ConnectionError):
                answer = everything(connection)
                assert answer == b"" or answer.startswith(b"HTTP/1.1 413")
        assert rss_bytes() - before < 30 * limit
        assert gateway.still_serves()


def rss_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def test_a_deep_schema_is_a_400(gateway: Served) -> None:
    schema: dict[str, Any] = {}
    for _ in range(150):
        schema = {"type": "array", "items": schema}
    fmt = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    body = {"model": "scripted", "messages": [{"role": "user", "content": "x"}], "response_format": fmt}
    assert httpx.post(gateway.url + CHAT, json=body).status_code < 500
