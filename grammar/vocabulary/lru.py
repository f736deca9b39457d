"""What is worth keeping, up to so many bytes: the least recently used goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Any

_OVERHEAD = 600
"""Number of bytes of an entry besides its arrays, as measured for the rest of a word: key, tuples, heads of arrays."""


class SizedLru:
    """A cache by key, bounded by the bytes that its callers state. Safe to use from several threads."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._entries: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Hashable) -> Any:
        """Return the value stored under `key`, or None."""
        found = self._entries.get(key)
        if found is None:
            return None
        try:
            self._entries.move_to_end(key)
        except KeyError:
            return found[0]  # another thread has just dropped it
        return found[0]

    def items(self) -> list[tuple[Hashable, Any]]:
        """Return all that is kept now, the least recently used first."""
        with self._lock:
            return [(key, value) for key, (value, _) in self._entries.copy().items()]

    def put(self, key: Hashable, value: Any, size: int) -> None:
        """Keep `value` under `key`. `size`: bytes of the arrays that are kept for `value` alone."""
        size += _OVERHEAD
        with self._lock:
            old = self._entries.pop(key, None)
            self.bytes += size - (old[1] if old is not None else 0)
            self._entries[key] = (value, size)
            while self.bytes > self.most_bytes and len(self._entries) > 1:
                self.bytes -= self._entries.popitem(last=False)[1][1]
