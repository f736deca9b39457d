"""Records of files and batches in PostgreSQL, and their bytes in a folder that all gateways of the deployment mount.

Every gateway takes calls for every file and batch. A batch is run by one gateway at a time, which holds it for
`lease_s` and renews that each second; a gateway that is gone loses what it held to whoever looks next. What it still
writes afterwards is refused, so that a line has one answer, whoever died or was stopped meanwhile.

Not covered: a line that was asked when its gateway died, or was cut off for longer than `lease_s`, is asked again.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from sluicegate.gateway.batches.file_store import FileStore
from sluicegate.gateway.batches.records import OPEN, BatchRecord, FileRecord, LineResult, Status, batch_of, file_of
from sluicegate.gateway.batches.stores.base import BatchMoved
from sluicegate.gateway.database import Connection, Database
from sluicegate.plugins import ConfigurationError

log = logging.getLogger("sluicegate.batches")
R = TypeVar("R", FileRecord, BatchRecord)
NAME = "deployment"
"""File in the folder that names the database to which the folder's files belong."""
UNFINISHED_S = 86400.0
"""Uploads of other gateways older than this are abandoned."""
PAGE = 200
"""Most results in memory at a time."""
_RESULT = ", ".join(f.name for f in fields(LineResult))
_OPEN = list(OPEN)


