"""An address that leads to another server from some moment on: new connections go there, old ones stay where they
are, as behind a name whose entry an operator or a cloud changes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class MovedAddress:
    """`target`: the port to which new connections are led."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listening.getsockname()[1])
        self._open: list[socket.socket] = [self._listening]
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(("127.0.0.1", self.target))
                self._open += [client, server]
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=_carry, args=(one, other), daemon=True).start()


def _carry(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_RDWR)


@contextmanager
def moved_address(target: int) -> Iterator[MovedAddress]:
    made = MovedAddress(target)
    try:
        yield made
    finally:
        made.close()
