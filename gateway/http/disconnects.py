"""Clients that leave: what runs for one is cancelled, within one engine step. Where it is the gateway that leaves, what
takes longer than it waits is cancelled as well, and the client told.

Under our own server the connection itself says that it was closed (`Leaving`, in the scope's extensions), which costs a
request two assignments. Under any other ASGI server a task listens for it: about 50 us for each piece of work.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from starlette.types import Receive, Scope

from sluicegate.plugins import Overloaded

EXTENSION = "sluicegate.leaving"
T = TypeVar("T")


class ClientLeft(Exception):
    """The connection closed before the answer was whole."""


class Leaving:
    """One connection's end, told to whatever runs for it. Used on the event loop; one piece of work at a time."""

    __slots__ = ("_stop", "gone", "over")

    def __init__(self) -> None:
        self.gone = False
        self.over = False
        """The gateway stops, and waits no longer."""
        self._stop: Callable[[], object] | None = None

    def left(self) -> None:
        """The other side is gone."""
        self.gone = True
        if self._stop is not None:
            self._stop()

    def end(self) -> None:
        """The other side is there, but the gateway stops and has waited long enough."""
        self.over = True
        if self._stop is not None:
            self._stop()

    async def unless(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work`; cancel it and raise `ClientLeft` as soon as the client is gone. It is not begun for one that
        is gone already. Raises `Overloaded` where the gateway waits no longer."""
        task = asyncio.current_task()
        assert task is not None
        if self.gone:
            work.close()
            raise ClientLeft
        if self.over:
            work.close()
            raise _stopping()
        self._stop = task.cancel
        try:
            found = await work
        except asyncio.CancelledError:
            if not (self.gone or self.over) or task.uncancel():  # somebody else wants it
                raise
            raise (ClientLeft() if self.gone else _stopping()) from None
        finally:
            self._stop = None
        if self.gone or self.over:  # something in there did not heed its cancellation; whoever has the result ends it
            task.uncancel()
        return found


def _stopping() -> Overloaded:
    return Overloaded("the gateway is shutting down; send the request elsewhere", retry_after_s=5.0)


async def unless_left(scope: Scope, receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; cancel it and raise `ClientLeft` as soon as the client disconnects. Raises
    `Overloaded` where our own server stops and waits no longer."""
    leaving: Leaving | None = scope.get("extensions", {}).get(EXTENSION)
    if leaving is not None:
        return await leaving.unless(work)
    leaving = Leaving()
    watcher = asyncio.ensure_future(_listen(receive, leaving))
    try:
        return await leaving.unless(work)
    finally:
        await ended(watcher)


async def _listen(receive: Receive, leaving: Leaving) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    leaving.left()


async def ended(task: asyncio.Future[Any]) -> None:
    """Cancel it and wait until it is over."""
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError, Exception):
        await task
