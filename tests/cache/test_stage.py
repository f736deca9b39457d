"""What the slot `recall` can be filled with, and what its settings refuse."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from sluicegate.cache import MemoryStore, TieredCache, front, register
from sluicegate.cache.semantic import HashedNgrams
from sluicegate.cache.settings import MemorySettings, RedisSettings, SemanticSettings, SqliteSettings, TlsSettings
from sluicegate.plugins import Answer, CacheKey, Caller, ConfigurationError, NotFound, Registry
from tests.cache.examples import ANSWERS, answer, asked


def build(name: str, settings: dict[str, Any]) -> Any:
    registry = Registry()
    registry.register_from("cache", register)
    return registry.build("recall", name, settings)


def make_embedder() -> HashedNgrams:
    return HashedNgrams(64)


def test_each_store_can_be_built(tmp_path: Path) -> None:
    assert isinstance(build("memory", {}), MemoryStore)
    assert not front(build("memory", {})).is_semantic
    assert front(build("memory", {"semantic": {}})).is_semantic
    assert isinstance(build("sqlite", {"path": str(tmp_path / "a.db"), "budget_mb": 1}), TieredCache)
    made = build("redis", {"url": "redis://localhost:1/0", "semantic": {"guard": "facts", "error_bound": 0.02}})
    assert made.is_semantic


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("memory", {"semantic": {"guard": "vibes"}}, "guard must be one of words, facts"),
        ("memory", {"semantic": {"threshold": 1.5}}, "threshold must be a number from 0 to 1"),
        ("memory", {"semantic": {"error_bound": 1}}, "error_bound must be a number from 0 below 1"),
        ("memory", {"semantic": {"embedder": "no_such_module:make"}}, "module:function"),
        ("memory", {"semantic": {"treshold": 1}}, "threshold"),
        ("memory", {"semantic": True}, "must be a table"),
        ("sqlite", {}, "path must name a file"),
        ("sqlite", {"path": "/no/such/folder/a.db"}, "folder that exists"),
        ("redis", {"url": "http://x"}, "url must begin with redis://"),
        ("redis", {"tls": {"ca": "x"}}, "ca_file"),
        ("redis", {"deadline_ms": 0}, "above 0"),
        ("redis", {"url": 5}, "url must be a string"),
        ("redis", {"secret_env": "NO_SUCH_VARIABLE_HERE"}, "HERE, which is not set; .*openssl rand"),
    ],
)
def test_wrong_settings_are_refused_with_what_to_do(name: str, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        build(name, settings)


def test_a_secret_that_is_not_hexadecimal_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CACHE_SECRET", "hunter2")
    with pytest.raises(ConfigurationError, match="CACHE_SECRET") as raised:
        build("redis", {"secret_env": "CACHE_SECRET"})
    assert "hunter2" not in str(raised.value)


def test_an_embedder_of_ones_own_is_named_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        __import__("sys").modules, "own_embedder", __import__("types").SimpleNamespace(make=make_embedder)
    )
    assert build("memory", {"semantic": {"embedder": "own_embedder:make"}}).is_semantic


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "cache.md").read_text("utf-8")
    kinds = (MemorySettings, SqliteSettings, RedisSettings, SemanticSettings, TlsSettings)
    for name in {field.name for kind in kinds for field in fields(kind)}:
        assert re.search(rf"\b{name}\b", text), name


class Stranger:
    """Somebody else's plug-in."""

    def __init__(self) -> None:
        self.kept: dict[CacheKey, tuple[Answer, ...]] = {}

    async def look_up(self, key: CacheKey) -> tuple[Answer, ...] | None:
        return self.kept.get(key)

    async def store(self, key: CacheKey, answers: tuple[Answer, ...]) -> None:
        self.kept[key] = answers


async def test_a_strangers_cache_works_but_withdraws_nothing() -> None:
    cache = front(Stranger())
    await cache.start()
    assert await cache.remember(asked(), ANSWERS, await cache.recall(asked()))
    found = (await cache.recall(asked())).found
    assert found is not None
    assert found.answers == ANSWERS
    with pytest.raises(NotFound, match="time to live"):
        await cache.purge(Caller("acme"), tenant="acme")
    await cache.close()


async def test_sealed_stores_need_a_secret_of_32_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography", reason="pip install 'sluicegate[encryption]'")
    monkeypatch.setenv("CACHE_SECRET", "ab" * 32)
    cache = build("sqlite", {"path": str(tmp_path / "a.db"), "secret_env": "CACHE_SECRET"})
    await cache.start()
    await cache.remember(asked(), answer("the secret"), await cache.recall(asked()))
    assert (await cache.recall(asked())).found is not None
    await cache.close()
    assert not holds(tmp_path, b"the secret")


def holds(folder: Path, text: bytes) -> bool:
    return any(text in path.read_bytes() for path in folder.iterdir())
