"""The memory cache as a `Store`: adds age, labels and generation cost to its entries."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from time import monotonic

from sluicegate.cache.entries import GENERATION, CacheEntry, IndexPoll, IndexRow, LookupResult, StoreTotals, same_epochs
from sluicegate.cache.stores.memory import MemoryCache
from sluicegate.plugins import Answer, CacheKey

NOTE_BYTES = 400
"""Bytes of an entry's labels, time and usage; charged to the budget in addition to what `MemoryCache` counts."""


class MemoryStore(MemoryCache):
    """Does not keep rows of the semantic index: the process that puts them has them already."""

    def __init__(self, budget_bytes: int, ttl_s: float, clock: Callable[[], float] = monotonic) -> None:
        super().__init__(budget_bytes, ttl_s, clock)
        self._notes: dict[CacheKey, CacheEntry] = {}
        self._epochs: dict[str | None, dict[str, int]] = {}
        self._purged = 0

    async def get(self, key: CacheKey, feed: IndexPoll | None = None) -> LookupResult:
        answers = await self.look_up(key)
        with self._lock:
            kept = self._notes.get(key) if answers is not None else None
            return LookupResult(kept, self._state(key.tenant), cursor=feed.cursor if feed else "")

    async def put(
        self,
        key: CacheKey,
        kept: CacheEntry,
        epochs: Mapping[str, str] | None,
        scope: str = "",
        row: IndexRow | None = None,
    ) -> bool:
        await super().store(key, kept.answers)
        with self._lock:
            if key not in self._entries:
                return False
            if epochs is not None and not same_epochs(kept.labels, epochs, self._state(key.tenant)):
                self._drop(key, None)
                return False
            self._notes[key] = kept
            return True

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        await self.put(key, CacheEntry(answers, time.time()), None)

    async def drop(self, key: CacheKey) -> None:
        with self._lock:
            if key in self._entries:
                self._drop(key, None)

    async def purge(self, tenant: str | None, label: str | None) -> int:
        with self._lock:
            raised = self._epochs.setdefault(tenant, {})
            raised[label or GENERATION] = raised.get(label or GENERATION, 0) + 1
            doomed = [
                k for k, kept in self._notes.items() if tenant in (None, k.tenant) and label in (None, *kept.labels)
            ]
            for key in doomed:
                self._drop(key, None)
            self._purged += len(doomed)
            return len(doomed)

    async def held(self, tenants: Iterable[str]) -> list[StoreTotals]:
        with self._lock:
            sizes = [(key.tenant, key.model, entry.size_bytes) for key, entry in self._entries.items()]
        found: dict[tuple[str, str], list[int]] = {}
        for tenant, model, size in sizes:
            counted = found.setdefault((tenant, model), [0, 0])
            counted[0] += 1
            counted[1] += size
        return [StoreTotals(*scope, entries, size) for scope, (entries, size) in sorted(found.items())]

    def stats(self) -> Mapping[str, float]:
        return {**super().stats(), "purged_total": self._purged}

    def _state(self, tenant: str) -> dict[str, str]:
        """Return the tenant's epochs. Each combines two counters: purges of the tenant, and purges of all tenants."""
        own, everyones = self._epochs.get(tenant, {}), self._epochs.get(None, {})
        return {name: f"{everyones.get(name, 0)}.{own.get(name, 0)}" for name in {*own, *everyones}}

    def _make_room(self, size: int) -> None:
        super()._make_room(size + NOTE_BYTES * (len(self._entries) + 1))

    def _drop(self, key: CacheKey, counted_as: str | None) -> None:
        super()._drop(key, counted_as)
        self._notes.pop(key, None)
