"""Tell all running gateways of a deployment to do something once: to reload, or to withdraw kept answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping

from sluicegate.gateway.database.changes import note_change
from sluicegate.gateway.database.postgres import Database

log = logging.getLogger("sluicegate.database")
KIND = "announcements"
KEPT = "1 day"
Call = Callable[[Mapping[str, object]], Awaitable[None]]


class Announcements:
    """Used on the event loop. What was announced before this gateway started does not concern it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls: dict[str, Call] = {}
        self._last: int | None = None
        self._own: set[int] = set()

    def on(self, what: str, call: Call) -> None:
        """Call `call` with what another gateway announced; what it raises is logged, and it is not called again."""
        self._calls[what] = call

    async def announce(self, what: str, content: Mapping[str, object]) -> None:
        """Tell the others. Raises `DatabaseUnavailable`."""
        self._own.add(await self._database.call(lambda: self._write(what, json.dumps(content))))

    async def read(self) -> None:
        """Do what was announced since the last call."""
        for number, what, content in await self._database.call(self._new):
            self._last = max(number, self._last or 0)
            if number in self._own:
                self._own.discard(number)
            elif what in self._calls:
                try:
                    await self._calls[what](json.loads(content))
                except Exception:
                    log.exception("another gateway announced %r, which failed here", what)

    def _write(self, what: str, content: str) -> int:
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(%s)", (0x51CE6A7F,))  # numbers become visible in their order
            added = "insert into sluicegate.announcements (kind, content) values (%s, %s) returning number"
            [(number,)] = db.execute(added, (what, content)).fetchall()
            db.execute(f"delete from sluicegate.announcements where at < now() - interval '{KEPT}'")
            note_change(db, KIND)
        return int(number)

    def _new(self) -> list[tuple[int, str, str]]:
        if self._last is None:
            [(last,)] = self._database.execute("select max(number) from sluicegate.announcements").fetchall()
            self._last = int(last or 0)
            return []
        query = "select number, kind, content from sluicegate.announcements where number > %s order by number"
        rows = self._database.execute(query, (self._last,)).fetchall()
        return [(int(number), str(what), str(content)) for number, what, content in rows]
