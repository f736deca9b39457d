"""Stores of changed weights: memory, a file of this machine, or a PostgreSQL that several gateways share.

Calls block; callers run them on threads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from sluicegate.gateway.database import Database, note_change
from sluicegate.plugins import ConfigurationError

log = logging.getLogger("sluicegate.routing")
KIND = "routes"


@dataclass(frozen=True, slots=True)
class RouteChange:
    weights: Mapping[str, float]
    at_s: float
    by: str

    @property
    def revision(self) -> str:
        """Return the name of the state that this change made: 16 hex digits, the same in every gateway."""
        said = json.dumps([dict(self.weights), self.at_s, self.by], sort_keys=True)
        return hashlib.sha256(said.encode()).hexdigest()[:16]


History = Sequence[RouteChange]
"""Changes of one public name; the last one is in force."""
Edit = Callable[[History], History]


class RouteStore(Protocol):
    def load(self) -> dict[str, History]:
        """Return what was changed, by public name. Raises `ConfigurationError` where it cannot be read."""

    def edit(self, name: str, edit: Edit, beginning: History) -> History:
        """Replace a history, `beginning` where there is none, by what `edit` makes of it, one caller after another;
        return it. What `edit` raises passes, and nothing has changed; so it is where an `OSError` is raised because the
        store takes no writes."""


class FileRouteStore:
    """A `RouteStore` in one JSON file; without a path, in memory."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found: dict[str, History] = {}
        self._lock = threading.Lock()

    def load(self) -> dict[str, History]:
        if self._path is not None and self._path.exists():
            try:
                kept = json.loads(self._path.read_text("utf-8"))
                self._found = {name: [RouteChange(**change) for change in changes] for name, changes in kept.items()}
            except (OSError, ValueError, TypeError, AttributeError) as error:
                raise ConfigurationError(
                    f"[routing] state: {self._path} cannot be read: {error}; mend or remove it"
                ) from error
        return dict(self._found)

    def edit(self, name: str, edit: Edit, beginning: History) -> History:
        with self._lock:
            after = edit(self._found.get(name, beginning))
            found = {**self._found, name: after}
            self._write(found)
            self._found = found
        return after

    def _write(self, found: Mapping[str, History]) -> None:
        if self._path is None:
            return
        kept = {name: [asdict(change) for change in history] for name, history in found.items()}
        beside = self._path.with_name(self._path.name + ".new")
        try:
            with beside.open("w", encoding="utf-8") as file:
                file.write(json.dumps(kept, indent=1))
                file.flush()
                os.fsync(file.fileno())  # a file without its content, as a power failure may leave it, stops the start
            os.replace(beside, self._path)
        except OSError:
            with contextlib.suppress(OSError):  # a full disk needs the room
                beside.unlink()
            raise


class PostgresRouteStore:
    """A `RouteStore`. Rows that no gateway wrote are left out, with a line in the log."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def load(self) -> dict[str, History]:
        found: dict[str, History] = {}
        for name, history in self._database.execute("select name, history from sluicegate.routes").fetchall():
            try:
                found[name] = _history(history)
            except (ValueError, TypeError) as error:
                log.error("the weights of route %r in the database cannot be read and do not count: %s", name, error)
        return found

    def edit(self, name: str, edit: Edit, beginning: History) -> History:
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 3))", (name,))
            row = db.execute("select history from sluicegate.routes where name = %s", (name,)).fetchone()
            after = edit(beginning if row is None else _history(row[0]))
            put = "insert into sluicegate.routes values (%s, %s) on conflict (name) do update set history = %s"
            kept = json.dumps([asdict(change) for change in after])
            db.execute(put, (name, kept, kept))
            note_change(db, KIND)
        return after


def _history(text: str) -> History:
    found = [RouteChange(dict(one["weights"]), float(one["at_s"]), str(one["by"])) for one in json.loads(text)]
    if not found:
        raise ValueError("an empty history")
    return found
