"""Track the members of an open object: which names may come next, and whether it may end."""

from __future__ import annotations

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.given.texts import GivenTexts
from sluicegate.grammar.json.container import Container, SourceT
from sluicegate.grammar.json.objects.plan import ObjectPlan
from sluicegate.grammar.reading.continuations import Continuation
from sluicegate.grammar.schema.containers import Conjunction
from sluicegate.grammar.vocabulary.punctuation import bit_numbers

_OF_WAYS, _OF_DEMAND, _NAMES_A_CHARGE = 1.5, 0.1, 10_000
"""Work charged for the ways to give a name, for an existential constraint there, and names in its bit set per unit
charged."""
_NAMED = 50
"""Listed names among whose values the messages of errors look for one that has a place."""
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
        self._offered: int | None = None

    def pointer(self) -> str:
        return next(filter(None, map(self.values.pointer, self.plan.values[:_NAMED])), "")

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
        return self.offers_free() or bool(self.offered())

    # --- listed names ---

    def offered(self) -> int:
        """Return the bit set of the listed names that may come next and leave the object completable."""
        if self._offered is None:
            self._offered = self._find_offered()
        return self._offered

    def _find_offered(self) -> int:
        plan, at = self.plan, self.at
        names = plan.left(at) if plan.any_order else (1 << plan.until[at]) - (1 << at)
        if plan.some:
            found = 0
            for i in bit_numbers(names & self._early_enough()):
                if self.ways(i):
                    found |= 1 << i
            return found
        if plan.high is not None:
            free_room = plan.high - self.count - self.missing()
            if free_room <= 0:
                names &= 0 if free_room < 0 else plan.required_set
        return names & self._early_enough()

    def _early_enough(self) -> int:
        """Return the bit set of the names after which the names left can still reach the least number of members."""
        plan = self.plan
        if not plan.counts or plan.any_order or (plan.free and plan.supply is None):
            return -1
        return (1 << max(0, self.count + len(plan.names) + (plan.supply or 0) - plan.low + 1)) - 1

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
        plan = self.plan
        charge(_OF_WAYS + plan.some * (_OF_DEMAND + len(plan.names) / _NAMES_A_CHARGE))
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
