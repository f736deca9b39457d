"""Existential constraints, which some property of an object must meet, and the ways in which each name can meet
them."""

from __future__ import annotations

from collections.abc import Callable

from sluicegate.grammar.schema.containers import Conjunction, Existential, Object, Way, conjunction, negated

Claims = tuple[tuple[int, Conjunction], ...]
"""Ways to give a name: (bit set of the constraints that it then meets, terms of its value)."""


class TooMany(Exception):
    """Raised if there are too many ways to meet the constraints `demands` together with the others."""

    def __init__(self, demands: tuple[Existential, ...]) -> None:
        super().__init__(demands)
        self.demands = demands


def claims_of(
    spec: Object,
    terms: Conjunction,
    ways: Callable[[Existential], list[Way]],
    satisfiable: Callable[[Conjunction], bool],
    never: Callable[[Conjunction], bool],
    most: int,
) -> Claims:
    """Return the ways in which one property can meet the existential constraints of `spec`. `ways`: those of a
    constraint that its name can take. `never`: a fast check whether a conjunction is surely unsatisfiable.

    Raises `TooMany` beyond `most` ways.
    """
    found: dict[Conjunction, int] = {terms: 0}
    for demand, some in enumerate(spec.existentials):
        open_ways = ways(some)
        for facts, hits in list(found.items()):
            for _, wanted in open_ways:
                if not wanted or (len(wanted) == 1 and never(conjunction((*facts, negated(wanted[0]))))):
                    found[facts] |= hits | 1 << demand  # whatever the value is
                    break
                met = conjunction((*facts, *wanted))
                if satisfiable(met):
                    found[met] = found.get(met, 0) | hits | 1 << demand
        if len(found) > most:
            raise TooMany((some,))
    return tuple((hits, facts) for facts, hits in found.items())


def names_of(demands: tuple[Existential, ...]) -> tuple[str, ...]:
    """Return the names that `demands` mention one by one, sorted."""
    found: set[str] = set()
    for some in demands:
        found |= some.absent
        for language, _ in some.ways:
            for part in language:
                found |= part.minus if part.words is None else part.words
    return tuple(sorted(found))


def skipped(spec: Object, name: str, required: bool) -> int:
    """Return the bit set of the constraints that are met if `name` is absent."""
    if required:
        return 0
    return sum(1 << demand for demand, some in enumerate(spec.existentials) if name in some.absent)
