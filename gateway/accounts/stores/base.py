"""Protocol of the stores of keys and usage, and the one in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from sluicegate.gateway.accounts.records import KeyRecord, UsageKey, UsageSum, UsageTable, add_usage
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import RequestError

ChangeKey = Callable[[KeyRecord | None], KeyRecord]
"""Makes the new record of a key from the one that the store has; None = no key, or a row that is no key. May be called
several times. What it raises leaves the store as it is."""
Spent = Mapping[tuple[str, str], tuple[int, int]]
"""By ("key" | "team", name): billionths spent on a given day and in the month of that day."""


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a store's keys; unchanged means that they need not be read again."""

    origin: str
    """Created with the store and kept in it: a different or missing one means that the store was lost or replaced."""
    change: str
    """Changes with each change of a key or team."""


@dataclass(slots=True)
class ImplausibleRows:
    """Names of implausible rows found by the last reading. The rows stay in the store for a person to look at."""

    keys: frozenset[str] = frozenset()
    teams: frozenset[str] = frozenset()
    usage: int = 0


class AccountStore(Protocol):
    """Called beside the event loop: `version`, `keys` and `teams` from one thread, all else from another, so that who
    may ask is read while a flush hangs. Raises what its library raises; `add` and `put_team` may be repeated where
    their outcome is unknown."""

    set_aside: ImplausibleRows

    def open(self) -> None:
        """Open the store. Raises `ConfigurationError`."""

    def close(self) -> None: ...

    def version(self) -> Version: ...

    def keys(self) -> Sequence[KeyRecord]:
        """Return the keys whose record is plausible."""

    def teams(self) -> Mapping[str, Limits]: ...

    def edit_key(self, key_id: str, change: ChangeKey) -> KeyRecord:
        """Return what `change` makes of the key, after writing it: nobody else changes the key in between. Raises what
        `change` raises."""

    def put_team(self, name: str, limits: Limits) -> None: ...

    def applied(self, journal: str) -> int:
        """Return the number of the last segment of that journal whose sums are here."""

    def add(self, journal: str, segment: int, table: UsageTable) -> int:
        """Add sums, and note the segment, both or neither; a segment that is here already changes nothing. A row that
        cannot be added is set aside in the same act, and the others are added; how many were set aside."""

    def usage(self, since: str, until: str) -> UsageTable:
        """Return the usage of the days [since, until]."""

    def spent(self, day: str) -> Spent: ...


class MemoryAccountStore:
    """A store that keeps nothing: usage is lost at the end, and only the configuration has keys."""

    def __init__(self) -> None:
        self.set_aside = ImplausibleRows()
        self._usage: UsageTable = {}
        self._keys: dict[str, KeyRecord] = {}
        self._teams: dict[str, Limits] = {}
        self._changes = 0

    def open(self) -> None:
        """Do nothing: memory needs no opening."""

    def close(self) -> None:
        """Do nothing: memory needs no closing."""

    def version(self) -> Version:
        return Version("memory", str(self._changes))

    def keys(self) -> Sequence[KeyRecord]:
        return list(self._keys.values())

    def teams(self) -> Mapping[str, Limits]:
        return dict(self._teams)

    def edit_key(self, key_id: str, change: ChangeKey) -> KeyRecord:
        record = self._keys[key_id] = change(self._keys.get(key_id))
        self._changes += 1
        return record

    def put_team(self, name: str, limits: Limits) -> None:
        self._teams[name] = limits
        self._changes += 1

    def applied(self, journal: str) -> int:
        return 0

    def add(self, journal: str, segment: int, table: UsageTable) -> int:
        for key, usage in table.items():
            add_usage(self._usage, key, usage)
        return 0

    def usage(self, since: str, until: str) -> UsageTable:
        return {key: replace(usage) for key, usage in self._usage.items() if since <= key.day <= until}

    def spent(self, day: str) -> Spent:
        return spent_of(self._usage, day)


class KeyExists(RequestError):
    """There is a key of that id already, perhaps since a moment."""

    def __init__(self, key_id: str) -> None:
        super().__init__(f"there is a key {key_id!r} already; rotate it, or choose another id", param="id")


def creation(record: KeyRecord) -> ChangeKey:
    """Return the change that writes a new key. It raises `KeyExists`."""

    def change(before: KeyRecord | None) -> KeyRecord:
        if before is not None:
            raise KeyExists(record.id)
        return record

    return change


def spent_of(table: Mapping[UsageKey, UsageSum], day: str) -> Spent:
    """Add up the cost in `table` for the day and its month, by key and by team."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for key, usage in table.items():
        if key.day[:7] != day[:7]:
            continue
        today = usage.cost_nanos if key.day == day else 0
        for owner in (("key", key.key_id), ("team", key.team)):
            before = found.get(owner, (0, 0))
            found[owner] = (before[0] + today, before[1] + usage.cost_nanos)
    return found
