"""Notice what other gateways changed, soon: one small question to the database every `look_s`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from sluicegate.gateway.database.postgres import Connection, Database, DatabaseUnavailable
from sluicegate.plugins.concurrency.ending import end_tasks

log = logging.getLogger("sluicegate.database")
NOTHING = -1


def note_change(db: Connection, kind: str) -> None:
    """Let others see, once the transaction is kept, that something of `kind` changed.

    Counts grow with the time, so that a database that was put back to an earlier state, and changed since, never has a
    count that gateways saw before."""
    now = "(extract(epoch from clock_timestamp()) * 1000)::bigint"
    db.execute(
        f"insert into sluicegate.changes values (%s, {now}) "
        f"on conflict (kind) do update set count = greatest(changes.count + 1, {now})",
        (kind,),
    )


@dataclass(slots=True)
class Handler:
    """`seen`: the count of changes up to which `read` has read."""

    read: Callable[[], Awaitable[None]]
    seen: int = NOTHING
    running: asyncio.Task[None] | None = None


class Changes:
    """Used on the event loop. Handlers run beside each other: one that loads a model does not hold up a rollback."""

    def __init__(self, database: Database, look_s: float) -> None:
        self._database = database
        self._look_s = look_s
        self._handlers: dict[str, Handler] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._away = False

    def on(self, kind: str, read: Callable[[], Awaitable[None]]) -> None:
        """Call `read` at the start and after each change of `kind`, again and again until it raises nothing."""
        self._handlers[kind] = Handler(read)

    async def start(self) -> None:
        """Return when all has been read once. Raises what the database, or a handler, raises."""
        counts = await self._database.call(self._counts)
        for kind, handler in self._handlers.items():
            await self._read(handler, counts.get(kind, 0))
        self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        await end_tasks((self._watcher, *(handler.running for handler in self._handlers.values())))

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._look_s)
            try:
                self._begin(await self._database.call(self._counts))
            except DatabaseUnavailable as error:
                if not self._away:
                    log.error("what other gateways change is not seen here now: %s", error)
                self._away = True
            except Exception:
                log.exception("what other gateways changed could not be looked at")

    def _begin(self, counts: dict[str, int]) -> None:
        if self._away:
            log.warning("what other gateways change is seen here again")
        self._away = False
        for kind, handler in self._handlers.items():
            count = counts.get(kind, 0)
            if count != handler.seen and (handler.running is None or handler.running.done()):
                handler.running = asyncio.create_task(self._try(kind, handler, count))

    async def _try(self, kind: str, handler: Handler, count: int) -> None:
        try:
            await self._read(handler, count)
        except Exception:
            log.exception("a change of %s by another gateway could not be followed; it is tried again", kind)
            await asyncio.sleep(5 * self._look_s)

    async def _read(self, handler: Handler, count: int) -> None:
        await handler.read()
        handler.seen = count

    def _counts(self) -> dict[str, int]:
        rows = self._database.execute("select kind, count from sluicegate.changes").fetchall()
        return {str(kind): int(count) for kind, count in rows}
