"""The door of this package: what it adds to the slot `recall`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cache.memory import MemoryCache
from plugins.contract import RegistryLike
from plugins.errors import ConfigurationError

DEFAULTS: dict[str, float] = {"budget_mb": 64.0, "ttl_s": 3600.0}


def register(registry: RegistryLike) -> None:
    registry.add("recall", "memory", memory)


def memory(settings: Mapping[str, Any]) -> MemoryCache:
    """`budget_mb` (64) and `ttl_s` (3600), both positive numbers."""
    for key in settings:
        if key not in DEFAULTS:
            raise ConfigurationError(
                f"recall.memory: there is no setting {key!r}; valid settings: {', '.join(sorted(DEFAULTS))}"
            )
    values = {key: _positive(key, settings.get(key, default)) for key, default in DEFAULTS.items()}
    return MemoryCache(int(values["budget_mb"] * 1_000_000), values["ttl_s"])


def _positive(key: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigurationError(f"recall.memory: {key} must be a number above 0, found {value!r}")
    return float(value)
