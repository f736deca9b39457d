"""Tell all running gateways of a deployment to do something once: to reload, or to withdraw kept answers.

Executed announcements are remembered by number and time: a database restored to an earlier state, or a replica that
lagged, issues the same numbers again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime

from sluicegate.gateway.database.changes import note_change
from sluicegate.gateway.database.postgres import Database

log = logging.getLogger("sluicegate.database")
KIND = "announcements"
KEPT = "1 day"
Call = Callable[[Mapping[str, object]], Awaitable[None]]
Announced = tuple[int, datetime]


class Announcements:
    """Used on the event loop. What was announced before this gateway started does not concern it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._calls: dict[str, Call] = {}
        self._done: frozenset[Announced] | None = None
        self._own: set[int] = set()

    def on(self, what: str, call: Call) -> None:
        """Call `call` for each announcement of kind `what`. An exception is logged, and the call is not repeated."""
        self._calls[what] = call

    async def announce(self, what: str, content: Mapping[str, object]) -> None:
        """Send an announcement to the other gateways. Raises `DatabaseUnavailable`."""
        self._own.add(await self._database.call(lambda: self._write(what, json.dumps(content))))

    async def read(self) -> None:
        """Execute the announcements made since the last call."""
        present, fresh = await self._database.call(self._new)
        self._done = present
        for number, what, content in fresh:
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

    def _new(self) -> tuple[frozenset[Announced], list[tuple[int, str, str]]]:
        """Return the current announcements, and those of them not yet executed, in order."""
        rows = self._database.execute("select number, at from sluicegate.announcements").fetchall()
        present = frozenset((int(number), at) for number, at in rows)
        fresh = [] if self._done is None else [number for number, _ in present - self._done]
        if not fresh:
            return present, []
        query = "select number, kind, content from sluicegate.announcements where number = any(%s) order by number"
        found = self._database.execute(query, (fresh,)).fetchall()
        return present, [(int(number), str(what), str(content)) for number, what, content in found]
