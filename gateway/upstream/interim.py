"""Heads before the head: a server may say "100 Continue" a few times, and not for ever.

aiohttp takes them one after the other without giving way to others, for as long as they come.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

MOST_INTERIM = 16


class FewInterim(ResponseHandler):
    """Closes the connection after `MOST_INTERIM` of them in a row."""

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self._interim = 0

    def feed_data(self, data: Any, size: int = 0) -> None:
        if self._interim > MOST_INTERIM:
            return  # more of what came together
        self._interim = self._interim + 1 if 100 <= data[0].code < 200 else 0
        if self._interim <= MOST_INTERIM:
            super().feed_data(data, size)
        else:
            self.close()
            self.set_exception(aiohttp.ServerDisconnectedError("it goes on with heads that begin nothing"))


def bounded(connector: aiohttp.TCPConnector) -> aiohttp.TCPConnector:
    """`connector`, whose connections are of this kind. What aiohttp makes them with has no public name: raises
    `AttributeError` where that is another one."""
    made: Any = connector._factory
    connector._factory = partial(FewInterim, **made.keywords)  # type: ignore[assignment]
    return connector
