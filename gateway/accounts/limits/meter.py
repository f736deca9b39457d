"""What one key, or one team, has used of its limits."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from sluicegate.gateway.accounts.limits.windows import SlidingSum, Spend
from sluicegate.gateway.accounts.records import NANOS
from sluicegate.gateway.settings import Limits
from sluicegate.plugins import RateLimited, RequestError
from sluicegate.plugins.frozen import frozen_when_checked

USUAL_SECONDS = 2.0
"""Assumed duration of a request while none has ended."""
Steady = Callable[[], float] | None


def steady_of(steady: Steady, now_s: float) -> float:
    """Return the time by the clock of durations; `now_s` where there is none."""
    return now_s if steady is None else steady()


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class UsageEstimate:
    """What a request may use: `tokens` as well as can be told, `nanos` at most; `seats` 0 where nothing runs for it."""

    tokens: int
    nanos: int
    seats: int = 1


@dataclass(slots=True)
class MeterReservation:
    """One request's share of one meter."""

    meter: Settler
    need: UsageEstimate
    slot: int
    since_s: float
    began_s: float
    """When it was taken, by the meter's clock of durations."""
    limits: Limits
    """The limits that held then: what others reserve is not given back for it."""
    windows: tuple[SlidingSum | Spend, ...] = ()
    """Those of a local meter in which it is counted."""


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class LimitStatus:
    """What is left of a limit per minute, for `x-ratelimit-*`."""

    limit: int
    remaining: int
    reset_s: float


class Settler(Protocol):
    """Where a share was taken from."""

    def settle(self, taken: MeterReservation, tokens: int, nanos: int, now_s: float) -> None: ...


class Meter:
    """Used on the event loop only; `take` follows a `check` that raised nothing, with no await between them."""

    __slots__ = (
        "_day",
        "_month",
        "_requests",
        "_running",
        "_seconds",
        "_spends",
        "_steady",
        "_tokens",
        "limits",
        "name",
    )

    def __init__(
        self, name: str, limits: Limits, spent_day: int = 0, spent_month: int = 0, steady: Steady = None
    ) -> None:
        """Make a meter of which nothing is used. `steady`: the clock of minutes and durations, such as
        `time.monotonic`, which no change of the system's time moves; None = the time of each call."""
        self.name = name
        """The name in messages to the caller: `key 'a'`, `team 'b'`."""
        self._steady = steady
        self._running = 0
        self._seconds = USUAL_SECONDS
        self._requests: SlidingSum | None = None
        self._tokens: SlidingSum | None = None
        self._day: Spend | None = None
        self._month: Spend | None = None
        self.limits = Limits()
        self.change(limits, spent_day, spent_month)

    def change(self, limits: Limits, spent_day: int, spent_month: int) -> None:
        """Set other limits from now on; what was used stays used."""
        self._requests = _sum(self._requests, limits.requests_per_minute)
        self._tokens = _sum(self._tokens, limits.tokens_per_minute)
        self._day = _spend(self._day, "day", limits.budget_day, spent_day)
        self._month = _spend(self._month, "month", limits.budget_month, spent_month)
        self._spends = tuple([spend for spend in (self._day, self._month) if spend is not None])
        self.limits = limits

    def check(self, need: UsageEstimate, now_s: float) -> None:
        """Refuse a `need` that exceeds a limit. Raises `RateLimited` that says when it will fit, or `RequestError`
        where it never will."""
        limits = self.limits
        if need.seats and limits.concurrency is not None and self._running >= limits.concurrency:
            raise RateLimited(
                f"{self.name} runs {self._running} requests, as many as it may at once; wait until one has ended",
                retry_after_s=max(1.0, self._seconds / max(1, self._running)),
            )
        steady_s = steady_of(self._steady, now_s)
        if self._requests is not None:
            self._check_rate(self._requests, 1, "requests", steady_s)
        if self._tokens is not None and need.tokens:
            self._check_rate(self._tokens, need.tokens, "tokens", steady_s)
        for spend in self._spends:
            self._check_budget(spend, need, now_s)

    def take(self, need: UsageEstimate, now_s: float) -> MeterReservation:
        self._running += need.seats
        steady_s = steady_of(self._steady, now_s)
        if self._requests is not None:
            self._requests.add(1, steady_s)
        slot = self._tokens.add(need.tokens, steady_s) if self._tokens is not None else 0
        for spend in self._spends:
            spend.reserved += need.nanos
        tokens = () if self._tokens is None else (self._tokens,)
        return MeterReservation(self, need, slot, now_s, steady_s, self.limits, (*self._spends, *tokens))

    def settle(self, taken: MeterReservation, tokens: int, nanos: int, now_s: float) -> None:
        """Correct what was reserved. A limit that is younger than the request counts all that it used."""
        self._running -= taken.need.seats
        steady_s = steady_of(self._steady, now_s)
        self._seconds += 0.1 * (steady_s - taken.began_s - self._seconds) * taken.need.seats
        if self._tokens is not None:
            reserved = taken.need.tokens if self._tokens in taken.windows else 0
            self._tokens.amend(taken.slot, tokens - reserved, steady_s)
        for spend in self._spends:
            spend.settle(taken.need.nanos if spend in taken.windows else 0, nanos, now_s)

    @property
    def is_idle(self) -> bool:
        """Return whether no request runs that it has counted."""
        return not self._running

    def standing(self, now_s: float) -> tuple[LimitStatus | None, LimitStatus | None]:
        """Return the standing of (requests, tokens), None where there is no limit."""
        steady_s = steady_of(self._steady, now_s)
        return _standing(self._requests, steady_s), _standing(self._tokens, steady_s)

    def _check_rate(self, used: SlidingSum, amount: int, what: str, now_s: float) -> None:
        wait_s = used.wait_s(amount, now_s)
        if wait_s == float("inf"):
            raise RequestError(
                f"this request may use {amount} {what}, {self.name} has {used.limit} a minute: it would never be "
                "served; send less text, or ask for fewer tokens or answers",
                code="request_exceeds_limit",
            )
        if wait_s > 0:
            raise RateLimited(
                f"{self.name} has used {used.total(now_s)} of its {used.limit} {what} a minute and this request needs "
                f"{amount}; wait {math.ceil(wait_s)} s",
                retry_after_s=wait_s,
            )

    def _check_budget(self, spend: Spend, need: UsageEstimate, now_s: float) -> None:
        left = spend.left(now_s)
        if need.nanos <= max(0, left):
            return
        error = RateLimited(
            f"the budget of {self.name} for this {spend.period} has {max(0, left) / NANOS:.6f} left and this request "
            f"may cost {need.nanos / NANOS:.6f}; limit the answer to fewer tokens, or wait for the next "
            f"{spend.period} (UTC)",
            retry_after_s=spend.ends_in_s(now_s) if not spend.reserved else min(self._seconds, spend.ends_in_s(now_s)),
        )
        error.code = "insufficient_quota"
        raise error


def _sum(before: SlidingSum | None, limit: int | None) -> SlidingSum | None:
    if limit is None:
        return None
    if before is None:
        return SlidingSum(limit)
    before.limit = limit
    return before


def _spend(before: Spend | None, period: str, limit: float | None, spent: int) -> Spend | None:
    if limit is None:
        return None
    if before is None:
        return Spend(period, round(limit * NANOS), spent)  # type: ignore[arg-type]
    before.limit_nanos = round(limit * NANOS)
    return before


def _standing(used: SlidingSum | None, now_s: float) -> LimitStatus | None:
    if used is None:
        return None
    return LimitStatus(used.limit, *used.left(now_s))
