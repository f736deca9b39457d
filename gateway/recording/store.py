"""Recorded requests in tables: facts in the clear, texts sealed under a key of each caller's. Calls block.

The caller's key lies beside, sealed under the operator's secret. Whoever deletes a caller deletes that key: copies of
the rows that were made before open no more. Not covered: sizes, times, models and keys' ids, which whoever reads the
tables sees; and copies that hold the sealed key as well, which is why backups leave both out.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate.cache.stores.sealing import TenantSealer
from sluicegate.gateway.database import Connection, Tables, pull_back
from sluicegate.plugins import ServiceError

KEY_BYTES = 32
KEYS = "recording keys"
UNREADABLE = (ValueError, TypeError)
"""Errors raised by bytes that this gateway did not write."""


class RecordingDamaged(ServiceError):
    """A recording cannot be read: its bytes or its key are damaged, or another release wrote it."""

    code = "recording_damaged"

    def __init__(self, id: str) -> None:
        super().__init__(
            f"recording {id[:100]!r} cannot be read: it or the key of its caller is damaged, or another release wrote "
            "it; others can be. DELETE /admin/recordings?id=ID removes it"
        )


@dataclass(frozen=True, slots=True)
class Recording:
    """`facts` hold no text; `body` does: `request` and `answers`."""

    id: str
    tenant: str
    key_id: str
    user: str
    facts: Mapping[str, Any]
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class ListedRecording:
    id: str
    at_s: float
    size: int
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Chosen:
    """Whose recordings; None: anybody's. `user` is one of `tenant`."""

    key_id: str | None = None
    tenant: str | None = None
    user: str | None = None


