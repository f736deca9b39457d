"""What some property of an object must be: in which ways each name can be given, and whether what is demanded can still
be met."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sluicegate.grammar.budget.meter import look
from sluicegate.grammar.schema.containers import Conjunction, Existential, Object, conjunction, negated
from sluicegate.grammar.schema.strings import StringSet
from sluicegate.plugins.errors import GrammarLimit

if TYPE_CHECKING:
    from sluicegate.grammar.json.object_plan import ObjectPlan

Claims = tuple[tuple[int, Conjunction], ...]
"""Ways to give a name: bit set of the demands that are met, and what its value satisfies."""
_FEW = 8
_MOST = 256
"""Sets of demands met that are told apart on the way to an object's end."""


class TooMany(Exception):
    """The ways to meet `demands` multiply with those of the others."""

    def __init__(self, demands: tuple[Existential, ...]) -> None:
        super().__init__(demands)
        self.demands = demands


def claims_of(
    spec: Object,
    terms: Conjunction,
    named: Callable[[StringSet], bool],
    satisfiable: Callable[[Conjunction], bool],
    never: Callable[[Conjunction], bool],
    most: int,
) -> Claims:
    """In which ways a property meets what `spec` demands of some property. `named`: is its name in a set? `never`:
    surely not `satisfiable`, at a glance.

    Raises `TooMany` past `most` ways.
    """
    found: dict[Conjunction, int] = {terms: 0}
    for demand, some in enumerate(spec.existentials):
        for facts, hits in list(found.items()):
            for language, wanted in some.ways:
                if not named(language):
                    continue
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
    """Names that `demands` tell from others one by one."""
    found: set[str] = set()
    for some in demands:
        found |= some.absent
        for language, _ in some.ways:
            for part in language:
                found |= part.minus if part.words is None else part.words
    return tuple(sorted(found))


def skipped(spec: Object, name: str, required: bool) -> int:
    """Bit set of the demands that are met where `name` is not given."""
    if required:
        return 0
    return sum(1 << demand for demand, some in enumerate(spec.existentials) if name in some.absent)


class Ends:
    """Whether an object can still meet all demands with as many members as it may have. Remembered."""

    def __init__(self, plan: ObjectPlan) -> None:
        self.plan = plan
        self._known: dict[tuple[int, int], int] = {}

    def reachable(self, at: int, met: int, count: int) -> bool:
        """From where `count` members have been given, and `met` demands."""
        plan, sizes = self.plan, self._sizes(at, met)
        if not plan.counts:
            return bool(sizes)
        if plan.high is not None:
            sizes &= (1 << max(plan.high - count + 1, 0)) - 1
        return bool(sizes if plan.free else sizes >> max(plan.low - count, 0))

    def _sizes(self, at: int, met: int) -> int:
        """Bit set of how many more members it can take. Listed names first, each at most once; where free ones may
        come, the least number stands for all from there on."""
        if (at, met) not in self._known:
            plan = self.plan
            sizes = {met: 1}
            for i in range(0 if plan.any_order else at, len(plan.names)):
                if not (plan.any_order and at >> i & 1):
                    skip = None if plan.required[i] else plan.skips[i]
                    sizes = self._with(sizes, plan.claims[i], skip)
            for _ in range(plan.some):
                for claims in plan.free_claims:
                    sizes = self._with(sizes, claims, 0)
            self._known[at, met] = sizes.get((1 << plan.some) - 1, 0)
        return self._known[at, met]

    def _with(self, sizes: dict[int, int], claims: Claims, skip: int | None) -> dict[int, int]:
        """Demands met -> numbers of members, with one more name given in one of the ways of `claims`, or left out,
        which meets the demands `skip`; None: it cannot be."""
        found: dict[int, int] = {}
        for met, numbers in sizes.items():
            if skip is not None:
                found[met | skip] = found.get(met | skip, 0) | numbers
            for hits, _ in claims:
                found[met | hits] = found.get(met | hits, 0) | numbers << 1
        plan = self.plan
        if not plan.counts or plan.free or not plan.low:
            found = {met: numbers & -numbers for met, numbers in found.items()}  # the least is all that matters
        return found if len(found) <= _FEW else self._best(found)

    def _best(self, sizes: dict[int, int]) -> dict[int, int]:
        """Without those that meet no more, with no better numbers, than others do."""
        look()
        if len(sizes) > 2 * _MOST:
            raise GrammarLimit("what some property must be can be met in too many ways to be followed")
        plan = self.plan
        least = not plan.counts or plan.free or not plan.low
        kept: dict[int, int] = {}
        for met, numbers in sorted(sizes.items(), key=lambda item: (-item[0].bit_count(), item[1])):
            if not any(
                met & ~more == 0 and (other <= numbers if least else numbers & ~other == 0)
                for more, other in kept.items()
            ):
                kept[met] = numbers
        if len(kept) > _MOST:
            raise GrammarLimit("what some property must be can be met in too many ways to be followed")
        return kept
