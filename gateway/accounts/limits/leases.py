"""Limits that several gateways share: each leases a little of every limit from Redis and counts it down by itself.

    a minute    requests and tokens: leased from the slot of five seconds that now lies in, good until the next one
                ends, and counted for a minute from then
    at once     seats: held by a gateway while it lives; one that stops saying so loses them
    money       taken off the day's or the month's budget; what is not used is given back

A request asks Redis only where a lease has run out: never more is let in than the limit, and at most what idle gateways
hold in leases (a twentieth each) less, until they give it back with the next flush. A question whose answer did not
come is asked again until there is one, before anything else is asked (`lease_script`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from sluicegate.gateway.accounts.limits.database_leases import LeaseStore
from sluicegate.gateway.accounts.limits.lease_client import BEAT_S, UNREACHABLE, LeaseClient
from sluicegate.gateway.accounts.limits.lease_script import ALIVE_S, SLOT_S, LeaseQuestion, LeaseReply
from sluicegate.gateway.accounts.limits.meter import (
    USUAL_SECONDS,
    LimitStatus,
    MeterReservation,
    Steady,
    UsageEstimate,
    steady_of,
)
from sluicegate.gateway.accounts.limits.windows import period_end
from sluicegate.gateway.accounts.records import NANOS, day_of
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import Overloaded, RateLimited, RequestError

__all__ = ["ALIVE_S", "BEAT_S", "LeaseClient", "SharedMeter", "covered"]
SHARE = 20
"""A lease is the limit divided by this, or as much as a request needs."""
COUNTED_SLOTS = 13
"""Slots that count: each counts for another minute after it has ended."""
MODES = {"requests": "rate", "tokens": "rate", "seats": "seats", "day": "money", "month": "money"}


@dataclass(slots=True)
class Lease:
    """`amount` is left of what was granted under `label`: a slot, a day, a month."""

    label: str = ""
    amount: int = 0
    rest: int = 0
    """What was left of the whole limit at the last grant."""
    wait_s: float = 1.0
    ends: float = 0.0
    """When a slot's grant ends, by `time.monotonic`."""
    totals: dict[str, int] = field(default_factory=dict)
    """All that Redis counts for this gateway, by label."""
    returns: dict[str, int] = field(default_factory=dict)
    """Amounts to give back, by label."""
    open: LeaseQuestion | None = None
    """The question that is under way; None = none."""
    failures: int = 0
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)


