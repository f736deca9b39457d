"""The tables of the database as files: all of one moment, in the form of PostgreSQL's own COPY, one file a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sluicegate.gateway.commands.backup.archive import BackupReader, BackupWriter
from sluicegate.gateway.database import Connection, Database
from sluicegate.gateway.database.migrations import STEPS, migrate
from sluicegate.plugins import ConfigurationError

FOLDER = "database"
OF_THE_MOMENT = frozenset(
    {"migrations", "alive", "lease_answers", "announcements", "leaders", "recordings", "recording_keys"}
)
"""Tables that a backup leaves out: they describe running gateways, are made by migrations, or hold what must be gone
once it is deleted."""


def save_tables(database: Database, writer: BackupWriter) -> dict[str, object]:
    """Return what the manifest says of them."""
    with database.transaction() as db:
        db.execute("set transaction isolation level repeatable read, read only")
        _take_time(db)
        rows: dict[str, int] = {}
        for table in _tables(db):
            writer.add(
                f"{FOLDER}/{table}.copy", _copied(db, f"copy sluicegate.{table} ({_columns(db, table)}) to stdout")
            )
            [(rows[table],)] = db.execute(f"select count(*) from sluicegate.{table}").fetchall()
        [(steps,)] = db.execute("select max(number) from sluicegate.migrations").fetchall()
        columns = {table: _columns(db, table) for table in rows}
    return {"steps": int(steps), "rows": rows, "columns": columns}


def load_tables(database: Database, reader: BackupReader, *, replace: bool) -> dict[str, int]:
    """Put the rows of a backup where there are none, or, with `replace`, in the place of those there; all or nothing.
    Return how many, by table. Raises `ConfigurationError`."""
    facts = reader.facts["database"]
    steps = int(facts["steps"])
    if steps > len(STEPS):
        raise ConfigurationError(
            f"the backup has tables of step {steps}, this release knows {len(STEPS)}; use a newer one"
        )
    with database.transaction() as db:
        _take_time(db)
        _make_room(db, replace=replace)
        migrate(db.execute, STEPS[:steps])
        db.execute("delete from sluicegate.origin")
        for table in _in_order(db, facts["rows"]):
            copy = f"copy sluicegate.{table} ({facts['columns'][table]}) from stdin"
            _fill(db, copy, reader.parts(f"{FOLDER}/{table}.copy"))
            [(count,)] = db.execute(f"select count(*) from sluicegate.{table}").fetchall()
            if count != facts["rows"][table]:
                raise ConfigurationError(f"table {table}: {count} rows came back of {facts['rows'][table]}")
        db.execute("update sluicegate.batches set owner = null")
        migrate(db.execute)
    return {table: int(count) for table, count in facts["rows"].items()}


def _take_time(db: Connection) -> None:
    """Lift the time limits that hold for requests: tables may be large."""
    for name in ("statement_timeout", "idle_in_transaction_session_timeout"):
        db.execute(f"set local {name} = 0")


def _make_room(db: Connection, *, replace: bool) -> None:
    """Drop what the database holds. Raises `ConfigurationError` where gateways run, or where rows would be lost without
    `replace`."""
    [(there,)] = db.execute("select to_regnamespace('sluicegate') is not null").fetchall()
    if not there:
        return
    query = "select count(*) from sluicegate.alive where until > clock_timestamp()"
    [(alive,)] = db.execute(query).fetchall()
    if alive:
        raise ConfigurationError(f"{alive} gateways run on this database (or did, seconds ago); stop them first")
    taken = [table for table in _tables(db) if table not in ("origin", "changes", "segments")]
    full = [t for t in taken if db.execute(f"select 1 from sluicegate.{t} limit 1").fetchone() is not None]
    if full and not replace:
        raise ConfigurationError(
            f"the database is not empty (there are {', '.join(full)}); --replace removes what it has"
        )
    db.execute("drop schema sluicegate cascade")


def _tables(db: Connection) -> list[str]:
    query = "select tablename from pg_tables where schemaname = 'sluicegate' order by tablename"
    return [str(row[0]) for row in db.execute(query).fetchall() if row[0] not in OF_THE_MOMENT]


def _in_order(db: Connection, rows: dict[str, int]) -> Sequence[str]:
    """Return the tables ordered so that each stands before those whose rows refer to it."""
    known = [table for table in _tables(db) if table in rows]
    return sorted(known, key=lambda table: (table == "results", table))


def _columns(db: Connection, table: str) -> str:
    query = (
        "select column_name from information_schema.columns where table_schema = 'sluicegate' and table_name = %s "
        "and is_identity = 'NO' order by ordinal_position"
    )
    return ", ".join(f'"{row[0]}"' for row in db.execute(query, (table,)).fetchall())


def _copied(db: Any, statement: str) -> Iterator[bytes]:
    with db.cursor() as cursor, cursor.copy(statement) as copy:
        for part in copy:
            yield bytes(part)


def _fill(db: Any, statement: str, parts: Iterator[bytes]) -> None:
    with db.cursor() as cursor, cursor.copy(statement) as copy:
        for part in parts:
            copy.write(part)
