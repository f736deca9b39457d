"""Answers kept for later: exact ones always right, by meaning where asked, in memory, a file or Redis."""

from sluicegate.cache.entries import LABEL_KINDS, MAX_LABEL_CHARS, MAX_TAGS, Kept, Look, Store, label, labels_of
from sluicegate.cache.key import cache_key, canonical, fingerprint
from sluicegate.cache.lookup import Found, Made, Question, Recall, question_of
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
    "Found",
    "Kept",
    "Look",
    "Made",
    "MemoryCache",
    "MemoryStore",
    "Question",
    "Recall",
    "RedisStore",
    "Seat",
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
