"""What keeps keys and usage: the Protocol, and the one that forgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from gateway.accounts.records import KeyRecord, Usage, UsageKey, UsageTable, add_usage
from gateway.settings import Limits

Spent = Mapping[tuple[str, str], tuple[int, int]]
"""By ("key" | "team", name): billionths spent in the day and in the month that a day lies in."""


class Store(Protocol):
    """Called beside the event loop, from one thread at a time. Raises `StoreFailed` where it cannot be reached."""

    def open(self) -> None: ...

    def close(self) -> None: ...

    def version(self) -> str:
        """Changes whenever a key or team has."""

    def keys(self) -> Sequence[KeyRecord]: ...

    def teams(self) -> Mapping[str, Limits]: ...

    def put_key(self, record: KeyRecord) -> None: ...

    def put_team(self, name: str, limits: Limits) -> None: ...

    def applied(self, journal: str) -> int:
        """The last segment of that journal whose sums are here."""

    def add(self, journal: str, segment: int, table: UsageTable) -> None:
        """Add sums, and note the segment, both or neither; a segment that is here already changes nothing."""

    def usage(self, since: str, until: str) -> UsageTable:
        """Of the days [since, until]."""

    def spent(self, day: str) -> Spent: ...


class MemoryStore:
    """No store: what is counted is forgotten at the end, and there are no keys but those of the configuration."""

    def __init__(self) -> None:
        self._usage: UsageTable = {}
        self._keys: dict[str, KeyRecord] = {}
        self._teams: dict[str, Limits] = {}
        self._changes = 0

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def version(self) -> str:
        return str(self._changes)

    def keys(self) -> Sequence[KeyRecord]:
        return list(self._keys.values())

    def teams(self) -> Mapping[str, Limits]:
        return dict(self._teams)

    def put_key(self, record: KeyRecord) -> None:
        self._keys[record.id] = record
        self._changes += 1

    def put_team(self, name: str, limits: Limits) -> None:
        self._teams[name] = limits
        self._changes += 1

    def applied(self, journal: str) -> int:
        return 0

    def add(self, journal: str, segment: int, table: UsageTable) -> None:
        for key, usage in table.items():
            add_usage(self._usage, key, usage)

    def usage(self, since: str, until: str) -> UsageTable:
        return {key: replace(usage) for key, usage in self._usage.items() if since <= key.day <= until}

    def spent(self, day: str) -> Spent:
        return spent_of(self._usage, day)


def spent_of(table: Mapping[UsageKey, Usage], day: str) -> Spent:
    """Sums of `table` for the day and its month."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for key, usage in table.items():
        if key.day[:7] != day[:7]:
            continue
        today = usage.cost_nanos if key.day == day else 0
        for owner in (("key", key.key_id), ("team", key.team)):
            before = found.get(owner, (0, 0))
            found[owner] = (before[0] + today, before[1] + usage.cost_nanos)
    return found
