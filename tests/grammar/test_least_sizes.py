"""The least bytes of each symbol: the compiled loop finds what relaxing every rule until nothing changes finds."""

from __future__ import annotations

import random

import numpy as np
import pytest

from sluicegate.grammar.parsing.costs import NEVER
from sluicegate.grammar.parsing.following import least_sizes

Rule = tuple[int, tuple[int, ...]]


def relaxed(sizes: list[int], rules: list[Rule]) -> list[int]:
    found = list(sizes)
    while True:
        before = list(found)
        for origin, expansion in rules:
            found[origin] = min(found[origin], sum(found[symbol] for symbol in expansion))
        if found == before:
            return found


def compiled(sizes: list[int], rules: list[Rule]) -> list[int]:
    found = np.array(sizes, np.int64)
    origins = np.array([origin for origin, _ in rules], np.int32)
    first = np.cumsum([0, *(len(expansion) for _, expansion in rules)]).astype(np.int32)
    symbols = np.array([symbol for _, expansion in rules for symbol in expansion], np.int32)
    least_sizes(found, origins, first, symbols)
    least: list[int] = found.tolist()
    return least


@pytest.mark.parametrize("seed", range(200))
def test_the_least_sizes_of_random_rules_are_those_of_relaxing_them(seed: int) -> None:
    pick = random.Random(seed)
    terminals, names = pick.randint(1, 6), pick.randint(1, 25)
    sizes = [pick.choice((0, 1, 2, 5, NEVER)) for _ in range(terminals)] + [NEVER] * (names + 1)
    rules = [
        (
            terminals + pick.randrange(names),
            tuple(pick.randrange(terminals + names) for _ in range(pick.choice((0, 1, 1, 2, 2, 3)))),
        )
        for _ in range(pick.randint(1, 60))
    ]
    assert compiled(sizes, rules) == relaxed(sizes, rules)


def test_what_only_leads_to_itself_cannot_be_finished() -> None:
    assert compiled([3, NEVER, NEVER, NEVER], [(1, (1, 0)), (2, (0, 0))]) == [3, NEVER, 6, NEVER]
