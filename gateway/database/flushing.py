"""Write pending data to its store every second, tidy the store now and then, and report failures to operators."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from sluicegate.gateway.database.postgres import DatabaseUnavailable
from sluicegate.plugins import Trouble
from sluicegate.plugins.concurrency.ending import end_tasks

FLUSH_S = 1.0


class Flushing:
    """Used on one event loop. Data that could not be written stays with its owner and is tried again."""

    def __init__(
        self,
        what: str,
        flush: Callable[[], Awaitable[None]],
        tidy: Callable[[], Awaitable[object]],
        every: int,
        log: logging.Logger,
    ) -> None:
        """Prepare the loop. `what`: the pending data in operators' words; `every`: flushes from one `tidy` to the
        next."""
        self._what = what
        self._flush, self._tidy, self._every = flush, tidy, every
        self._log = log
        self._task: asyncio.Task[None] | None = None
        self._reason = ""

    def start(self) -> None:
        self._task = asyncio.create_task(self._go_on())

    async def close(self) -> DatabaseUnavailable | None:
        """Flush once more, and return the reason of a failure."""
        if self._task is None:
            return None
        await end_tasks((self._task,))
        try:
            await self._flush()
        except DatabaseUnavailable as error:
            return error
        return None

    def troubles(self) -> Sequence[Trouble]:
        return (Trouble(self._reason),) if self._reason else ()

    async def _go_on(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(FLUSH_S)
            count += 1
            try:
                try:
                    await self._flush()
                finally:  # old ones go even while no new one can be written
                    if count % self._every == 1:
                        await self._tidy()
                self._reason = ""
            except DatabaseUnavailable as error:
                if not self._reason:
                    self._log.error("%s wait for their store: %s", self._what, error)
                self._reason = f"{self._what} wait in memory for their store: {error}"
            except Exception:
                self._log.exception("%s were not written; they are tried again", self._what)
