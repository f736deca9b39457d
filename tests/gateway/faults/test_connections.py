"""Clients that leave, stop reading, say nothing or come by the hundred: what runs for them ends, others are served."""

from __future__ import annotations

import json
import logging
import socket
from collections.abc import Iterator

import httpx
import pytest

from tests.gateway.faults.driving import BODY, LENGTH, Served, head, served
from tests.waiting import LIMIT_S, until


@pytest.fixture(scope="module")
def gateway() -> Iterator[Served]:
    with served() as found:
        yield found


@pytest.fixture(scope="module")
def patient() -> Iterator[Served]:
    """Run a gateway with no limit of time that a busy machine could reach first."""
    with served({"head_s": 300, "body_s": 300}) as found:
        yield found


def test_half_open_connections_hold_nobody_up() -> None:
    """Two hundred that said their piece and shut their side down, and two hundred that said half of it: those are
    answered, these dropped, long before any deadline, and others are served meanwhile."""
    with served({"head_s": 300, "body_s": 300}) as gateway:
        whole, half = head(LENGTH) + BODY, head(LENGTH) + BODY[:10]
        connections = [socket.create_connection(("127.0.0.1", gateway.port), timeout=60) for _ in range(400)]
        for i, connection in enumerate(connections):
            connection.sendall(whole if i % 2 else half)
            connection.shutdown(socket.SHUT_WR)
        assert gateway.still_serves()
        ends = [_end(connection) for connection in connections]
        assert set(ends[::2]) <= {b"", b"HTTP/1.1 400", b"HTTP/1.1 408"}
        assert set(ends[1::2]) <= {b"HTTP/1.1 100", b"HTTP/1.1 200"}, "who sends no more still reads"
        for connection in connections:
            connection.close()
        assert gateway.still_serves()


def _end(connection: socket.socket) -> bytes:
    """Return how the connection's answer begins; empty where it was dropped."""
    try:
        return connection.recv(12)
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize("path", [b"/v1/chat/completions", b"/v1/messages", b"/v1/moderations"])
def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_failure_of_ours(
    patient: Served, path: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """One line in the log, and no traceback: whoever hangs up cannot fill the log with them."""
    caplog.set_level(logging.INFO)
    started = b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-length: 500\r\n\r\n{" % path
    with socket.create_connection(("127.0.0.1", patient.port)) as connection:
        connection.sendall(started)
    until(lambda: "the client left before its body had come" in caplog.text)
    assert patient.still_serves()
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_client_that_leaves_several_requests_is_no_failure_of_ours(caplog: pytest.LogCaptureFixture) -> None:
    """The one that ran was called a fault of the application, an error in the log for each such client."""
    with served({"head_s": 300, "body_s": 300}, script=["word "] * 500, delay_s=0.01) as gateway:
        body = BODY[:-1] + b', "stream": true}'
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=60) as connection:
            connection.sendall((head(b"content-length: %d" % len(body)) + body) * 3)
            while b"word" not in connection.recv(65536):
                pass
        [outcome] = gateway.app.wait_for_outcomes(1)
        assert outcome.usage.completion_tokens < 500
        assert gateway.still_serves()
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_reader_that_stops_is_dropped_and_its_generation_ends() -> None:
    with served(script=["x" * 10_000] * 2000, pipeline={"constrain": ["unconstrained"]}) as gateway:
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", gateway.port))
        body = json.dumps({**json.loads(BODY), "stream": True}).encode()
        connection.sendall(head(b"content-length: %d" % len(body)) + body)
        [outcome] = gateway.app.wait_for_outcomes(1, limit_s=LIMIT_S)
        assert outcome.error == "cancelled"
        assert gateway.app.model.generations[0].cancelled
        connection.close()
        assert gateway.still_serves()


def test_a_client_that_vanishes_ends_its_generation() -> None:
    with served(script=["word "] * 5000, delay_s=0.01) as gateway:
        connection = socket.create_connection(("127.0.0.1", gateway.port))
        body = json.dumps({**json.loads(BODY), "stream": True}).encode()
        connection.sendall(head(b"content-length: %d" % len(body)) + body)
        connection.recv(1000)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # RST
        connection.close()
        gateway.app.wait_for_outcomes(1, limit_s=LIMIT_S)
        assert gateway.app.model.generations[0].cancelled


def test_many_idle_streams_stay_open_and_cost_little() -> None:
    """Four hundred at once, none of which says anything; others are served meanwhile, and all of it is given back."""
    with served({"stall_s": 60}, script=["x"], delay_s=30) as gateway:
        body = json.dumps({**json.loads(BODY), "stream": True}).encode()
        request = head(b"content-length: %d" % len(body)) + body
        connections = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(400)]
        for connection in connections:
            connection.sendall(request)
        until(lambda: len(gateway.app.model.generations) == 400)
        assert httpx.get(gateway.url + "/healthz").status_code == 200
        for connection in connections:
            connection.close()
        assert len(gateway.app.wait_for_outcomes(400, limit_s=LIMIT_S)) == 400


def test_connections_beyond_the_limit_are_told_so() -> None:
    with served({"max_connections": 5, "head_s": 30}) as gateway:
        held = [socket.create_connection(("127.0.0.1", gateway.port)) for _ in range(6)]
        until(lambda: httpx.get(gateway.url + "/healthz").status_code == 503)
        for connection in held:
            connection.close()
        until(lambda: httpx.get(gateway.url + "/healthz").status_code == 200)
