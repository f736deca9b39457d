"""The response cache: exact answers, optionally answers to similar questions; in memory, in a file or in Redis."""

from typing import TYPE_CHECKING

from sluicegate.plugins.lazy import lazily

if TYPE_CHECKING:
    from sluicegate.cache.entries import (
        LABEL_KINDS,
        MAX_LABEL_CHARS,
        MAX_TAGS,
        CacheEntry,
        LookupResult,
        Store,
        label,
        labels_of,
    )
    from sluicegate.cache.key import cache_key, canonical, fingerprint
    from sluicegate.cache.lookup import CacheHit, CacheQuestion, Recall, SharedResult, question_of
    from sluicegate.cache.single_flight import Seat, SingleFlight
    from sluicegate.cache.stage import register
    from sluicegate.cache.stores.memory import MemoryCache
    from sluicegate.cache.stores.memory_store import MemoryStore
    from sluicegate.cache.stores.redis_client import Tls
    from sluicegate.cache.stores.redis_store import RedisStore
    from sluicegate.cache.stores.sealing import TenantSealer
    from sluicegate.cache.stores.sqlite_store import SqliteStore
    from sluicegate.cache.tiers import TieredCache, front

__all__ = [
    "LABEL_KINDS",
    "MAX_LABEL_CHARS",
    "MAX_TAGS",
    "CacheEntry",
    "CacheHit",
    "CacheQuestion",
    "LookupResult",
    "MemoryCache",
    "MemoryStore",
    "Recall",
    "RedisStore",
    "Seat",
    "SharedResult",
    "SingleFlight",
    "SqliteStore",
    "Store",
    "TenantSealer",
    "TieredCache",
    "Tls",
    "cache_key",
    "canonical",
    "fingerprint",
    "front",
    "label",
    "labels_of",
    "question_of",
    "register",
]

__getattr__ = lazily(
    __name__,
    {
        "CacheHit": "lookup",
        "CacheEntry": "entries",
        "LABEL_KINDS": "entries",
        "LookupResult": "entries",
        "MAX_LABEL_CHARS": "entries",
        "MAX_TAGS": "entries",
        "SharedResult": "lookup",
        "MemoryCache": "stores.memory",
        "MemoryStore": "stores.memory_store",
        "CacheQuestion": "lookup",
        "Recall": "lookup",
        "RedisStore": "stores.redis_store",
        "Seat": "single_flight",
        "SingleFlight": "single_flight",
        "SqliteStore": "stores.sqlite_store",
        "Store": "entries",
        "TenantSealer": "stores.sealing",
        "TieredCache": "tiers",
        "Tls": "stores.redis_client",
        "cache_key": "key",
        "canonical": "key",
        "fingerprint": "key",
        "front": "tiers",
        "label": "entries",
        "labels_of": "entries",
        "question_of": "lookup",
        "register": "stage",
    },
)