class SharedMeter:
    """A `Meter` over leases: `lacking` says whether a request needs `refill` first; the rest is as for a local one."""

    def __init__(self, kind: str, name: str, limits: Limits, shared: LeaseStore, steady: Steady = None) -> None:
        """Make a meter without leases. `steady`: as of a `Meter`."""
        self._steady = steady
        self.name = f"{kind} {name!r}"
        self.limits = limits
        self.id = f"{kind}:{name}"
        """The id under which stores know it."""
        self._shared = shared
        self._leases = {what: Lease() for what in MODES}
        self._running = 0
        self.awaited = 0
        """Requests that wait until their leases cover them; what was granted for one of them does not count as
        unused."""
        self._seconds = USUAL_SECONDS

    def change(self, limits: Limits, spent_day: int, spent_month: int) -> None:
        self.limits = limits

    def lacking(self, need: UsageEstimate, now_s: float) -> list[str]:
        """Return the limits whose lease does not cover `need`."""
        return [what for what, amount in self._wanted(need) if self._left(what, now_s) < amount]

    async def refill(self, need: UsageEstimate, now_s: float) -> bool:
        """Lease what `need` lacks, and return whether it was to be had. Raises `RequestError` for what never fits, and
        `Overloaded` where the store cannot be reached."""
        wanted = dict(self._wanted(need))
        for what in self.lacking(need, now_s):
            limit = self._limit(what)
            if what in ("requests", "tokens") and wanted[what] > limit:
                raise RequestError(
                    f"this request may use {wanted[what]} {what}, {self.name} has {limit} a minute: it would never be "
                    "served; send less text, or ask for fewer tokens or answers",
                    code="request_exceeds_limit",
                )
            if not await self._lease(what, limit, wanted[what], now_s):
                return False
        return True

    def check(self, need: UsageEstimate, now_s: float) -> None:
        """Refuse a `need` that the leases do not cover: raises `RateLimited`."""
        for what in self.lacking(need, now_s):
            lease = self._leases[what]
            if what in ("day", "month"):
                error = RateLimited(
                    f"the budget of {self.name} for this {what} has {max(0, lease.rest) / NANOS:.6f} left and this "
                    f"request may cost {need.nanos / NANOS:.6f}; limit the answer to fewer tokens, or wait "
                    f"for the next {what} (UTC)",
                    retry_after_s=period_end(what, now_s) - now_s,  # type: ignore[arg-type]
                )
                error.code = "insufficient_quota"
                raise error
            message = f"all {self._limit(what)} {what} of {self.name} are taken, on all gateways together"
            raise RateLimited(message, retry_after_s=self._seconds if what == "seats" else max(1.0, lease.wait_s))

    def take(self, need: UsageEstimate, now_s: float) -> MeterReservation:
        self._running += need.seats
        for what, amount in self._wanted(need):
            if what != "seats":
                self._leases[what].amount -= amount
        slot = int(self._leases["tokens"].label or 0)
        return MeterReservation(self, need, slot, now_s, steady_of(self._steady, now_s), self.limits)

    def settle(self, taken: MeterReservation, tokens: int, nanos: int, now_s: float) -> None:
        self._running -= taken.need.seats
        lasted_s = steady_of(self._steady, now_s) - taken.began_s
        self._seconds += 0.1 * (lasted_s - self._seconds) * taken.need.seats
        before, now = taken.limits, self.limits
        pairs = (("day", before.budget_day, now.budget_day), ("month", before.budget_month, now.budget_month))
        if (reserved := before.tokens_per_minute is not None) or now.tokens_per_minute is not None:
            self._amend("tokens", str(taken.slot), taken.need.tokens * reserved - tokens)
        for what, old, new in pairs:
            if (reserved := old is not None) or new is not None:
                self._amend(what, _label(what, taken.since_s), taken.need.nanos * reserved - nanos)

    def standing(self, now_s: float) -> tuple[LimitStatus | None, LimitStatus | None]:
        """Return the standing of (requests, tokens), None where there is no limit: as of the last grant, and of this
        gateway's own leases."""
        found = []
        for what in ("requests", "tokens"):
            lease, limit = self._leases[what], self._limit(what)
            left = max(0, lease.rest + self._left(what, now_s))
            found.append(None if limit < 0 else LimitStatus(limit, min(limit, left), 60.0))
        return found[0], found[1]

    @property
    def is_idle(self) -> bool:
        """Return whether no request runs that it has counted, and the store counts nothing that it must return."""
        return not self._running and not self.awaited and all(map(_is_settled, self._leases.values()))

    async def give_back(self, now_s: float, *, report: bool = False) -> None:
        """Settle the open question, and return unused amounts: of settled requests, and of idle leases. `report` what
        this gateway holds, even where there is nothing to return. Raises `Overloaded` where the store does not answer;
        everything then remains to be returned."""
        for what, lease in self._leases.items():
            if not lease.asking.locked():
                async with lease.asking:
                    if lease.open is not None:
                        await self._settle(what, lease, now_s)
                    self._drop_unused(what, lease, now_s)
                    owed = 0 if what == "seats" else max(0, -lease.amount)
                    if lease.returns or owed or (report and lease.totals):
                        await self._ask(what, lease, owed, 0, now_s)

    def _drop_unused(self, what: str, lease: Lease, now_s: float) -> None:
        if what == "seats":
            unused = max(0, lease.amount - self._running - self.awaited)
        elif (self._running or self.awaited) and self._is_good(what, lease, now_s):
            return
        else:
            unused = max(0, lease.amount)
        self._return(lease, lease.label, unused)
        lease.amount -= unused

    def _wanted(self, need: UsageEstimate) -> list[tuple[str, int]]:
        limits = self.limits
        found = [
            ("seats", self._running + 1, limits.concurrency if need.seats else None),
            ("requests", 1, limits.requests_per_minute),
            ("tokens", need.tokens, limits.tokens_per_minute),
            ("day", need.nanos, limits.budget_day),
            ("month", need.nanos, limits.budget_month),
        ]
        return [(what, amount) for what, amount, limit in found if limit is not None]

    def _limit(self, what: str) -> int:
        """Return the limit on `what` (billionths for a budget), or -1 where there is none."""
        limits = self.limits
        if what in ("day", "month"):
            money = limits.budget_day if what == "day" else limits.budget_month
            return -1 if money is None else round(money * NANOS)
        names = {
            "seats": limits.concurrency,
            "requests": limits.requests_per_minute,
            "tokens": limits.tokens_per_minute,
        }
        found = names[what]
        return -1 if found is None else found

    def _left(self, what: str, now_s: float) -> int:
        lease = self._leases[what]
        return lease.amount if self._is_good(what, lease, now_s) else 0

    def _is_good(self, what: str, lease: Lease, now_s: float) -> bool:
        """Return whether what is left of the last grant may still be used. A slot's grant may be used in the next slot
        as well, so that none is lost at the border; seats may be used while Redis has heard of this gateway."""
        if what == "seats":
            return self._shared.is_alive
        if MODES[what] == "rate":
            return time.monotonic() < lease.ends
        return lease.label == _label(what, now_s)

    async def _lease(self, what: str, limit: int, need: int, now_s: float) -> bool:
        """Lease at least `need` of `what`, one question at a time, and return whether the lease covers it then. Who
        waited for a question that got no answer asks no other: raises `Overloaded`."""
        lease = self._leases[what]
        failures = lease.failures
        async with lease.asking:
            if lease.failures != failures:
                raise Overloaded(UNREACHABLE, retry_after_s=1.0)
            if lease.open is not None:
                await self._settle(what, lease, now_s)
            if self._left(what, now_s) >= need:
                return True
            if not self._is_good(what, lease, now_s):
                self._drop_unused(what, lease, now_s)
            least = need - lease.amount  # less than nothing is left where more was used than reserved
            together = self._running + self.awaited - lease.amount if what == "seats" else 0
            await self._ask(what, lease, max(least, together, limit // SHARE, 1), max(least, 1), now_s)
            return self._left(what, now_s) >= need

    async def _ask(self, what: str, lease: Lease, want: int, least: int, now_s: float) -> None:
        """Ask for `want`, or at least `least`, and use the answer. The caller holds the lock `asking`. Raises
        `Overloaded`; the question is open then."""
        if lease.open is not None:
            await self._settle(what, lease, now_s)
        returns, lease.returns = lease.returns, {}
        for label, amount in returns.items():
            lease.totals[label] = lease.totals.get(label, 0) - amount
        label = "" if what == "seats" else _label(what, now_s)
        lease.open = LeaseQuestion(
            self._shared.next_number(),
            MODES[what],
            label,
            want,
            least,
            max(0, self._limit(what)),
            _label(what, now_s - 2 * 86400) if MODES[what] == "money" else "",
            tuple(returns.items()),
            {name: total for name, total in lease.totals.items() if total > 0},
        )
        await self._settle(what, lease, now_s)

    async def _settle(self, what: str, lease: Lease, now_s: float) -> None:
        """Get the answer to the open question, sending it again if needed."""
        assert lease.open is not None
        sent = time.monotonic()
        try:
            reply = await self._shared.ask(f"{what}:{self.id}", lease.open)
        except Overloaded:
            lease.failures += 1
            raise
        lease.open = None
        self._grant(what, lease, reply, sent + reply.lasts_s)
        if MODES[what] == "rate":
            lease.wait_s = (reply.oldest + 12 - int(reply.label)) * SLOT_S + reply.lasts_s  # by the store's clock

    def _grant(self, what: str, lease: Lease, reply: LeaseReply, ends: float) -> None:
        """Add a grant to the lease. What is left of an older label goes back; what was used beyond it is taken from the
        new grant."""
        lease.rest = reply.rest
        if reply.grant == 0:
            return
        lease.totals[reply.label] = lease.totals.get(reply.label, 0) + reply.grant
        if lease.label != reply.label and lease.amount > 0 and what != "seats":
            self._return(lease, lease.label, lease.amount)
            lease.amount = 0
        lease.label, lease.amount, lease.ends = reply.label, lease.amount + reply.grant, ends
        if MODES[what] == "rate":
            oldest = int(reply.label) - COUNTED_SLOTS
            lease.totals = {name: total for name, total in lease.totals.items() if int(name) >= oldest}
        elif MODES[what] == "money":
            lease.totals = {name: total for name, total in lease.totals.items() if total > 0}

    def _amend(self, what: str, label: str, change: int) -> None:
        """Correct what was used under `label`. `change` > 0: so much less was used than reserved; it goes back to the
        lease or, where the label is over, to the store. `change` < 0: the excess is taken from the current lease."""
        lease = self._leases[what]
        if lease.label == label or change < 0:
            lease.amount += change
        else:
            self._return(lease, label, change)

    def _return(self, lease: Lease, label: str, amount: int) -> None:
        """Note `amount` to be returned under `label`, but never more than Redis counts: a slot that is over counts no
        more."""
        left = lease.totals.get(label, 0) - lease.returns.get(label, 0)
        if min(amount, left) > 0:
            lease.returns[label] = lease.returns.get(label, 0) + min(amount, left)


def _is_settled(lease: Lease) -> bool:
    return lease.open is None and not lease.returns and lease.amount <= 0


def _label(what: str, now_s: float) -> str:
    if what in ("requests", "tokens"):
        return str(int(now_s) // SLOT_S)
    day = day_of(now_s)
    return "" if what == "seats" else day if what == "day" else day[:7]


async def covered(meters: list[SharedMeter], need: UsageEstimate, clock: Callable[[], float] = time.time) -> None:
    """Refill the leases that a request needs. Another request may use them meanwhile; then they are refilled again, as
    often as others wait, so that none is refused what is there."""
    for meter in meters:
        meter.awaited += 1
    try:
        for _ in range(3 + max(meter.awaited for meter in meters)):
            now_s = clock()
            lacking: list[Awaitable[bool]] = [m.refill(need, now_s) for m in meters if m.lacking(need, now_s)]
            if not lacking or not all(await asyncio.gather(*lacking)):
                return
    finally:
        for meter in meters:
            meter.awaited -= 1
