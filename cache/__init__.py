"""Answers kept for later: exact matches, in memory."""

from cache.key import cache_key, canonical, fingerprint
from cache.memory import MemoryCache
from cache.stage import register

__all__ = ["MemoryCache", "cache_key", "canonical", "fingerprint", "register"]
