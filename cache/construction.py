"""Build caches from their settings."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from sluicegate.cache.entries import Store
from sluicegate.cache.semantic.embedder import Embedder, HashedNgrams, HashedSenses
from sluicegate.cache.semantic.judged.encoder_judge import EncoderJudge
from sluicegate.cache.semantic.judged.sameness import Sameness, ServedSameness, UpstreamSameness
from sluicegate.cache.semantic.model_embedders import FolderEmbedder, ServedEmbedder, UpstreamEmbedder
from sluicegate.cache.semantic.tier import SemanticTier
from sluicegate.cache.semantic.verified import VerifiedMode
from sluicegate.cache.settings import MemorySettings, RedisSettings, SemanticSettings, SqliteSettings
from sluicegate.cache.stores.codec import EntrySealer
from sluicegate.cache.stores.memory_store import MemoryStore
from sluicegate.cache.stores.redis_client import Tls
from sluicegate.cache.stores.redis_store import RedisStore
from sluicegate.cache.stores.sealing import TenantSealer
from sluicegate.cache.stores.sqlite_store import SqliteStore
from sluicegate.cache.tiers import TieredCache
from sluicegate.plugins.addresses import WEB, check_address, key_in
from sluicegate.plugins.errors import ConfigurationError
from sluicegate.plugins.settings import wrong_value


def memory(own: MemorySettings) -> MemoryStore | TieredCache:
    store = MemoryStore(int(own.budget_mb * 1_000_000), own.ttl_s)
    return store if own.semantic is None else TieredCache(store, _semantic("stages.recall.memory", own.semantic))


def sqlite(own: SqliteSettings) -> TieredCache:
    store = SqliteStore(Path(own.path), int(own.budget_mb * 1_000_000), own.ttl_s, sealer=_sealer(own.secret_env))
    return TieredCache(store, _semantic("stages.recall.sqlite", own.semantic))


def redis(own: RedisSettings) -> TieredCache:
    tls = own.tls
    store = RedisStore(
        own.url,
        own.ttl_s,
        prefix=own.prefix,
        tls=Tls(tls.ca_file or None, tls.cert_file or None, tls.key_file or None, tls.check_hostname),
        sealer=_sealer(own.secret_env),
        deadline_s=own.deadline_ms / 1000,
        vector_sets=own.search == "server",
    )
    return TieredCache(cast(Store, store), _semantic("stages.recall.redis", own.semantic))


def _semantic(where: str, own: SemanticSettings | None) -> SemanticTier | None:
    if own is None:
        return None
    named, key = own.embedder, key_in(own.embedder_key_env, f"{where}.semantic", "embedder_key_env")
    return SemanticTier(
        HashedSenses() if own.judge and not named else make_embedder(f"{where}.semantic", named, key),
        threshold=own.threshold or None,
        guard=own.guard,
        verified=VerifiedMode(own.error_bound) if own.error_bound else None,
        sameness=_sameness(f"{where}.semantic", own),
        max_rows_a_scope=own.max_rows,
        models=own.models,
    )


def _sameness(where: str, own: SemanticSettings) -> Sameness | None:
    """Return the configured judge of sameness; None where there is none. Raises `ConfigurationError`."""
    if not own.judge:
        return None
    kind, _, rest = own.judge.partition(":")
    limit_s = own.judge_budget_ms / 1000
    if kind == "served":
        return Sameness(ServedSameness(rest or None), budget_s=limit_s)
    if kind == "folder":
        with _named(where):
            return Sameness(EncoderJudge(Path(rest)), budget_s=limit_s)
    url, _, model = own.judge.partition("#")
    if kind not in WEB or not model:
        raise wrong_value(where, "judge", "served, served:MODEL, folder:PATH or URL#MODEL", own.judge)
    _check_address(where, "judge", own.judge)
    key = key_in(own.judge_key_env, where, "judge_key_env")
    return Sameness(UpstreamSameness(url, model, api_key=key, limit_s=limit_s), budget_s=limit_s)


def make_embedder(where: str, named: str, api_key: str | None) -> Embedder:
    """Return the embedder that settings name at `where`. Raises `ConfigurationError`."""
    kind, _, rest = named.partition(":")
    if not named:
        return HashedNgrams()
    if kind == "folder":
        with _named(where):
            return FolderEmbedder(Path(rest))
    if kind == "served":
        return ServedEmbedder(rest or None)
    if kind in WEB:
        url, _, model = named.partition("#")
        if not model:
            raise wrong_value(where, "embedder", "URL#MODEL, or another kind", named)
        _check_address(where, "embedder", named)
        return UpstreamEmbedder(url, model, api_key=api_key)
    return _imported(where, named)


@contextmanager
def _named(where: str) -> Iterator[None]:
    """Prefix what a folder lacks with the table of settings that names it."""
    try:
        yield
    except ConfigurationError as error:
        raise ConfigurationError(f"[{where}] {error}") from error


def _check_address(where: str, name: str, url: str) -> None:
    """Raise `ConfigurationError` for what is no address."""
    try:
        check_address(name, url)
    except ValueError as error:
        raise ConfigurationError(f"[{where}] {error}") from error


def _imported(where: str, named: str) -> Embedder:
    module, _, function = named.partition(":")
    try:
        return cast(Embedder, getattr(importlib.import_module(module), function)())
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise wrong_value(where, "embedder", f"'module:function' that makes one ({error})", named) from error


def _sealer(secret_env: str) -> EntrySealer | None:
    """Return a sealer. Its secret, in hexadecimal, is read from the environment variable `secret_env`, so that no
    settings file holds it. Raises `ConfigurationError`."""
    if not secret_env:
        return None
    found = os.environ.get(secret_env, "").strip()
    if not found:
        raise ConfigurationError(
            f"secret_env names the environment variable {secret_env}, which is not set; make a secret with "
            "`openssl rand -hex 32`, or leave secret_env out"
        )
    try:
        return TenantSealer(bytes.fromhex(found), f"the cache's secret in ${secret_env}")
    except ValueError as error:
        raise ConfigurationError(f"the cache's secret in ${secret_env} is not in hexadecimal digits") from error
