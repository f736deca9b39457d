"""Store pins: the approved definition of each tool, and the changed definition that waits for approval."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sluicegate.gateway.database import Database, DatabaseUnavailable, fault_of, note_change
from sluicegate.gateway.database.private_file import make_private
from sluicegate.gateway.mcp.definitions import ToolDefinition
from sluicegate.plugins import ConfigurationError
from sluicegate.plugins.disk.database_file import DatabaseFile, closed_on_error

KIND = "mcp_pins"
Names = tuple[str, str]
"""(server, tool)."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The definitions of one tool. `approved`: what agents get; `waiting`: what the server lists now and nobody has
    approved yet; `reasons`: why it waits."""

    approved: Mapping[str, Any] | None = None
    waiting: Mapping[str, Any] | None = None
    reasons: tuple[str, ...] = ()
    at_s: float = 0.0
    by: str = ""
    denied: str = ""
    """Fingerprint of a definition that an operator refused."""

    def definition(self, server: str) -> ToolDefinition | None:
        return None if self.approved is None else ToolDefinition(server, self.approved)

    def held(self, server: str) -> ToolDefinition | None:
        return None if self.waiting is None else ToolDefinition(server, self.waiting)

    @property
    def is_undecided(self) -> bool:
        """Return whether a definition waits and no other one of the tool was ever approved or denied."""
        return self.waiting is not None and self.approved is None and not self.denied

    @property
    def status(self) -> str:
        if self.waiting is None:
            return "approved" if self.approved is not None else "denied"
        return "new" if self.approved is None else "changed"


Edit = Callable[[Pin | None], Pin | None]


class PinStore(Protocol):
    """A store of pins. Calls block: make them in a thread. `load` and `edit` raise `DatabaseUnavailable`."""

    def open(self) -> None: ...

    def load(self) -> dict[Names, Pin]: ...

    def edit(self, names: Names, edit: Edit) -> Pin | None:
        """Replace a pin by `edit(pin)`, one caller after another, and return the new one. If `edit` raises, nothing
        changes and the error passes on."""

    def close(self) -> None: ...


class SqlitePinStore:
    """A `PinStore` in an SQLite file, which syncs every edit before it returns; without a path, in memory. `open`
    raises `ConfigurationError` if the file cannot be read: lost pins must not look like a first listing."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._file = DatabaseFile(path, self._connected)

    def open(self) -> None:
        try:
            self._file.connection()
            self.load()
        except (OSError, sqlite3.Error) as error:
            fault = error if isinstance(error, DatabaseUnavailable) else fault_of(self._path, error)
            raise ConfigurationError(
                f"[mcp] path: {fault}; without its pins every tool counts as listed for the first time"
            ) from error

    def load(self) -> dict[Names, Pin]:
        with self._transaction("begin") as db:
            rows = db.execute("select server, tool, pin from pins").fetchall()
        return {(server, tool): _read(pin) for server, tool, pin in rows}

    def edit(self, names: Names, edit: Edit) -> Pin | None:
        with self._transaction("begin immediate") as db:  # another process that edits waits until this edit is written
            row = db.execute("select pin from pins where server = ? and tool = ?", names).fetchone()
            after = edit(None if row is None else _read(row[0]))
            if after is None:
                db.execute("delete from pins where server = ? and tool = ?", names)
            else:
                db.execute("insert or replace into pins values (?, ?, ?)", (*names, _written(after)))
        return after

    def close(self) -> None:
        with self._lock:
            self._file.close()

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        with self._lock:
            if self._file.was_replaced():  # its pins may be fewer, and what they miss would count as never listed
                raise DatabaseUnavailable(0, f"{self._path} was replaced under the running gateway; restart it")
            try:
                opened = self._file.connection()
                opened.execute(begin)
                with opened as db:  # commits or rolls back
                    yield db
            except sqlite3.Error as error:
                raise fault_of(self._path, error) from error

    def _connected(self) -> sqlite3.Connection:
        if self._path is not None:
            make_private(self._path)
        db = sqlite3.connect(self._path or ":memory:", check_same_thread=False, isolation_level=None)
        with closed_on_error(db):
            db.executescript("pragma journal_mode = wal; pragma synchronous = full;")
            db.execute(
                "create table if not exists pins (server text not null, tool text not null, pin text not null, "
                "primary key (server, tool)) without rowid"
            )
        return db


class PostgresPinStore:
    """A `PinStore` that the gateways of a deployment share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def open(self) -> None:
        """Do nothing: its owner opens the database."""

    def load(self) -> dict[Names, Pin]:
        rows = self._database.execute("select server, tool, pin from sluicegate.mcp_pins").fetchall()
        return {(server, tool): _read(pin) for server, tool, pin in rows}

    def edit(self, names: Names, edit: Edit) -> Pin | None:
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 7))", ("/".join(names),))
            found = "select pin from sluicegate.mcp_pins where server = %s and tool = %s"
            row = db.execute(found, names).fetchone()
            after = edit(None if row is None else _read(row[0]))
            db.execute("delete from sluicegate.mcp_pins where server = %s and tool = %s", names)
            if after is not None:
                db.execute("insert into sluicegate.mcp_pins values (%s, %s, %s)", (*names, _written(after)))
            note_change(db, KIND)
        return after

    def close(self) -> None:
        """Do nothing, as `open`."""


def updated_pin(pin: Pin | None, definition: ToolDefinition, reasons: tuple[str, ...], *, trusted: bool) -> Pin:
    """Return the pin of a tool that was just listed with `definition`. `trusted`: a new definition without `reasons`
    against it needs no approval."""
    now = dict(definition.content)
    if pin is not None and pin.approved is not None and _same(pin.approved, now):
        return pin if pin.waiting is None else dataclasses.replace(pin, waiting=None, reasons=())
    if pin is not None and pin.waiting is not None and _same(pin.waiting, now):
        return pin
    if pin is not None and pin.denied == definition.fingerprint:
        return dataclasses.replace(pin, approved=None, waiting=None, reasons=())
    if pin is None and trusted and not reasons:
        return Pin(approved=now, at_s=time.time(), by="first listing")
    kept = pin.approved if pin is not None else None
    denied = pin.denied if pin is not None else ""
    changed = ("changed: " + ", ".join(_differing(kept, now)),) if kept is not None else ("new",)
    return Pin(kept, now, (*changed, *reasons), time.time(), pin.by if pin is not None else "", denied)


def _same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Compare by JSON equality: 1 is not true, and the order of keys does not matter."""
    return ToolDefinition("", one).canonical == ToolDefinition("", other).canonical


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return sorted(k for k in {*one, *other} if not _same({k: one.get(k)}, {k: other.get(k)}))


def _read(text: str) -> Pin:
    """Read a stored pin. An unreadable one approves nothing."""
    try:
        tree = json.loads(text)
        reasons = tuple(map(str, tree["reasons"]))
        pin = Pin(tree["approved"], tree["waiting"], reasons, float(tree["at_s"]), str(tree["by"]), str(tree["denied"]))
        if all(one is None or (isinstance(one, dict) and "name" in one) for one in (pin.approved, pin.waiting)):
            return pin
    except (ValueError, TypeError, KeyError):
        pass
    return Pin(reasons=("its pin could not be read",))


def _written(pin: Pin) -> str:
    return json.dumps(dataclasses.asdict(pin))
