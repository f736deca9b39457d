"""The tests' own Redis: asking it holds where a server drops its clients, as one does that becomes the main one."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from tests.cache.redis_server import RedisServer


def dropping(times: int) -> int:
    """Start a server that hangs up on the first `times` clients, and answers the next. Return its port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for number in range(times + 1):
                client, _ = listener.accept()
                with client:
                    client.recv(1 << 16)
                    if number == times:
                        client.sendall(b"+role:master\r\n")

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])


def test_waiting_outlasts_connections_that_are_dropped(tmp_path: Path) -> None:
    RedisServer(tmp_path, port=dropping(3)).wait_for(b"role:master", "INFO", "replication")


def test_a_reply_that_does_not_come_is_an_error_and_no_empty_reply(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        RedisServer(tmp_path, port=dropping(1)).ask("PING")
