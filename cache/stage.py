"""The door of this package: what it adds to the slot `recall`.

[stages.recall.redis]
url = "rediss://cache.example:6379/0"
ttl_s = 3600
[stages.recall.redis.semantic]           # opt-in; without this table exact answers only
guard = "words"
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from sluicegate.cache.entries import Store
from sluicegate.cache.semantic.embedder import Embedder, HashedNgrams
from sluicegate.cache.semantic.model_embedders import FolderEmbedder, ServedEmbedder, UpstreamEmbedder
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.cache.semantic.verified import Verified
from sluicegate.cache.stores.codec import Sealer
from sluicegate.cache.stores.memory_store import MemoryStore
from sluicegate.cache.stores.redis_client import Tls
from sluicegate.cache.stores.redis_store import RedisStore
from sluicegate.cache.stores.sealing import TenantSealer
from sluicegate.cache.stores.sqlite_store import SqliteStore
from sluicegate.cache.tiers import TieredCache
from sluicegate.plugins.contract import RegistryLike
from sluicegate.plugins.errors import ConfigurationError

MEMORY: dict[str, Any] = {"budget_mb": 64.0, "ttl_s": 3600.0}
SQLITE: dict[str, Any] = {"budget_mb": 512.0, "path": "", "secret_env": "", "ttl_s": 86400.0}
REDIS: dict[str, Any] = {
    "deadline_ms": 20.0,
    "prefix": "sluicegate",
    "search": "process",
    "secret_env": "",
    "ttl_s": 3600.0,
    "tls": {},
    "url": "redis://localhost:6379/0",
}
SEMANTIC: dict[str, Any] = {
    "embedder": "",
    "embedder_key_env": "",
    "error_bound": 0.0,
    "guard": "words",
    "max_rows": 100_000,
    "models": [],
    "threshold": 0.0,
}
TLS: dict[str, Any] = {"ca_file": "", "cert_file": "", "check_hostname": True, "key_file": ""}


def register(registry: RegistryLike) -> None:
    registry.add("recall", "memory", memory)
    registry.add("recall", "sqlite", sqlite)
    registry.add("recall", "redis", redis)


def memory(settings: Mapping[str, Any]) -> MemoryStore | TieredCache:
    """`budget_mb` (64) and `ttl_s` (3600), both positive numbers; `semantic`, a table."""
    own, semantic = _checked("recall.memory", MEMORY, settings)
    store = MemoryStore(int(own["budget_mb"] * 1_000_000), own["ttl_s"])
    return store if semantic is None else TieredCache(store, semantic)


def sqlite(settings: Mapping[str, Any]) -> TieredCache:
    """`path` of the file, in a folder that exists; `budget_mb` (512), `ttl_s` (86400), `secret_env`, `semantic`."""
    own, semantic = _checked("recall.sqlite", SQLITE, settings)
    path = Path(own["path"])
    if not own["path"] or not path.parent.is_dir():
        raise ConfigurationError(f"recall.sqlite: path must name a file in a folder that exists, found {own['path']!r}")
    store = SqliteStore(path, int(own["budget_mb"] * 1_000_000), own["ttl_s"], sealer=_sealer(own["secret_env"]))
    return TieredCache(store, semantic)


def redis(settings: Mapping[str, Any]) -> TieredCache:
    """`url` (see `cache.stores.redis_client`), `ttl_s` (3600), `prefix`, `deadline_ms` (20), `tls`, `secret_env`,
    `search` (process, or server: its vector sets), `semantic`."""
    own, semantic = _checked("recall.redis", REDIS, settings)
    if own["search"] not in ("process", "server"):
        raise ConfigurationError(f"recall.redis: search must be 'process' or 'server', found {own['search']!r}")
    tls = _values("recall.redis.tls", TLS, own["tls"])
    store = RedisStore(
        own["url"],
        own["ttl_s"],
        prefix=own["prefix"],
        tls=Tls(tls["ca_file"] or None, tls["cert_file"] or None, tls["key_file"] or None, tls["check_hostname"]),
        sealer=_sealer(own["secret_env"]),
        deadline_s=own["deadline_ms"] / 1000,
        vector_sets=own["search"] == "server",
    )
    return TieredCache(cast(Store, store), semantic)


def _checked(
    where: str, defaults: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], SemanticTier | None]:
    own = {name: value for name, value in settings.items() if name != "semantic"}
    semantic = settings.get("semantic")
    return _values(where, defaults, own, "semantic"), None if semantic is None else _semantic(where, semantic)


def _semantic(where: str, settings: Mapping[str, Any]) -> SemanticTier:
    """`guard` (words or facts), `threshold` (cosine; 0 = the embedder's own), `error_bound` (0 = not in verified
    mode), `max_rows` a scope, `embedder` (see `_embedder`), `models` whose requests are answered by meaning without
    asking for it ("*" = all)."""
    if not isinstance(settings, Mapping):
        raise ConfigurationError(f"{where}: semantic must be a table, found {settings!r}; an empty one will do")
    values = _values(f"{where}.semantic", SEMANTIC, settings)
    if values["guard"] not in ("words", "facts"):
        raise ConfigurationError(f"{where}.semantic: guard must be 'words' or 'facts', found {values['guard']!r}")
    if not values["threshold"] <= 1 or not values["error_bound"] < 1:
        raise ConfigurationError(f"{where}.semantic: threshold is at most 1 and error_bound below 1")
    return SemanticTier(
        _embedder(where, values["embedder"], os.environ.get(values["embedder_key_env"])),
        threshold=values["threshold"] or None,
        guard=values["guard"],
        verified=Verified(values["error_bound"]) if values["error_bound"] else None,
        max_rows_a_scope=int(values["max_rows"]),
        models=values["models"],
    )


def _embedder(where: str, named: str, api_key: str | None) -> Embedder:
    """Empty = hashed n-grams; `folder:PATH`; `served` or `served:MODEL`; the URL of an embeddings API with its model
    after `#`; or `module:function` of one's own, called without arguments."""
    kind, _, rest = named.partition(":")
    if not named:
        return HashedNgrams()
    if kind == "folder":
        return FolderEmbedder(Path(rest))
    if kind == "served":
        return ServedEmbedder(rest or None)
    if kind in ("http", "https"):
        url, _, model = named.partition("#")
        if not model:
            raise ConfigurationError(f"{where}.semantic: embedder {named!r} names no model; write URL#MODEL")
        return UpstreamEmbedder(url, model, api_key=api_key)
    return _imported(where, named)


