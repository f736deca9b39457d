"""Exact answers kept in this process: a byte budget, least recently used out first, and a time to live.

Not covered: sharing between processes, and survival of a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock
from time import monotonic

from sluicegate.plugins import Answer, CacheKey

ENTRY_OVERHEAD_BYTES = 1000
"""Bytes of an entry besides its texts: key strings, tuples, the dataclasses, the dict slot; measured on CPython
3.11."""
LOGPROB_BYTES = 400


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    answers: tuple[Answer, ...]
    size_bytes: int
    expires_s: float


class MemoryCache:
    """Safe to use from any thread; every operation is short and takes one lock."""

    def __init__(self, budget_bytes: int, ttl_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._budget_bytes = budget_bytes
        self._ttl_s = ttl_s
        self._clock = clock
        self._entries: OrderedDict[CacheKey, MemoryEntry] = OrderedDict()
        self._used_bytes = 0
        self._lock = Lock()
        self._counts = dict.fromkeys(("hits", "misses", "stored", "refused", "evicted", "expired"), 0)

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry.expires_s <= self._clock():
                self._drop(key, "expired")
                entry = None
            self._counts["misses" if entry is None else "hits"] += 1
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry.answers

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        """Store complete answers only: every choice ended with `stop` and none was refused or withheld. An entry larger
        than the whole budget is not stored. A later store of the same key replaces the earlier one."""
        size = entry_bytes(key, answers)
        with self._lock:
            if not keepable(answers) or size > self._budget_bytes:
                self._counts["refused"] += 1
                return
            if key in self._entries:
                self._drop(key, None)
            self._make_room(size)
            self._entries[key] = MemoryEntry(answers, size, self._clock() + self._ttl_s)
            self._used_bytes += size
            self._counts["stored"] += 1

    def stats(self) -> Mapping[str, float]:
        """Return counters since the start, and the gauges `entries` and `bytes`."""
        with self._lock:
            counters = {f"{name}_total": count for name, count in self._counts.items()}
            return {**counters, "entries": len(self._entries), "bytes": self._used_bytes}

    def clear(self, tenant: str | None = None) -> int:
        """Remove one tenant's entries (None: all) and return how many there were."""
        with self._lock:
            doomed = [key for key in self._entries if tenant in (None, key.tenant)]
            for key in doomed:
                self._drop(key, None)
            return len(doomed)

    def _make_room(self, size: int) -> None:
        while self._entries and self._used_bytes + size > self._budget_bytes:
            self._drop(next(iter(self._entries)), "evicted")

    def _drop(self, key: CacheKey, counted_as: str | None) -> None:
        self._used_bytes -= self._entries.pop(key).size_bytes
        if counted_as is not None:
            self._counts[counted_as] += 1


def keepable(answers: tuple[Answer, ...]) -> bool:
    return bool(answers) and all(a.finish_reason in ("stop", "tool_calls") and a.refusal is None for a in answers)


def entry_bytes(key: CacheKey, answers: tuple[Answer, ...]) -> int:
    """Estimate the memory of an entry in bytes, at 4 bytes a character, the worst case."""
    texts = len(key.tenant) + len(key.model) + len(key.digest) + sum(map(_answer_bytes, answers))
    return ENTRY_OVERHEAD_BYTES + texts


def _answer_bytes(answer: Answer) -> int:
    calls = [text for call in answer.tool_calls for text in (call.name, call.arguments)]
    characters = sum(len(text) * (1 if text.isascii() else 4) for text in (answer.text, answer.reasoning, *calls))
    alternatives = sum(1 + len(logprob.top) for logprob in answer.logprobs)
    return characters + LOGPROB_BYTES * alternatives
