"""Keys and usage in a PostgreSQL that several gateways share, written by each of them and by `sluicegate keys`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from sluicegate.gateway.accounts.bounds import MAX_SUM
from sluicegate.gateway.accounts.parsing import (
    known_key,
    parse_rows,
    read_count,
    read_key,
    read_limits,
    read_usage_rows,
)
from sluicegate.gateway.accounts.records import (
    USAGE_FIELDS,
    KeyRecord,
    UsageKey,
    UsageSum,
    UsageTable,
    encode_key,
    encode_limits,
)
from sluicegate.gateway.accounts.stores.base import ChangeKey, ImplausibleRows, Spent, Version, spent_of
from sluicegate.gateway.accounts.stores.redis import FOR_ONE_PROCESS
from sluicegate.gateway.database import Connection, Database, note_change
from sluicegate.gateway.settings import Limits

NAMED = ("day", "key_id", "team", "feature", "model")
MARK_DAYS = 1
"""How long the number of the last flush of a gateway without a journal is kept."""
_COLUMNS = NAMED + USAGE_FIELDS
_SUMS = ", ".join(f"{name} = least(usage.{name} + excluded.{name}, {MAX_SUM})" for name in USAGE_FIELDS)
_ADD = (
    f"insert into sluicegate.usage ({', '.join(_COLUMNS)}) values ({', '.join(['%s'] * len(_COLUMNS))}) "
    f"on conflict ({', '.join(NAMED)}) do update set {_SUMS}"
)
KIND = "keys"


class PostgresAccountStore:
    """An `AccountStore`."""

    def __init__(self, database: Database) -> None:
        self.set_aside = ImplausibleRows()
        self._database = database

    def open(self) -> None:
        """Open the database. Raises `ConfigurationError` where it cannot be reached: a gateway does not start without
        its books."""
        self._database.open()

    def close(self) -> None:
        """Do nothing: the database is closed by whoever opened it."""

    def version(self) -> Version:
        count = f"select count from sluicegate.changes where kind = '{KIND}'"
        rows = self._database.execute(f"select name, coalesce(({count}), 0) from sluicegate.origin").fetchall()
        return Version(str(rows[0][0]), str(rows[0][1])) if rows else Version("", "")

    def keys(self) -> Sequence[KeyRecord]:
        rows = self._database.execute("select id, record from sluicegate.keys order by id").fetchall()
        found, strange = parse_rows(((row[0], row[1]) for row in rows), read_key)
        self.set_aside.keys = strange
        return list(found.values())

    def teams(self) -> Mapping[str, Limits]:
        rows = self._database.execute("select name, limits from sluicegate.teams").fetchall()
        found, strange = parse_rows(((row[0], row[1]) for row in rows), lambda name, data: read_limits(data))
        self.set_aside.teams = strange
        return found

    def edit_key(self, key_id: str, change: ChangeKey) -> KeyRecord:
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 4))", (key_id,))  # a new key has no row yet
            query = "select record from sluicegate.keys where id = %s for update"
            row = db.execute(query, (key_id,)).fetchone()
            record = change(known_key(key_id, row and row[0]))
            db.execute(
                "insert into sluicegate.keys values (%s, %s) on conflict (id) do update set record = excluded.record",
                (key_id, encode_key(record).decode()),
            )
            note_change(db, KIND)
        return record

    def put_team(self, name: str, limits: Limits) -> None:
        with self._database.transaction() as db:
            put = (
                "insert into sluicegate.teams values (%s, %s) on conflict (name) do update set limits = excluded.limits"
            )
            db.execute(put, (name, encode_limits(limits).decode()))
            note_change(db, KIND)

    def applied(self, journal: str) -> int:
        with self._database.transaction() as db:
            return _applied(db, journal)

    def add(self, journal: str, segment: int, table: UsageTable) -> int:
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 1))", (journal,))
            if _applied(db, journal) >= segment:
                return 0
            refused = self._add_rows(db, [_row(key, usage) for key, usage in sorted(table.items(), key=_named)])
            db.execute(
                "insert into sluicegate.segments (journal, applied) values (%s, %s) "
                "on conflict (journal) do update set applied = excluded.applied, at = now()",
                (journal, segment),
            )
            db.execute(
                "delete from sluicegate.segments where journal like %s and at < now() - %s * interval '1 day'",
                (f"{FOR_ONE_PROCESS}%", MARK_DAYS),
            )
        return refused

    def usage(self, since: str, until: str) -> UsageTable:
        query = f"select {', '.join(_COLUMNS)} from sluicegate.usage where day between %s and %s"
        found, self.set_aside.usage = read_usage_rows(self._database.execute(query, (since, until)).fetchall())
        return found

    def spent(self, day: str) -> Spent:
        return spent_of(self.usage(f"{day[:7]}-01", f"{day[:7]}-31"), day)

    def _add_rows(self, db: Connection, rows: Sequence[tuple[object, ...]]) -> int:
        """Add all rows in one savepoint; where that fails, add them one by one and set aside those that fail. Rows come
        in the order of their names, so that gateways that add the same rows wait for each other without a deadlock.
        Returns how many were set aside."""
        try:
            with db.transaction():
                for row in rows:
                    db.execute(_ADD, row)
            return 0
        except self._database.row_errors:
            return sum(self._add_row(db, row) for row in rows)

    def _add_row(self, db: Connection, row: tuple[object, ...]) -> int:
        try:
            with db.transaction():
                db.execute(_ADD, row)
            return 0
        except self._database.row_errors as error:
            shown, reason = ascii(row)[:4096], ascii(str(error))[:256]
            db.execute("insert into sluicegate.set_aside (kind, row, reason) values ('usage', %s, %s)", (shown, reason))
            return 1


def _applied(db: Connection, journal: str) -> int:
    row = db.execute("select applied from sluicegate.segments where journal = %s", (journal,)).fetchone()
    return (read_count(row[0]) or 0) if row else 0


def _named(item: tuple[UsageKey, UsageSum]) -> tuple[str, ...]:
    return item[0]


def _row(key: UsageKey, usage: UsageSum) -> tuple[object, ...]:
    return (*key, *dataclasses.astuple(usage))
