"""A proxy in front of an MCP server that sends interim heads before each of its answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

HEAD = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n"


@contextlib.contextmanager
def before_each_answer(url: str, heads: int) -> Iterator[str]:
    """Yield the address of a proxy to `url` that sends `heads` interim heads before each answer."""
    target = urlsplit(url)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, (target.hostname, target.port), heads), daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}{target.path}"


def _accept(listener: socket.socket, target: tuple[str, int], heads: int) -> None:
    with contextlib.suppress(OSError):  # the listener is closed
        while True:
            client, _ = listener.accept()
            server = socket.create_connection(target)
            threading.Thread(target=_asks, args=(client, server, heads), daemon=True).start()
            threading.Thread(target=_passed, args=(server, client), daemon=True).start()


def _asks(client: socket.socket, server: socket.socket, heads: int) -> None:
    """Pass on requests, whose heads begin with a method, and answer each with interim heads first."""
    with contextlib.suppress(OSError), client, server:
        while data := client.recv(65_536):
            if data.startswith((b"POST", b"GET", b"DELETE")):
                client.sendall(HEAD * heads)
            server.sendall(data)


def _passed(server: socket.socket, client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := server.recv(65_536):
            client.sendall(data)
