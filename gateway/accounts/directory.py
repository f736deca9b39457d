"""Poll the store for keys and teams; keys that the store lost are served for a while longer."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sluicegate.gateway.accounts.health import RETRY_S, Health, fault_of_store
from sluicegate.gateway.accounts.keyring import Keyring
from sluicegate.gateway.accounts.records import KeyRecord
from sluicegate.gateway.accounts.stores.base import AccountStore, ImplausibleRows, Version
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import BooksUnavailable, Caller

NOTHING = Version("", "")


@dataclass(frozen=True, slots=True)
class StoreSnapshot:
    """One reading of the store."""

    version: Version
    keys: Sequence[KeyRecord]
    teams: Mapping[str, Limits]
    strange: ImplausibleRows


class RunOnReader(Protocol):
    """Calls the store on the thread that only reads keys."""

    def __call__(
        self, call: Callable[..., StoreSnapshot | None], *arguments: object
    ) -> Awaitable[StoreSnapshot | None]: ...


class Directory:
    """Used on the event loop. Implausible rows, and all rows of a store that was emptied, keep their last known value
    for `keep_s`; a row deleted from an otherwise unchanged store is gone at once."""

    def __init__(
        self,
        store: AccountStore,
        keyring: Keyring,
        teams: Mapping[str, Limits],
        health: Health,
        keep_s: float,
        read: RunOnReader,
    ) -> None:
        """Build a directory with no key read yet. `teams` come from the configuration and override the store's."""
        self.teams: dict[str, Limits] = dict(teams)
        self._fixed_teams = dict(teams)
        self._store = store
        self._keyring = keyring
        self._health = health
        self._keep_s = keep_s
        self._read = read
        self._version = NOTHING
        self._origin = ""
        self._keys: dict[str, KeyRecord] = {}
        self._doubtful: dict[str, float] = {}
        self._forgotten: list[str] = []
        """Keys that are revoked although the store reports them as valid."""
        self._unreadable_teams: frozenset[str] = frozenset()

    async def refresh(self) -> bool:
        """Read the store again if it changed; return whether anything is new."""
        began_s = time.monotonic()  # a clock that is set must neither shut out all keys nor keep revoked ones
        try:
            found = await self._read(self._look, self._version)
        except Exception as error:
            self._failed(error)
            raise
        self._keyring.good_until_s = began_s + self._keep_s
        if found is None:
            self._say(found)
            return False
        self._take(found, began_s)
        self._say(found)
        return True

    def limits_of(self, kind: str, name: str) -> Limits:
        """Return the limits of a key or a team. `kind` is "key" or "team"."""
        if kind == "team":
            return self.teams.get(name, Limits())
        record = self._keyring.records.get(name)
        return record.limits if record is not None else Limits()

    def limits(self) -> Iterator[tuple[str, str, Limits]]:
        """Yield the limits of all keys and teams, each with its kind and name."""
        yield from (("key", name, record.limits) for name, record in self._keyring.records.items())
        yield from (("team", name, limits) for name, limits in self.teams.items())

    def check(self, caller: Caller) -> None:
        """Raise `BooksUnavailable` for a team whose limits the store keeps and nobody can read."""
        if self._unreadable_teams and caller.team in self._unreadable_teams:
            message = f"the limits of team {caller.team!r} cannot be read from the store; set them again"
            raise BooksUnavailable(message, retry_after_s=RETRY_S)

    def _look(self, known: Version) -> StoreSnapshot | None:
        """Read keys and teams, or return None where the store is still at `known`. Runs on the reader's thread."""
        version = self._store.version()
        if version == known:
            return None
        keys, teams = self._store.keys(), self._store.teams()
        strange = self._store.set_aside
        return StoreSnapshot(version, keys, teams, ImplausibleRows(strange.keys, strange.teams))

    def _take(self, found: StoreSnapshot, now_s: float) -> None:
        keys = {record.id: self.still_revoked(record) for record in found.keys}
        self._forgotten = [record.id for record in found.keys if keys[record.id] is not record]
        lost = self._is_lost(found)
        gone = [name for name in self._keys if name not in keys and (lost or name in found.strange.keys)]
        fresh = [name for name in gone if name not in self._doubtful]
        self._doubtful = {name: self._doubtful.get(name, now_s + self._keep_s) for name in gone}
        self._health.counts["keys_lost"] += len(fresh)
        self._health.set_aside("keys_set_aside", len(found.strange.keys) + len(found.strange.teams), "`keys`, `teams`")
        self._keys = {**{name: self._keys[name] for name in gone}, **keys}
        self._keyring.replace(self._keys.values(), self._doubtful)
        kept = {name: limits for name, limits in self.teams.items() if lost or name in found.strange.teams}
        self._unreadable_teams = found.strange.teams - kept.keys() - self._fixed_teams.keys()
        self.teams = {**kept, **found.teams, **self._fixed_teams}
        self._version = found.version
        self._origin = self._origin or found.version.origin

    def still_revoked(self, record: KeyRecord) -> KeyRecord:
        """Return `record`, revoked if that key was ever seen revoked: a revocation is for good, even where a store was
        put back to an earlier state. A new key of the same name is another key."""
        known = self._keys.get(record.id)
        if known is None or known.revoked_at_s is None or record.revoked_at_s is not None:
            return record
        is_new = record.digest not in (known.digest, known.previous_digest)
        return record if is_new else replace(record, revoked_at_s=known.revoked_at_s)

    def _is_lost(self, found: StoreSnapshot) -> bool:
        """Return whether the store was replaced, or lost all of its keys."""
        replaced = bool(self._origin) and found.version.origin != self._origin
        return replaced or (bool(self._keys) and not found.keys)

    def _say(self, found: StoreSnapshot | None) -> None:
        """Report invalid keys as a trouble until they are corrected."""
        notes = []
        if self._doubtful:
            notes.append(
                f"the store lost {len(self._doubtful)} keys that were not revoked; they are served for "
                f"{self._keep_s:.0f} s more at most: bring its data back, or make them anew and restart"
            )
        if self._forgotten:
            names = ", ".join(map(ascii, sorted(self._forgotten)[:5]))
            notes.append(f"the store forgot that {len(self._forgotten)} keys are revoked; revoke them again: {names}")
        if strange := (found.strange if found is not None else self._store.set_aside):
            rows = sorted(strange.keys | strange.teams)
            if rows:
                notes.append(f"{len(rows)} rows of keys and teams are not believed: {', '.join(map(ascii, rows[:5]))}")
        if notes:
            self._health.begin("keys", "; ".join(notes))
        else:
            self._health.end("keys")

    def _failed(self, error: Exception) -> None:
        self._health.counts["refresh_failures"] += 1
        reason = (
            f"keys cannot be read ({fault_of_store(error)}); the last known are served for {self._keep_s:.0f} s at most"
        )
        self._health.begin("keys", reason, error)
