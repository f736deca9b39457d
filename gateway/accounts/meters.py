"""The meters of keys and teams that have limits, made when they are first met."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator

from sluicegate.gateway.accounts.directory import Directory
from sluicegate.gateway.accounts.limits.database_leases import LeaseStore
from sluicegate.gateway.accounts.limits.leases import SharedMeter
from sluicegate.gateway.accounts.limits.meter import Meter
from sluicegate.gateway.accounts.limits.totals import Totals
from sluicegate.gateway.accounts.records import day_of
from sluicegate.gateway.accounts.stores.base import Spent
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import Caller

AnyMeter = Meter | SharedMeter
Budget = tuple[str, str, str]
"""Kind and name of who has it, and its period."""


class Meters:
    """The meters of keys and teams, created on first use. Used on the event loop."""

    def __init__(self, directory: Directory, totals: Totals, shared: LeaseStore | None) -> None:
        """Make an empty set. `shared`: limits are leased from the store that all gateways share; None: this gateway
        counts alone."""
        self._directory = directory
        self._totals = totals
        self._shared = shared
        self._meters: dict[tuple[str, str], AnyMeter | None] = {}
        self._lifted: dict[tuple[str, str], AnyMeter] = {}
        """Meters without limits now, of which requests run or leases are out: a limit that is set again counts
        them."""
        self._budgets: frozenset[Budget] = frozenset()
        """Those of which the store of leases knows what was spent before they were set."""
        self._budgets_changed = True
        self._of: dict[tuple[str | None, str | None], list[AnyMeter]] = {}
        """The meters of a key and team; cached, since they are needed four times a request."""

    def of(self, caller: Caller) -> list[AnyMeter]:
        """Return the meters of the key and of its team, where they have limits."""
        named = caller.key_id, caller.team
        try:
            return self._of[named]
        except KeyError:
            both = self._meter("key", caller.key_id), self._meter("team", caller.team)
            found = self._of[named] = [meter for meter in both if meter is not None]
            return found

    @property
    def shared(self) -> list[SharedMeter]:
        """Return the meters that have leases, those included whose limits were lifted."""
        self._forget_idle()
        both = *self._meters.values(), *self._lifted.values()
        return [meter for meter in both if isinstance(meter, SharedMeter)]

    async def count_spent(self, spent_now: Callable[[], Awaitable[Spent]], *, changed: bool) -> None:
        """Have the store of leases count what the books say was spent before a budget was set. `changed`: keys or teams
        have. Raises what the stores raise; it is then to be called again."""
        self._budgets_changed = self._budgets_changed or changed
        if self._shared is None or not self._budgets_changed:
            return
        budgets = frozenset(_budgets(self._directory.limits()))
        if added := budgets - self._budgets:
            spent, today = await spent_now(), day_of(time.time())
            for kind, name, period in added:
                day, month = spent.get((kind, name), (0, 0))
                label, nanos = (today, day) if period == "day" else (today[:7], month)
                if nanos:
                    await self._shared.count_spent(f"{period}:{kind}:{name}", label, nanos)
        self._budgets, self._budgets_changed = budgets, False

    def renew(self) -> None:
        """Apply the current limits of keys and teams."""
        self._budgets_changed = True
        now_s = time.time()
        self._of.clear()
        for (kind, name), meter in list(self._meters.items()):
            limits = self._directory.limits_of(kind, name)
            if meter is not None:
                meter.change(limits, *self._totals.of(kind, name, now_s))
            if meter is None or limits == Limits():
                del self._meters[kind, name]
                self._lifted |= {} if meter is None else {(kind, name): meter}
        self._forget_idle()

    def _forget_idle(self) -> None:
        self._lifted = {named: meter for named, meter in self._lifted.items() if not meter.is_idle}

    def _meter(self, kind: str, name: str | None) -> AnyMeter | None:
        if not name:
            return None
        try:
            return self._meters[kind, name]
        except KeyError:
            limits = self._directory.limits_of(kind, name)
            made = None if limits == Limits() else self._new(kind, name, limits)
            self._meters[kind, name] = made
            return made

    def _new(self, kind: str, name: str, limits: Limits) -> AnyMeter:
        spent = self._totals.of(kind, name, time.time())
        if (kept := self._lifted.pop((kind, name), None)) is not None:
            kept.change(limits, *spent)
            return kept
        if self._shared is not None:
            return SharedMeter(kind, name, limits, self._shared, time.monotonic)
        return Meter(f"{kind} {name!r}", limits, *spent, time.monotonic)


def _budgets(limits: Iterable[tuple[str, str, Limits]]) -> Iterator[Budget]:
    for kind, name, found in limits:
        if found.budget_day is not None:
            yield kind, name, "day"
        if found.budget_month is not None:
            yield kind, name, "month"
