"""Serve applications of tests: a real uvicorn on a port and an event loop of its own."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import uvicorn

from tests.waiting import until


@contextmanager
def serving(
    app: Any, lifespan: Literal["auto", "off"] = "auto", certificate: tuple[str, str] | None = None
) -> Iterator[str]:
    """Serve an ASGI application; yield its URL. `certificate`: its file and that of its key, for HTTPS."""
    listener = socket.create_server(("127.0.0.1", 0))
    terms = dict(zip(("ssl_certfile", "ssl_keyfile"), certificate or (), strict=False))
    settings: Any = {"log_config": None, "lifespan": lifespan, "timeout_graceful_shutdown": 1, **terms}
    server = uvicorn.Server(uvicorn.Config(app, **settings))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[listener])), daemon=True)
    thread.start()
    until(lambda: server.started)
    try:
        host = "https://localhost" if certificate else "http://127.0.0.1"
        yield f"{host}:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)
