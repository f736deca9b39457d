"""Answers kept for later: exact ones always right, by meaning where asked, in memory, a file or Redis."""

from cache.entries import LABEL_KINDS, MAX_LABEL_CHARS, MAX_TAGS, Kept, Look, Store, label, labels_of
from cache.key import cache_key, canonical, fingerprint
from cache.memory import MemoryCache
from cache.memory_store import MemoryStore
from cache.question import Found, Made, Question, Recall, question_of
from cache.redis_client import Tls
from cache.redis_store import RedisStore
from cache.sealing import TenantSealer
from cache.single_flight import Seat, SingleFlight
from cache.sqlite_store import SqliteStore
from cache.stage import register
from cache.tiers import TieredCache, front

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
