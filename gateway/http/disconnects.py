"""Cancel what runs for a client that disconnects, within one engine step of when it is found gone (a fraction of a
second later where it closed its side first, see `connection/half_closed`); and what runs too long for a gateway that
stops, with an error.

Under our own server the connection reports that it was closed (`Disconnect`, in the scope's extensions), which costs a
request two assignments. Under any other ASGI server a task listens for it: about 50 us for each piece of work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from sluicegate.plugins import Overloaded

EXTENSION = "sluicegate.disconnect"
T = TypeVar("T")


class ClientDisconnected(Exception):
    """The connection closed before the answer was whole."""


class Disconnect:
    """Cancels the work of one connection when its client disconnects or the gateway stops. Used on the event loop; one
    piece of work at a time."""

    __slots__ = ("_stop", "arrived", "gone", "nudge", "over")

    def __init__(self) -> None:
        self.arrived = False
        """Whether the bodies of the connection's last request and of all before it have arrived completely."""
        self.gone = False
        self.over = False
        """Whether the gateway is stopping, and waits no longer."""
        self._stop: Callable[[], object] | None = None
        self.nudge: Callable[[], object] | None = None
        """Writes something that a client passes over into the stream that runs; None = none runs."""

    def left(self) -> None:
        """Note that the client has disconnected, and stop the work."""
        self.gone = True
        if self._stop is not None:
            self._stop()

    def end(self) -> None:
        """Stop the work because the gateway stops and has waited long enough; the client is still connected."""
        self.over = True
        if self._stop is not None:
            self._stop()

    async def unless(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`; cancel it and raise `ClientDisconnected` as soon as the client is gone, or before it is begun.
        Raises `Overloaded` where the gateway waits no longer."""
        task = asyncio.current_task()
        assert task is not None
        if self.gone:
            work.close()
            raise ClientDisconnected
        if self.over:
            work.close()
            raise _stopping()
        self._stop = task.cancel
        try:
            found = await work
        except asyncio.CancelledError:
            if not (self.gone or self.over) or task.uncancel():  # cancelled by someone else
                raise
            raise (ClientDisconnected() if self.gone else _stopping()) from None
        finally:
            self._stop = None
        if self.gone or self.over:  # `work` ignored its cancellation; the caller handles its result
            task.uncancel()
        return found


def _stopping() -> Overloaded:
    return Overloaded("the gateway is shutting down; send the request elsewhere", retry_after_s=5.0)


async def unless_disconnected(scope: Scope, receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; cancel it and raise `ClientDisconnected` as soon as the client disconnects. Raises `Overloaded`
    where our own server stops and waits no longer."""
    disconnect: Disconnect | None = scope.get("extensions", {}).get(EXTENSION)
    if disconnect is not None:
        return await disconnect.unless(work)
    disconnect = Disconnect()
    watcher = asyncio.ensure_future(_listen(receive, disconnect))
    try:
        return await disconnect.unless(work)
    finally:
        await ended(watcher)


async def _listen(receive: Receive, disconnect: Disconnect) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    disconnect.left()


async def ended(task: asyncio.Future[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
