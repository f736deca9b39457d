"""Rollouts and what was seen for them, in tables that several gateways share. Calls block."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Sequence
from typing import TypeVar

from sluicegate.gateway.database import Connection, Tables
from sluicegate.gateway.database.leadership import Leadership
from sluicegate.gateway.rollout.observation import Observation
from sluicegate.gateway.rollout.progress import Rollout
from sluicegate.plugins import ConfigurationError

log = logging.getLogger("sluicegate.rollout")
T = TypeVar("T")
Edit = Callable[[Rollout | None, float], tuple[Rollout, T]]
"""Maps a rollout and a time in seconds to the edited rollout and a result."""
AT_ONCE = 2000
"""Most observations applied in one transaction."""
WRITERS_KEPT_S = 7 * 86_400.0
"""How long the number of the last batch is kept for a gateway that writes no more."""
UNREADABLE = (ValueError, TypeError, KeyError, ConfigurationError)


class RolloutStore:
    """An observation is taken once: it goes in the transaction that keeps what it changed."""

    def __init__(self, tables: Tables, leadership: Leadership) -> None:
        self._tables = tables
        self._leadership = leadership
        self._writer = uuid.uuid4().hex

    def add(self, batch: int, seen: Sequence[Observation]) -> None:
        """Write a batch, unless it is in the tables: one that got no answer may have been kept all the same, even taken
        by the leader since. `batch`: a number above that of the batch before, the same where it is written again."""
        with self._tables.transaction() as db:
            now = self._tables.now_s(db)
            if not self._is_new(db, batch, now):
                return
            for number, one in enumerate(seen):
                row = (uuid.uuid4().hex, one.route, now + number * 1e-6, one.to_json())
                db.execute("insert into sluicegate.observations values (%s, %s, %s, %s)", row)

    def _is_new(self, db: Connection, batch: int, now: float) -> bool:
        """Note a batch as the last one of this writer. An earlier transaction with it that still runs is waited for."""
        noted = db.execute(
            "insert into sluicegate.observation_writers as kept values (%s, %s, %s) on conflict (writer) do update "
            "set batch = excluded.batch, at_s = excluded.at_s where kept.batch < excluded.batch returning batch",
            (self._writer, batch, now),
        ).fetchall()
        if noted:
            db.execute("delete from sluicegate.observation_writers where at_s < %s", (now - WRITERS_KEPT_S,))
        return bool(noted)

    def lead(self) -> bool:
        with self._tables.transaction() as db:
            return self._leadership.claim(db)

    def give_up(self) -> None:
        with self._tables.transaction() as db:
            self._leadership.give_up(db)

    def load(self) -> dict[str, Rollout]:
        with self._tables.transaction() as db:
            rows = db.execute("select route, record from sluicegate.rollouts order by route").fetchall()
        found = {}
        for route, record in rows:
            try:
                found[str(route)] = Rollout.from_json(record)
            except UNREADABLE as error:
                log.error("the rollout of %r cannot be read and stands still: %s", route, error)
        return found

    def edit(self, route: str, change: Edit[T]) -> T:
        """Replace a rollout by what `change` makes of it and of the time, one caller after another. What it raises
        passes. The time is that of the tables: clocks of gateways differ."""
        with self._tables.transaction() as db:
            made, result = change(self._locked(db, route), self._tables.now_s(db))
            _put(db, made)
        return result

    def fold(self, route: str) -> Rollout | None:
        """Add the observations made since, and decide; None where another gateway leads now."""
        with self._tables.transaction() as db:
            if not self._leadership.claim(db):
                return None
            found = self._locked(db, route)
            if found is None:
                return None
            now = self._tables.now_s(db)
            query = "select id, record from sluicegate.observations where route = %s order by at_s, id limit %s"
            rows = db.execute(query, (route, AT_ONCE)).fetchall()
            for _, record in rows:
                try:
                    found.take(Observation.from_json(record), now)
                except UNREADABLE as error:
                    log.error("an observation for the rollout of %r cannot be read and is left out: %s", route, error)
            for id, _ in rows:
                db.execute("delete from sluicegate.observations where id = %s", (id,))
            found.consider(now)
            _put(db, found)
        return found

    def drop_strays(self, routes: Sequence[str]) -> None:
        """Delete observations that belong to no rollout."""
        with self._tables.transaction() as db:
            for [route] in db.execute("select distinct route from sluicegate.observations").fetchall():
                if route not in routes:
                    db.execute("delete from sluicegate.observations where route = %s", (route,))

    def _locked(self, db: Connection, route: str) -> Rollout | None:
        """Read a rollout and lock its row: a row that is written is held until the transaction ends."""
        db.execute("update sluicegate.rollouts set record = record where route = %s", (route,))
        row = db.execute("select record from sluicegate.rollouts where route = %s", (route,)).fetchone()
        return None if row is None else Rollout.from_json(row[0])


def _put(db: Connection, progress: Rollout) -> None:
    put = "insert into sluicegate.rollouts values (%s, %s) on conflict (route) do update set record = excluded.record"
    db.execute(put, (progress.route, progress.to_json()))
