"""The door of this package: what it adds to the slot `recall`.

[stages.recall.redis]
url = "rediss://cache.example:6379/0"
ttl_s = 3600
[stages.recall.redis.semantic]           # opt-in; without this table exact answers only
guard = "words"
"""

from __future__ import annotations

from sluicegate.cache.settings import MemorySettings, RedisSettings, SqliteSettings
from sluicegate.plugins import RegistryLike
from sluicegate.plugins.settings import add_stage, later

CONSTRUCTION = "sluicegate.cache.construction"


def register(registry: RegistryLike) -> None:
    add_stage(registry, "recall", "memory", MemorySettings, later(CONSTRUCTION, "memory"))
    add_stage(registry, "recall", "sqlite", SqliteSettings, later(CONSTRUCTION, "sqlite"))
    add_stage(registry, "recall", "redis", RedisSettings, later(CONSTRUCTION, "redis"))
