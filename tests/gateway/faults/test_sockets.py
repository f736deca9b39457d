"""WebSocket clients that send and never read."""

from __future__ import annotations

import json
import os
import resource
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sluicegate.gateway.testing import TestApp
from tests.gateway.faults.driving import Served, served
from tests.waiting import until

PING, TEXT = 0x9, 0x1
MANY = 400_000
"""Pings of 125 bytes, some 50 MB: far more than the kernel keeps for a connection."""


@contextmanager
def deaf(gateway: Served) -> Iterator[socket.socket]:
    """Open a WebSocket that takes little of what it is sent before somebody reads."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.settimeout(10)
    client.connect(("127.0.0.1", gateway.port))
    with client:
        client.sendall(
            b"GET /v1/chat/completions/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
            b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        head = b""
        while b"\r\n\r\n" not in head:
            head += client.recv(1)
        assert head.startswith(b"HTTP/1.1 101")
        yield client


def frame(opcode: int, payload: bytes) -> bytes:
    size = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + struct.pack("!H", len(payload))
    return bytes([0x80 | opcode]) + size + b"\0\0\0\0" + payload


def resident() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * resource.getpagesize()


def flood(client: socket.socket, pings: int) -> int:
    """Send pings; return the bytes that were taken. Raises what the connection does."""
    part, sent = frame(PING, os.urandom(125)) * 1000, 0
    for _ in range(pings // 1000):
        client.sendall(part)
        sent += len(part)
    return sent


def test_a_client_that_pings_and_never_reads_is_not_read_on() -> None:
    """The kernel's buffers fill up and its sending stops: no pongs pile up."""
    with served({"stall_s": 60}) as gateway, deaf(gateway) as client:
        client.settimeout(2)
        before = resident()
        with pytest.raises(TimeoutError):
            flood(client, MANY)
        assert resident() - before < 20_000_000
        assert gateway.still_serves()


def test_a_client_that_pings_and_never_reads_is_dropped_in_the_end() -> None:
    with served({"stall_s": 0.4}) as gateway, deaf(gateway) as client:
        with pytest.raises(ConnectionError):
            flood(client, MANY)
        assert gateway.still_serves()


def test_a_client_that_reads_late_gets_all_its_pongs() -> None:
    count = 20_000
    with served({"stall_s": 60}) as gateway, deaf(gateway) as client:
        got = b""
        ping = frame(PING, b"x" * 125)
        for _ in range(count // 1000):
            client.sendall(ping * 1000)
            while len(got) < 100_000 and (data := client.recv(65536)):
                got += data
            got = got[100_000:]
        rest = count * 127 - 100_000 * (count // 1000)
        while len(got) < rest:
            got += client.recv(65536)
        assert len(got) == rest


def test_a_client_that_never_reads_its_answers_is_dropped_and_its_work_ends() -> None:
    """Dozens of messages, each with an answer that nobody takes."""
    script = ["word " * 400] * 500
    body = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 100_000}
    with served({"stall_s": 0.4}, script=script) as gateway, deaf(gateway) as client:
        for _ in range(40):
            client.sendall(frame(TEXT, json.dumps(body).encode()))
        app: TestApp = gateway.app
        until(lambda: bool(app.outcomes))
        until(lambda: all(answer.finish_reason == "cancelled" for answer in app.outcomes[-1].answers))
        assert len(app.outcomes) < 40
        assert gateway.still_serves()
