"""A gateway behind the very server that `sluicegate serve` uses, and bytes as a hostile client sends them."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import uvicorn

from sluicegate.gateway.server import _uvicorn_config
from sluicegate.gateway.testing import TestApp
from tests.waiting import until

CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}).encode()
LIMITS = {"head_s": 0.3, "body_s": 0.4, "stall_s": 0.4, "max_head_bytes": 8192, "max_headers": 50}


@dataclass(frozen=True)
class Served:
    port: int
    app: TestApp

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def raw(self, *pieces: bytes, pause_s: float = 0.0, limit_s: float = 30.0) -> bytes:
        """Send bytes; return everything that comes back until the gateway closes or falls silent."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=limit_s) as connection:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause_s)
            return everything(connection)

    def still_serves(self) -> bool:
        return httpx.post(self.url + CHAT, content=BODY, timeout=60).status_code == 200


def everything(connection: socket.socket) -> bytes:
    found = b""
    connection.settimeout(30)
    try:
        while data := connection.recv(65536):
            found += data
            if found.startswith(b"HTTP/1.1 2") and found.endswith(b"}"):
                break
    except (TimeoutError, ConnectionError):
        pass
    return found


@contextmanager
def served(server: dict[str, Any] | None = None, **more: Any) -> Iterator[Served]:
    """Run a gateway with a scripted model, under the very configuration of uvicorn that `sluicegate serve` uses."""
    app = TestApp(settings={"server": {**LIMITS, **(server or {})}}, **more)
    listener = socket.create_server(("127.0.0.1", 0))
    running = uvicorn.Server(_uvicorn_config(app.runtime.settings, app.runtime))
    thread = threading.Thread(target=lambda: asyncio.run(running.serve(sockets=[listener])), daemon=True)
    thread.start()
    until(lambda: app.runtime.ready)
    try:
        yield Served(listener.getsockname()[1], app)
    finally:
        running.should_exit = True
        thread.join(15)


def head(*lines: bytes) -> bytes:
    return b"\r\n".join([b"POST /v1/chat/completions HTTP/1.1", b"host: localhost", *lines]) + b"\r\n\r\n"


LENGTH = b"content-length: %d" % len(BODY)