def _imported(where: str, named: str) -> Embedder:
    module, _, function = named.partition(":")
    try:
        return cast(Embedder, getattr(importlib.import_module(module), function)())
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(
            f"{where}.semantic: embedder {named!r} cannot be made ({error}); write 'module:function'"
        ) from error


def _sealer(secret_env: str) -> Sealer | None:
    """The secret, in hexadecimal digits, is read from the environment so that it stands in no file of settings."""
    if not secret_env:
        return None
    try:
        return TenantSealer(bytes.fromhex(os.environ.get(secret_env, "")))
    except ValueError as error:
        raise ConfigurationError(f"the cache's secret in ${secret_env} is not in hexadecimal digits") from error


def _values(where: str, defaults: Mapping[str, Any], settings: Mapping[str, Any], *more: str) -> dict[str, Any]:
    for name in settings:
        if name not in defaults:
            valid = ", ".join((*sorted(defaults), *more))
            raise ConfigurationError(f"{where}: there is no setting {name!r}; valid settings: {valid}")
    return {name: _value(where, name, default, settings.get(name, default)) for name, default in defaults.items()}


def _value(where: str, name: str, default: Any, value: Any) -> Any:
    """Of the default's type; a number above 0, unless its default is 0."""
    if isinstance(default, float | int) and not isinstance(default, bool):
        if isinstance(value, bool) or not isinstance(value, int | float) or not (value > 0 or value == default):
            raise ConfigurationError(f"{where}: {name} must be a number above 0, found {value!r}")
        return float(value)
    if isinstance(default, list) and not (isinstance(value, list | tuple) and all(isinstance(v, str) for v in value)):
        raise ConfigurationError(f"{where}: {name} must be a list of strings, found {value!r}")
    if not isinstance(value, Mapping if isinstance(default, dict) else type(default)):
        raise ConfigurationError(f"{where}: {name} must be a {type(default).__name__}, found {value!r}")
    return value
