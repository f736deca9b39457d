"""Bound interim responses ("100 Continue") and refuse unrequested ones, which aiohttp does not.

aiohttp reads interim responses in a loop without yielding, for as long as they come, and keeps a surplus response on a
reused connection for the next request.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler

MOST_INTERIM = 16


class FewInterim(ResponseHandler):
    """Closes the connection after `MOST_INTERIM` interim responses in a row, and at unrequested data."""

    def __init__(self, loop: Any) -> None:
        super().__init__(loop)
        self._interim = 0
        self._asked = False
        """A request was begun, and no head of an answer has come."""

    def set_response_params(self, **params: Any) -> None:
        self._asked = True
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        if data and not self._asked and (self._payload is None or self._payload.is_eof()):
            self.close()
            return
        super().data_received(data)

    def feed_data(self, data: Any, size: int = 0) -> None:
        if self._interim > MOST_INTERIM:
            return  # more of what came together
        if not self._asked:
            self.close()
            return
        self._asked = 100 <= data[0].code < 200
        self._interim = self._interim + 1 if 100 <= data[0].code < 200 else 0
        if self._interim <= MOST_INTERIM:
            super().feed_data(data, size)
        else:
            self.close()
            self.set_exception(aiohttp.ServerDisconnectedError("it goes on with heads that begin nothing"))


def bounded(connector: aiohttp.TCPConnector) -> aiohttp.TCPConnector:
    """Make `connector` use `FewInterim`. aiohttp's factory has no public name: raises `AttributeError` if it moved."""
    made: Any = connector._factory
    connector._factory = partial(FewInterim, **made.keywords)  # type: ignore[assignment]
    return connector
