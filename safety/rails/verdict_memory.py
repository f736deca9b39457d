"""Cache a rail's verdicts that depend on the text alone, least recently used out first.

With every request a conversation repeats its earlier turns and an application its schemas; each is judged once. The
cache is separate for each tenant, so that no tenant can learn from a verdict's timing what another one sent.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Generic, TypeVar

T = TypeVar("T")
ENTRIES = 8_192
"""Maximum entries, of 16 bytes and a small verdict each: about 2 MB a rail."""


class Remembered(Generic[T]):
    """Verdicts by digest of their texts. Thread-safe."""

    def __init__(self, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._secret = os.urandom(16)
        self._verdicts: OrderedDict[bytes, T] = OrderedDict()
        self._lock = threading.Lock()

    def key(self, tenant: str, texts: Iterable[str]) -> bytes:
        """Return the key of these texts, in this order, for this tenant."""
        digest = hashlib.blake2b(digest_size=16, key=self._secret)
        for text in (tenant, *texts):
            said = text.encode("utf-8", "surrogatepass")
            digest.update(b"%d:" % len(said))
            digest.update(said)
        return digest.digest()

    def find(self, key: bytes) -> T | None:
        with self._lock:
            found = self._verdicts.get(key)
            if found is not None:
                self._verdicts.move_to_end(key)
            return found

    def keep(self, key: bytes, verdict: T) -> None:
        with self._lock:
            self._verdicts[key] = verdict
            self._verdicts.move_to_end(key)
            if len(self._verdicts) > self._entries:
                self._verdicts.popitem(last=False)

    def __len__(self) -> int:
        return len(self._verdicts)
