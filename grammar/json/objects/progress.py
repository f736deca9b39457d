"""Track the members of an open object: which names may come next, and whether it may end."""

from __future__ import annotations

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.container import Container, SourceT
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.schema.containers import Conjunction

_OF_WAYS, _OF_NAME = 1.5, 0.3
"""Work charged for the ways to give a name, and for a name that may be listed."""
After = tuple[int, int, int]
"""`at`, `count` and `met` of an object after one more name."""


class ObjectProgress(Container[ObjectPlan, SourceT]):
    """An open object's progress.

    `at`: index of the next listed name (in order), or bit set of those given (any order). `count`: members so far, 0 if
    the plan does not count them. `met`: bit set of the existential constraints met so far. `used`: free names given so
    far, kept once one of them cannot grow into a longer name. `kinds`: lexemes of the free names left, each with the
    plan's kinds of names by outcome.
    """

    __slots__ = ("_offered", "at", "count", "kinds", "met", "used")

    def __init__(
        self,
        values: SourceT,
        plan: ObjectPlan,
        at: int,
        count: int,
        follow: Continuation,
        met: int = 0,
        used: GivenTexts | None = None,
    ) -> None:
        super().__init__(follow)
        self.values = values
        self.plan = plan
        self.at = at
        self.count = count
        self.met = met
        self.used = used
        self.kinds = plan.free_lexemes if used is None else plan.lexemes_left(used)
        self._offered: list[int] | None = None

    def pointer(self) -> str:
        return next(filter(None, map(self.values.pointer, self.plan.values)), "")

    def missing(self) -> int:
        """Return how many required names have not come yet."""
        plan = self.plan
        if not plan.any_order:
            return plan.required_from[self.at]
        return (plan.required_set & ~self.at).bit_count()

    def may_close(self) -> bool:
        plan = self.plan
        if self.missing() or (plan.counts and self.count < plan.low):
            return False
        return not plan.some or (self.met | plan.skipped(self.at)) + 1 == 1 << plan.some

    def may_go_on(self) -> bool:
        return self.offers_free() or self.is_offered()

    # --- listed names ---

    def offered(self) -> list[int]:
        """Return the indices of the listed names that may come next and leave the object completable."""
        if self._offered is not None:
            return self._offered
        plan = self.plan
        if plan.in_order:
            self._offered = list(range(self.at, plan.until[self.at]))
            return self._offered
        room = None if plan.high is None else plan.high - self.count
        found: list[int] = []
        missing = self.missing()
        charge((len(plan.names) if plan.any_order else plan.until[self.at] - self.at) * _OF_NAME)
        for i in range(self.at if not plan.any_order else 0, len(plan.names)):
            if plan.any_order and self.at >> i & 1:
                continue
            needed = plan.required[i]
            fits = bool(self.ways(i)) if plan.some else room is None or missing + (not needed) <= room
            if fits and self._enough_left(i):
                found.append(i)
            if needed and not plan.any_order:
                break
        self._offered = found
        return found

    def is_offered(self) -> bool:
        """Return whether some listed name may come next."""
        return bool(self.plan.left(self.at)) if self.plan.unordered else bool(self.offered())

    def _enough_left(self, i: int) -> bool:
        """Return whether, after name `i`, the names left can still reach the least number of members."""
        plan = self.plan
        if not plan.counts or plan.any_order or (plan.free and plan.supply is None):
            return True
        return self.count + len(plan.names) - i + (plan.supply or 0) >= plan.low

    # --- free names ---

    def offers_free(self) -> bool:
        plan = self.plan
        if not self.kinds:
            return False
        if plan.some:
            offered = any(self.ways(-1 - k) for kinds, _ in self.kinds for k in kinds)
            return offered and (plan.any_order or not self.missing())
        if plan.supply is not None and not plan.any_order and self.at < len(plan.names):
            return not self.missing() and self.count + plan.supply >= plan.low
        missing = self.missing()
        if plan.high is not None and self.count + missing + 1 > plan.high:
            return False
        return plan.any_order or not missing

    # --- progress after a name ---

    def ways(self, index: int) -> list[tuple[After, Conjunction]]:
        """Return (progress, terms of the value) for each way to give name `index` (-1 - k: a free name of kind k) after
        which the object can be completed."""
        charge(_OF_WAYS)
        plan = self.plan
        claims = plan.claims[index] if index >= 0 else plan.free_claims[-1 - index]
        found = []
        for hits, terms in claims:
            at, count, met = after = self.after(index, hits)
            if plan.ends.reachable(at, met, count):
                found.append((after, terms))
        return found

    def after(self, index: int, hits: int = 0) -> After:
        """Return the progress after name `index`, which meets the existential constraints `hits`."""
        plan, at = self.plan, self.at
        if plan.any_order:
            at |= (1 << index) if index >= 0 else 0
        else:
            at = index + 1 if index >= 0 else len(plan.names)
            if plan.some:
                hits |= plan.skipped(self.at, index if index >= 0 else None)
        return at, self.count + plan.counts, self.met | hits
