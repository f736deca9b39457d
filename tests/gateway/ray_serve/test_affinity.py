"""Prompts that begin alike go to the engine that has read their beginning, as long as it is not the busiest by far."""

from __future__ import annotations

import random
from collections import Counter

from sluicegate.gateway.ray_serve.affinity import PrefixAffinity
from sluicegate.gateway.upstream.transport.choice import beginnings

IDLE = {"a": 0, "b": 0, "c": 0}


def digests(text: str) -> list[bytes]:
    return beginnings([{"role": "user", "content": text}])


def test_the_one_that_has_read_most_of_it_is_asked_first() -> None:
    affinity: PrefixAffinity[str] = PrefixAffinity()
    long = "same rules " * 200
    affinity.read(digests(long[:1100]), "b")
    affinity.read(digests(long), "c")
    assert affinity.order(IDLE, digests(long + "and a question"))[0] == "c"
    assert affinity.order(IDLE, digests(long[:1100]))[0] in ("b", "c")
    assert sorted(affinity.order(IDLE, digests("something else"))) == ["a", "b", "c"]


def test_one_that_has_much_more_to_do_is_not() -> None:
    affinity: PrefixAffinity[str] = PrefixAffinity()
    affinity.read(digests("x" * 2000), "a")
    assert affinity.order({"a": 2, "b": 2, "c": 2}, digests("x" * 2000))[0] == "a"
    assert affinity.order({"a": 9, "b": 2, "c": 2}, digests("x" * 2000))[0] != "a"


def test_one_that_died_or_left_is_forgotten() -> None:
    affinity: PrefixAffinity[str] = PrefixAffinity()
    for replica in ("a", "b"):
        affinity.read(digests("x" * 2000), replica)
    affinity.forget("a")
    assert affinity.order(IDLE, digests("x" * 2000))[0] == "b"
    affinity.keep({"a", "c"})
    assert affinity.order({"c": 0, "a": 0}, digests("x" * 2000)) == affinity.order(
        {"a": 0, "c": 0}, digests("x" * 2000)
    )


def test_every_one_is_named_once_and_none_is_none() -> None:
    affinity: PrefixAffinity[str] = PrefixAffinity()
    assert affinity.order({}, digests("x")) == []
    assert sorted(affinity.order(IDLE, [])) == ["a", "b", "c"]


def test_many_tenants_of_one_prompt_each_stay_spread_and_near() -> None:
    """Of 300 requests by 20 tenants on three engines, nearly all find their prompt, and nobody gets half."""
    affinity: PrefixAffinity[str] = PrefixAffinity()
    dice, found, asked = random.Random(5), 0, Counter[str]()
    for _ in range(300):
        tenant = f"rules of tenant {dice.randrange(20)} " * 100
        chosen = affinity.order(asked, digests(tenant))[0] if len(asked) == 3 else "abc"[len(asked)]
        found += any(chosen in affinity._readers.get(digest, ()) for digest in digests(tenant))
        affinity.read(digests(tenant), chosen)
        asked[chosen] += 1
    assert found > 220
    assert max(asked.values()) < 150
