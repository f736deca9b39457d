"""What every store promises alike: memory, a SQLite file, Redis."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from sluicegate.cache import MemoryStore, RedisStore, SqliteStore, TenantSealer, TieredCache, label
from sluicegate.plugins import Answer, Caller, PermissionDenied, Usage
from tests.cache.examples import ANSWERS, answer, asked
from tests.cache.redis_server import RedisServer, needs_redis

SECRET = bytes(range(32))
KINDS = [
    "memory",
    "sqlite",
    "sqlite-sealed",
    pytest.param("redis", marks=needs_redis),
    pytest.param("redis-sealed", marks=needs_redis),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    running.start()
    yield running
    running.kill()


@pytest.fixture(params=KINDS)
async def cache(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[TieredCache]:
    kind, _, sealed = request.param.partition("-")
    sealer = TenantSealer(SECRET) if sealed else None
    if kind == "memory":
        store: Any = MemoryStore(10_000_000, 60)
    elif kind == "sqlite":
        store = SqliteStore(tmp_path / "answers.db", 10_000_000, 60, sealer=sealer, deadline_s=2)
    else:
        running = request.getfixturevalue("server")
        running.ask("FLUSHALL")
        store = RedisStore(running.url, 60, sealer=sealer, deadline_s=2)
    made = TieredCache(store)
    await made.start()
    yield made
    await made.close()


async def keep(cache: TieredCache, *names: Any, **named: Any) -> None:
    question = asked(*names, **named)
    recall = await cache.recall(question)
    assert recall.found is None
    assert await cache.remember(question, ANSWERS, recall, Usage(11, 5))


async def test_an_answer_comes_back_as_it_was_with_age_and_cost(cache: TieredCache) -> None:
    await keep(cache)
    found = (await cache.recall(asked())).found
    assert found is not None
    assert found.answers == ANSWERS
    assert found.usage == Usage(11, 5)
    assert 0 <= found.age_s < 5
    assert found.headers() == {"x-sluicegate-cache": "hit", "x-sluicegate-cache-entry": found.entry, "age": "0"}
    assert cache.stats()["saved_tokens_total"] == 16


async def test_entries_are_counted_by_tenant(cache: TieredCache) -> None:
    """A store that keeps digests of names alone tells those that it is given, and the others under their digests."""
    assert await cache.held(()) == []
    await keep(cache, tenant="north")
    await keep(cache, tenant="north", text="another")
    await keep(cache, tenant="south")
    held = await cache.held(["north"])
    assert held is not None
    assert {one.entries for one in held} == {1, 2}
    assert [one.tenant for one in held if one.entries == 2] == ["north"]
    [other] = [one.tenant for one in held if one.entries == 1]
    assert other == "south" or other.startswith("digest ")


async def test_plain_look_ups_by_key_work_too(cache: TieredCache) -> None:
    key = asked().key
    assert await cache.look_up(key) is None
    await cache.store(key, ANSWERS)
    assert await cache.look_up(key) == ANSWERS


async def test_other_tenants_models_and_versions_find_nothing(cache: TieredCache) -> None:
    await keep(cache)
    for other in ({"tenant": "b"}, {"model": "n"}, {"model_version": "2"}, {"rails": "r"}, {"template_version": "t"}):
        assert (await cache.recall(asked(**other))).found is None


@pytest.mark.parametrize(
    "answers",
    [(), (Answer(0, "cut", "length"),), (Answer(0, "x", "content_filter"),), (Answer(0, "", "stop", refusal="no"),)],
)
async def test_blocked_cut_and_empty_answers_are_never_kept(cache: TieredCache, answers: tuple[Answer, ...]) -> None:
    recall = await cache.recall(asked())
    assert not await cache.remember(asked(), answers, recall)
    await cache.store(asked().key, answers)
    assert (await cache.recall(asked())).found is None


@pytest.mark.parametrize(
    ("withdrawn", "hit", "spared"),
    [
        (label("tag", "doc-1"), {"tags": ["doc-1", "x"]}, {"tags": ["doc-2"]}),
        (label("model_version", "1"), {}, {"model_version": "2"}),
        (label("template_version", "t1"), {"template_version": "t1"}, {"template_version": "t2"}),
        (label("rails", "r1"), {"rails": "r1"}, {"rails": "r2"}),
        (None, {}, {"tenant": "other"}),
    ],
)
async def test_a_purge_withdraws_what_has_the_label_and_nothing_else(
    cache: TieredCache, withdrawn: str | None, hit: dict[str, Any], spared: dict[str, Any]
) -> None:
    await keep(cache, "one", **hit)
    await keep(cache, "two", **spared)
    assert await cache.purge(Caller("acme"), tenant="acme", label=withdrawn) == 1
    assert (await cache.recall(asked("one", **hit))).found is None
    assert (await cache.recall(asked("two", **spared))).found is not None
    await keep(cache, "one", **hit)
    assert (await cache.recall(asked("one", **hit))).found is not None


async def test_a_tenant_may_withdraw_its_own_only(cache: TieredCache) -> None:
    await keep(cache, tenant="a", tags=["shared"])
    for tenant in ("a", None):
        with pytest.raises(PermissionDenied, match="ask an operator"):
            await cache.purge(Caller("b"), tenant=tenant)
    with pytest.raises(PermissionDenied):
        await cache.report(Caller("b"), asked(tenant="a").key)
    assert await cache.purge(Caller("b"), tenant="b", label=label("tag", "shared")) == 0
    assert (await cache.recall(asked(tenant="a"))).found is not None


async def test_an_operator_may_withdraw_everyones(cache: TieredCache) -> None:
    await keep(cache, tenant="a")
    await keep(cache, tenant="b")
    await keep(cache, tenant="c", model_version="2")
    admin = Caller("ops", scopes=frozenset({"admin"}))
    assert await cache.purge(admin, tenant=None, label=label("model_version", "1")) == 2
    assert (await cache.recall(asked(tenant="a"))).found is None
    assert (await cache.recall(asked(tenant="c", model_version="2"))).found is not None
    assert await cache.purge(admin, tenant=None) == 1


@pytest.mark.parametrize("named", [label("tag", "t"), None])
@pytest.mark.parametrize("tenant", ["acme", None])
async def test_what_was_being_made_while_it_was_withdrawn_is_not_kept(
    cache: TieredCache, named: str | None, tenant: str | None
) -> None:
    question = asked(tags=["t"])
    before = await cache.recall(question)
    await cache.purge(Caller("ops", scopes=frozenset({"admin"})), tenant=tenant or "acme", label=named)
    await cache.remember(question, ANSWERS, before)
    assert (await cache.recall(question)).found is None


async def test_a_false_hit_that_is_reported_is_gone(cache: TieredCache) -> None:
    await keep(cache)
    await cache.report(Caller("acme"), asked().key)
    assert (await cache.recall(asked())).found is None
    assert cache.stats()["false_hit_reports_total"] == 1


async def test_the_last_to_keep_an_answer_wins(cache: TieredCache) -> None:
    question = asked()
    first, second = await cache.recall(question), await cache.recall(question)
    await cache.remember(question, answer("one"), first)
    await cache.remember(question, answer("two"), second)
    assert await cache.look_up(question.key) == answer("two")


async def test_many_at_once(cache: TieredCache) -> None:
    async def one(number: int) -> None:
        await keep(cache, f"question {number}")
        found = (await cache.recall(asked(f"question {number}"))).found
        assert found is not None
        assert found.answers == ANSWERS

    await asyncio.gather(*(one(number) for number in range(50)))


def test_too_many_tags_are_refused() -> None:
    with pytest.raises(ValueError, match="32 tags"):
        asked(tags=[str(n) for n in range(33)])