class PostgresBatchStore:
    """A `BatchStore`."""

    def __init__(self, database: Database, folder: Path, *, lease_s: float, places: int, keep_s: float) -> None:
        """Open the store and remove leftover files. `places` is how many batches this gateway takes at once, before it
        takes one at a time. Raises `ConfigurationError` where the folder is not the one of that database."""
        self.owner = uuid.uuid4().hex
        self._database = database
        self._lease_s = lease_s
        self._gap_s = max(0.6 * lease_s, lease_s - 1.5)
        """A longer gap between two renewals shows that the database was unreachable, or that this gateway stood
        still."""
        self._heard_s = time.monotonic()
        self._in_touch_since_s = -math.inf
        self._places = places
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._check_folder(folder / NAME)
        self.contents = FileStore(folder)
        known = {row[0] for row in database.execute("select id from sluicegate.files").fetchall()}
        self.contents.tidy(known, keep_s, UNFINISHED_S)

    def close(self) -> None:
        """Do nothing: the database is closed by whoever opened it."""

    # --- files ---

    def add_file(self, record: FileRecord, parts: Iterable[bytes], batch: BatchRecord) -> bool:
        """Write a file and return whether it has any bytes. The bytes get their name while the row of the batch is
        locked: a gateway that lost the batch cannot replace a file."""
        beside = f"{record.id}.{self.owner}"
        size = self.contents.prepare(beside, parts)
        try:
            if size:
                with self._database.transaction() as db:
                    self._lock(db, batch)
                    self.contents.publish(beside, record.id)
                    _name(db, replace(record, bytes=size))
        finally:
            self.contents.drop(beside)
        return bool(size)

    def name_file(self, record: FileRecord) -> None:
        with self._database.transaction() as db:
            _name(db, record)

    def file(self, file_id: str, tenant: str) -> FileRecord | None:
        query = "select record from sluicegate.files where id = %s and tenant = %s"
        return self._one(file_of, query, (file_id, tenant))

    def files(self, tenant: str) -> list[FileRecord]:
        query = "select record from sluicegate.files where tenant = %s order by created_s desc, id"
        return self._all(file_of, query, (tenant,))

    def kept(self, tenant: str) -> tuple[int, int]:
        query = "select count(*), coalesce(sum(bytes), 0) from sluicegate.files where tenant = %s"
        count, size = self._row(query, (tenant,))
        return int(count), int(size)

    def content(self, file_id: str) -> Path:
        return self.contents.path(file_id)

    def remove_file(self, file_id: str) -> str | None:
        with self._database.transaction() as db:
            db.execute("select 1 from sluicegate.files where id = %s for update", (file_id,))
            query = "select id from sluicegate.batches where input_file = %s and status = any(%s) limit 1"
            if needed := db.execute(query, (file_id, _OPEN)).fetchone():
                return str(needed[0])
            db.execute("delete from sluicegate.files where id = %s", (file_id,))
        self.contents.remove(file_id)
        return None

    def forget(self, before_s: int) -> None:
        old = self._database.execute("select id from sluicegate.files where created_s < %s", (before_s,)).fetchall()
        for (file_id,) in old:
            self.remove_file(file_id)
        gone = "delete from sluicegate.batches where created_s < %s and status <> all(%s)"
        self._database.execute(gone, (before_s, _OPEN))

    # --- batches ---

    def add_batch(self, record: BatchRecord, check: Callable[[int], None]) -> bool:
        with self._database.transaction() as db:
            db.execute("select pg_advisory_xact_lock(hashtextextended(%s, 0))", (f"batches of {record.tenant}",))
            query = "select count(*) from sluicegate.batches where tenant = %s and status = any(%s)"
            [(count,)] = db.execute(query, (record.tenant, _OPEN)).fetchall()
            check(int(count))
            named = "select 1 from sluicegate.files where id = %s and tenant = %s for share"
            if db.execute(named, (record.input_file_id, record.tenant)).fetchone() is None:
                return False
            db.execute(
                "insert into sluicegate.batches (id, tenant, created_s, status, input_file, record) "
                "values (%s, %s, %s, %s, %s, %s)",
                (record.id, record.tenant, record.created_s, record.status, record.input_file_id, _text(record)),
            )
        return True

    def batch(self, batch_id: str, tenant: str | None = None) -> BatchRecord | None:
        query = "select record from sluicegate.batches where id = %s and coalesce(tenant = %s, true)"
        return self._one(batch_of, query, (batch_id, tenant))

    def batches(self, tenant: str) -> list[BatchRecord]:
        query = "select record from sluicegate.batches where tenant = %s order by created_s desc, number desc"
        return self._all(batch_of, query, (tenant,))

    def remove_batch(self, batch_id: str) -> bool:
        query = "delete from sluicegate.batches where id = %s and status <> all(%s)"
        return bool(self._database.execute(query, (batch_id, _OPEN)).rowcount)

    def move(self, before: BatchRecord, after: BatchRecord) -> None:
        with self._database.transaction() as db:
            self._lock(db, before)
            _put(db, after)

    def end(self, before: BatchRecord, after: BatchRecord) -> None:
        with self._database.transaction() as db:
            self._lock(db, before)
            _put(db, after)
            db.execute("update sluicegate.batches set owner = null where id = %s", (after.id,))
            db.execute("delete from sluicegate.results where batch = %s", (after.id,))

    def cancel(self, batch_id: str, at_s: int) -> BatchRecord | None:
        with self._database.transaction() as db:
            row = db.execute("select record from sluicegate.batches where id = %s for update", (batch_id,)).fetchone()
            found = None if row is None else batch_of(row[0])
            if found is None or found.status not in OPEN or found.status == "cancelling":
                return found
            moved = replace(found, status="cancelling", times={**found.times, "cancelling_at": at_s})
            _put(db, moved)
            return moved

    # --- who runs them ---

    def take(self, held: Collection[str]) -> list[BatchRecord]:
        most = max(1, self._places - len(held)) if len(held) < 8 * self._places else 0
        taken = (
            "update sluicegate.batches set owner = %s, owned_until = clock_timestamp() + %s * interval '1 s' "
            "where id in (select id from sluicegate.batches where status = any(%s) and id <> all(%s) "
            "and (owner is null or owner = %s or (%s and clock_timestamp() > "
            "greatest(owned_until, pg_postmaster_start_time() + %s * interval '1 s'))) "
            "order by created_s, number limit %s for update skip locked) "
            "returning number, record"
        )
        leases = (self.owner, self._owners_could_renew(), self._lease_s)
        values = (self.owner, self._lease_s, _OPEN, list(held), *leases, most)
        rows = self._database.execute(taken, values).fetchall()
        return _readable(batch_of, [(record,) for _, record in sorted(rows)])

    def renew(self, held: Collection[str]) -> Mapping[str, Status]:
        renewed = (
            "update sluicegate.batches set owned_until = clock_timestamp() + %s * interval '1 s' "
            "where owner = %s and id = any(%s) and status = any(%s) returning id, status"
        )
        found = self._database.execute(renewed, (self._lease_s, self.owner, list(held), _OPEN)).fetchall()
        now_s = time.monotonic()
        if now_s - self._heard_s > self._gap_s:
            self._in_touch_since_s = now_s
        self._heard_s = now_s
        return dict(found)

    def _owners_could_renew(self) -> bool:
        """Return whether a lease that ran out did so while the database answered. If not, its owner may be alive, with
        lines under way and answers that wait to be written, and needs a moment to renew: this gateway is not the only
        one that lost the database."""
        now_s = time.monotonic()
        return now_s - self._heard_s <= self._gap_s and now_s - self._in_touch_since_s >= self._lease_s

    def give_back(self) -> None:
        self._database.execute("update sluicegate.batches set owner = null where owner = %s", (self.owner,))

    # --- results ---

    def add_result(self, batch_id: str, result: LineResult) -> None:
        values = (result.line, json.dumps(result.custom_id), result.status, result.body)
        tokens = (result.prompt_tokens, result.completion_tokens)
        added = (
            f"insert into sluicegate.results (batch, {_RESULT}) select %s, %s, %s, %s, %s, %s, %s "
            "where exists (select 1 from sluicegate.batches where id = %s and owner = %s) on conflict do nothing"
        )
        with self._database.transaction() as db:
            if db.execute(added, (batch_id, *values, *tokens, batch_id, self.owner)).rowcount:
                return
            there = "select 1 from sluicegate.results where batch = %s and line = %s"
            if db.execute(there, (batch_id, result.line)).fetchone() is None:
                raise BatchMoved(batch_id)

    def results(self, batch_id: str) -> Iterator[LineResult]:
        query = f"select {_RESULT} from sluicegate.results where batch = %s and line > %s order by line limit {PAGE}"
        last = -1
        while True:
            rows = self._database.execute(query, (batch_id, last)).fetchall()
            for line, custom_id, status, body, *tokens in rows:
                yield LineResult(line, json.loads(custom_id), status, bytes(body), *tokens)
            if len(rows) < PAGE:
                return
            last = rows[-1][0]

    def counts(self, batch_id: str) -> tuple[int, int, int, int]:
        query = (
            "select count(*), count(*) filter (where status = 200), coalesce(sum(prompt_tokens), 0), "
            "coalesce(sum(completion_tokens), 0) from sluicegate.results where batch = %s"
        )
        total, good, prompt, completion = (int(one) for one in self._row(query, (batch_id,)))
        return good, total - good, prompt, completion

    def done(self, batch_id: str) -> set[int]:
        rows = self._database.execute("select line from sluicegate.results where batch = %s", (batch_id,)).fetchall()
        return {row[0] for row in rows}

    # --- shared ---

    def _lock(self, db: Connection, before: BatchRecord) -> None:
        """Lock the row of a batch. Raises `BatchMoved` where its status or owner is another."""
        query = "select owner, status from sluicegate.batches where id = %s for update"
        if db.execute(query, (before.id,)).fetchone() != (self.owner, before.status):
            raise BatchMoved(before.id)

    def _row(self, query: str, values: tuple[object, ...]) -> tuple[Any, ...]:
        [row] = self._database.execute(query, values).fetchall()
        return row

    def _one(self, read: Callable[[Any], R], query: str, values: tuple[object, ...]) -> R | None:
        found = self._all(read, query, values)
        return found[0] if found else None

    def _all(self, read: Callable[[Any], R], query: str, values: tuple[object, ...]) -> list[R]:
        return _readable(read, self._database.execute(query, values).fetchall())

    def _check_folder(self, path: Path) -> None:
        """Check that the folder is the one of this database, and name it where neither has a name yet. Raises
        `ConfigurationError` for a folder of this machine alone, or of another deployment."""
        with self._database.transaction() as db:
            [(expected,)] = db.execute("select files from sluicegate.origin for update").fetchall()
            found = path.read_text("utf-8").strip() if path.exists() else ""
            if not expected and not found:
                expected = found = uuid.uuid4().hex
                path.write_text(found + "\n", "utf-8")
                os.chmod(path, 0o600)
                db.execute("update sluicegate.origin set files = %s", (found,))
        if found != expected:
            raise ConfigurationError(
                f"[batches] path: {str(path.parent)!r} is not the folder of this database's files ({path.name!r} in it "
                f"says {found or 'nothing'!r}, expected {expected or 'nothing'!r}); every gateway must mount the same "
                f"folder. If it was lost, write {expected!r} into {str(path)!r}: batches whose files are gone then fail"
            )


def _name(db: Connection, record: FileRecord) -> None:
    db.execute(
        "insert into sluicegate.files values (%s, %s, %s, %s, %s) "
        "on conflict (id) do update set bytes = excluded.bytes, record = excluded.record",
        (record.id, record.tenant, record.created_s, record.bytes, _text(record)),
    )


def _put(db: Connection, record: BatchRecord) -> None:
    query = "update sluicegate.batches set status = %s, record = %s where id = %s"
    db.execute(query, (record.status, _text(record), record.id))


def _text(record: FileRecord | BatchRecord) -> str:
    """Return the record as JSON in ASCII: PostgreSQL takes no NUL."""
    return json.dumps(asdict(record))


def _readable(read: Callable[[Any], R], rows: Iterable[tuple[Any, ...]]) -> list[R]:
    """Leave out what no gateway wrote."""
    found = []
    for row in rows:
        try:
            found.append(read(row[0]))
        except (ValueError, TypeError, RecursionError) as error:
            log.error("batches: a record cannot be read and is left out: %s", error)
    return found