class RecordingStore:
    def __init__(self, tables: Tables, secret: bytes) -> None:
        """Prepare the store. Raises `ConfigurationError` for a secret that is too short, or without the package
        cryptography."""
        self._tables = tables
        self._secret = secret
        self._master = TenantSealer(secret, "[recording] secret")

    def add(self, found: Sequence[Recording]) -> list[Recording]:
        """Add recordings. Return those that were left out because the key of their caller is damaged: what it sealed
        would be lost with it."""
        left = []
        put = "insert into sluicegate.recordings values (%s, %s, %s, %s, %s, %s) on conflict (id) do nothing"
        with self._tables.transaction() as db:
            now = self._tables.now_s(db)
            for number, one in enumerate(found):
                subject = self._subject(one)
                try:
                    sealed = self._sealer(db, one, subject).seal(subject, one.body, one.id.encode())
                except UNREADABLE:
                    left.append(one)
                    continue
                at = now + number * 1e-6
                db.execute(put, (one.id, subject, at, len(sealed), json.dumps(dict(one.facts)), sealed))
        return left

    def listed(self, chosen: Chosen, since_s: float, limit: int) -> list[ListedRecording]:
        """List recordings, newest first; without facts where those cannot be read."""
        where, params = self._where(chosen)
        query = (
            "select id, at_s, size, record from sluicegate.recordings where at_s >= %s and subject in "
            f"(select subject from sluicegate.recording_keys where {where}) order by at_s desc limit %s"
        )
        with self._tables.transaction() as db:
            rows = db.execute(query, (since_s, *params, limit)).fetchall()
        return [ListedRecording(id, at_s, int(size), _facts(record)) for id, at_s, size, record in rows]

    def get(self, id: str) -> tuple[ListedRecording, Any] | None:
        """Return a recording with the body as it was. Raises `RecordingDamaged`."""
        query = (
            "select at_s, size, record, body, subject, sealed from sluicegate.recordings "
            "join sluicegate.recording_keys using (subject) where id = %s"
        )
        with self._tables.transaction() as db:
            row = db.execute(query, (id,)).fetchone()
        if row is None:
            return None
        at_s, size, record, body, subject, sealed = row
        try:
            own = TenantSealer(self._master.open(KEYS, bytes(sealed), subject.encode()))
            found = json.loads(own.open(subject, bytes(body), id.encode()))
        except UNREADABLE as error:
            raise RecordingDamaged(id) from error
        return ListedRecording(id, at_s, int(size), _facts(record)), found

    def delete(self, chosen: Chosen) -> int:
        """Delete all recordings of those callers, with their keys, and return how many there were."""
        where, params = self._where(chosen)
        with self._tables.transaction() as db:
            rows = db.execute(f"delete from sluicegate.recording_keys where {where} returning subject", params)
            subjects = [subject for (subject,) in rows.fetchall()]
            gone = "delete from sluicegate.recordings where subject = %s"
            return sum(db.execute(gone, (subject,)).rowcount for subject in subjects)

    def delete_one(self, id: str) -> int:
        with self._tables.transaction() as db:
            return db.execute("delete from sluicegate.recordings where id = %s", (id,)).rowcount

    def trim(self, keep_s: float, max_bytes: int) -> None:
        """Delete what is too old, then the oldest beyond `max_bytes`, and keys that seal nothing any more."""
        with self._tables.transaction() as db:
            now = self._tables.now_s(db)
            pull_back(db, "recordings", now)
            db.execute("delete from sluicegate.recordings where at_s < %s", (now - keep_s,))
            [(total,)] = db.execute("select coalesce(sum(size), 0) from sluicegate.recordings").fetchall()
            over = int(total) - max_bytes
            while over > 0:
                oldest = "select id, size from sluicegate.recordings order by at_s limit 200"
                for id, size in db.execute(oldest).fetchall():
                    if over > 0:
                        db.execute("delete from sluicegate.recordings where id = %s", (id,))
                        over -= int(size)
            db.execute(
                "delete from sluicegate.recording_keys where subject not in (select subject from sluicegate.recordings)"
            )

    def _sealer(self, db: Connection, one: Recording, subject: str) -> TenantSealer:
        """Return a sealer under the caller's own key, which is made where there is none."""
        query = "select sealed from sluicegate.recording_keys where subject = %s"
        row = db.execute(query, (subject,)).fetchone()
        if row is None:
            sealed = self._master.seal(KEYS, os.urandom(KEY_BYTES), subject.encode())
            put = "insert into sluicegate.recording_keys values (%s, %s, %s, %s, %s) on conflict (subject) do nothing"
            db.execute(put, (subject, self._name(one.tenant), one.key_id, self._person(one.tenant, one.user), sealed))
            row = db.execute(query, (subject,)).fetchone()
            assert row is not None
        return TenantSealer(self._master.open(KEYS, bytes(row[0]), subject.encode()))

    def _subject(self, one: Recording) -> str:
        return self._digest("subject", one.tenant, one.key_id, one.user)

    def _person(self, tenant: str, user: str) -> str:
        """Return a digest of the user's name. The name is personal, so nothing else of it is kept."""
        return self._digest("person", tenant, user)

    def _name(self, tenant: str) -> str:
        return self._digest("tenant", tenant)

    def _digest(self, *parts: str) -> str:
        return hmac.new(self._secret, json.dumps(parts).encode(), hashlib.sha256).hexdigest()

    def _where(self, chosen: Chosen) -> tuple[str, tuple[str, ...]]:
        found: dict[str, str] = {}
        if chosen.key_id is not None:
            found["key_id"] = chosen.key_id
        if chosen.tenant is not None:
            found["tenant"] = self._name(chosen.tenant)
            if chosen.user is not None:
                found["person"] = self._person(chosen.tenant, chosen.user)
        return " and ".join(f"{column} = %s" for column in found) or "1 = 1", tuple(found.values())


def _facts(record: str) -> dict[str, Any]:
    """Read the facts; empty where they cannot be read. Whoever asks for the recording gets the error."""
    try:
        found = json.loads(record)
    except UNREADABLE:
        return {}
    return found if isinstance(found, dict) else {}
