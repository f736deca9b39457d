"""Exact answers in memory: what is kept, for whom, and for how long."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.cache import MemoryCache, cache_key, canonical, register
from sluicegate.plugins import (
    Answer,
    CacheKey,
    Caller,
    ConfigurationError,
    Constraint,
    Message,
    Registry,
    Request,
    Sampling,
)

REQUEST = Request(id="1", model="alias", messages=(Message("system", "be brief"), Message("user", "hi")))
ANSWERS = (Answer(0, "hello", "stop"),)


def key(request: Request = REQUEST, tenant: str = "t", **named: Any) -> CacheKey:
    return cache_key(request, Caller(tenant), **({"model": "m", "model_version": "1"} | named))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_what_was_stored_is_found_again() -> None:
    cache = MemoryCache(1_000_000, 60)
    assert await cache.look_up(key()) is None
    await cache.store(key(), ANSWERS)
    assert await cache.look_up(key()) == ANSWERS
    assert cache.stats() | {"bytes": 0} == {
        "hits_total": 1, "misses_total": 1, "stored_total": 1, "refused_total": 0, "evicted_total": 0,
        "expired_total": 0, "entries": 1, "bytes": 0,
    }  # fmt: skip


async def test_a_tenant_never_sees_anothers_answers() -> None:
    cache = MemoryCache(1_000_000, 60)
    await cache.store(key(tenant="a"), ANSWERS)
    assert await cache.look_up(key(tenant="b")) is None
    assert cache.clear("b") == 0
    assert cache.clear("a") == 1


@pytest.mark.parametrize(
    "answers",
    [
        (),
        (Answer(0, "cut", "length"),),
        (Answer(0, "a", "content_filter"),),
        (Answer(0, "a", "stop"), Answer(1, "b", "cancelled")),
        (Answer(0, "", "stop", refusal="no"),),
    ],
)
async def test_only_complete_answers_are_kept(answers: tuple[Answer, ...]) -> None:
    cache = MemoryCache(1_000_000, 60)
    await cache.store(key(), answers)
    assert await cache.look_up(key()) is None
    assert cache.stats()["refused_total"] == 1


async def test_the_least_recently_used_goes_first_when_the_budget_is_spent() -> None:
    cache = MemoryCache(3 * 2200, 60)
    keys = [CacheKey("t", "m", str(i)) for i in range(4)]
    big = (Answer(0, "x" * 1000, "stop"),)
    for one in keys[:3]:
        await cache.store(one, big)
    await cache.look_up(keys[0])
    await cache.store(keys[3], big)
    assert [await cache.look_up(k) is not None for k in keys] == [True, False, True, True]
    assert cache.stats()["evicted_total"] == 1
    assert cache.stats()["bytes"] <= 3 * 2200


async def test_an_answer_larger_than_the_budget_evicts_nobody() -> None:
    cache = MemoryCache(5000, 60)
    await cache.store(key(), ANSWERS)
    await cache.store(key(tenant="other"), (Answer(0, "x" * 9000, "stop"),))
    assert await cache.look_up(key()) == ANSWERS


async def test_an_entry_dies_of_age() -> None:
    clock = Clock()
    cache = MemoryCache(1_000_000, 60, clock)
    await cache.store(key(), ANSWERS)
    clock.now = 59.9
    assert await cache.look_up(key())
    clock.now = 60
    assert await cache.look_up(key()) is None
    assert cache.stats()["expired_total"] == 1
    assert cache.stats()["bytes"] == 0


def ask(**changed: Any) -> Request:
    return replace(REQUEST, **changed)


@pytest.mark.parametrize(
    "changed",
    [
        {"messages": (Message("system", "be brief"), Message("user", "hi "))},
        {"messages": (Message("user", "hi"), Message("system", "be brief"))},
        {"messages": (Message("system", "be brief"), Message("user", "hi", name="bob"))},
        {"constraint": Constraint("json_schema", {"type": "string"})},
        {"constraint": Constraint("json_object")},
        {"n": 2},
        {"sampling": Sampling(temperature=0.5)},
        {"sampling": Sampling(seed=1)},
        {"sampling": Sampling(max_tokens=5)},
        {"sampling": Sampling(stop=("a",))},
        {"sampling": Sampling(logprobs=0)},
        {"sampling": Sampling(logit_bias={1: 2.0})},
    ],
)
def test_whatever_changes_the_answer_changes_the_key(changed: dict[str, Any]) -> None:
    assert key(ask(**changed)) != key()


def test_versions_rails_and_scope_are_part_of_the_key() -> None:
    others = [
        {"model": "n"},
        {"model_version": "2"},
        {"template_version": "t"},
        {"rails": "r"},
        {"scope": {"tools": []}},
    ]
    assert len({key(), *(key(**other) for other in others)}) == 6


def test_what_does_not_change_the_answer_does_not_change_the_key() -> None:
    assert key(ask(id="2", stream=True, user="u", priority=5, model="another-alias", metadata={"a": "b"})) == key()


def test_a_seed_matters_only_where_something_is_drawn() -> None:
    greedy = [ask(sampling=Sampling(temperature=0, seed=seed, top_p=p)) for seed, p in ((1, 1.0), (2, 0.5))]
    drawn = [ask(sampling=Sampling(temperature=1, seed=seed)) for seed in (1, 2)]
    assert key(greedy[0]) == key(greedy[1])
    assert key(drawn[0]) != key(drawn[1])


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: shuffled(value[name]) for name in reversed(list(value))}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(values)
def test_white_space_of_a_schema_does_not_matter_and_the_order_of_its_names_does(schema: Any) -> None:
    """An answer has its properties in the order of the schema."""
    respelled, turned = json.loads(json.dumps(schema, indent=3)), shuffled(schema)
    one, same, other = (ask(constraint=Constraint("json_schema", s)) for s in (schema, respelled, turned))
    assert key(one) == key(same)
    assert (key(one) == key(other)) is (json.dumps(schema) == json.dumps(turned))


@given(values, values)
def test_schemas_that_differ_have_different_keys(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (canonical(one) == canonical(other)) is same


@pytest.mark.parametrize("value", [float("nan"), {1: 2}, {"a": {3}}, object()])
def test_what_json_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        canonical({"schema": value})


def test_the_stage_names_its_settings() -> None:
    registry = Registry()
    registry.register_from("cache", register)
    assert isinstance(registry.build("recall", "memory", {"ttl_s": 5}), MemoryCache)
    with pytest.raises(ConfigurationError, match="budget_mb, ttl_s"):
        registry.build("recall", "memory", {"ttl": 5})
    with pytest.raises(ConfigurationError, match="above 0"):
        registry.build("recall", "memory", {"ttl_s": 0})
