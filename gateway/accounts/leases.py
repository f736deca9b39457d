"""Limits that several gateways share: each leases a little of every limit from Redis and counts it down by itself.

    a minute    requests and tokens: leased from the slot of five seconds that now lies in, good until the next one
                ends, and counted for a minute from then
    at once     seats: held by a gateway while it lives; one that stops saying so loses them
    money       taken off the day's or the month's budget; what is not used is given back

A request asks Redis only where a lease has run out: never more is let in than the limit, and at most what idle gateways
hold in leases (a twentieth each) less, until they give it back with the next flush.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from cache.redis_client import Tls, connect
from gateway.accounts.meter import USUAL_SECONDS, Need, Standing, Taken
from gateway.accounts.records import NANOS, day_of
from gateway.accounts.redis_store import PREFIX
from gateway.accounts.windows import period_end
from gateway.settings import Limits
from plugins import Overloaded, RateLimited, RequestError

SLOT_S = 5
SHARE = 20
"""A lease is this part of a limit, or as much as a request needs."""
ALIVE_S = 15.0
_RATE = """
local now, limit, want = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local least = tonumber(ARGV[4])
local sum, oldest = 0, now
for _, slot in ipairs(redis.call('HKEYS', KEYS[1])) do
  if tonumber(slot) < now - 13 then redis.call('HDEL', KEYS[1], slot)
  else
    local held = tonumber(redis.call('HGET', KEYS[1], slot))
    sum = sum + held
    if held > 0 and tonumber(slot) < oldest then oldest = tonumber(slot) end
  end
end
local grant = math.min(want, limit - sum)
if grant < least then return {0, limit - sum, oldest} end
redis.call('HINCRBY', KEYS[1], ARGV[1], grant)
redis.call('EXPIRE', KEYS[1], 90)
return {grant, limit - sum - grant, oldest}
"""
_SEATS = """
local limit, want, sum = tonumber(ARGV[1]), tonumber(ARGV[2]), 0
for _, who in ipairs(redis.call('HKEYS', KEYS[1])) do
  if redis.call('EXISTS', ARGV[4] .. who) == 1 then sum = sum + tonumber(redis.call('HGET', KEYS[1], who))
  else redis.call('HDEL', KEYS[1], who) end
end
local grant = math.max(0, math.min(want, limit - sum))
if grant > 0 then redis.call('HINCRBY', KEYS[1], ARGV[3], grant) end
return {grant, limit - sum - grant, 0}
"""
_MONEY = """
local limit, want, least = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local left = limit - tonumber(redis.call('GET', KEYS[1]) or '0')
local grant = math.min(want, left)
if grant < least then return {0, left, 0} end
redis.call('INCRBY', KEYS[1], grant)
redis.call('EXPIRE', KEYS[1], 3456000)
return {grant, left - grant, 0}
"""


@dataclass(slots=True)
class Lease:
    """`amount` is left of what was granted under `label`: a slot, a day, a month."""

    label: str = ""
    amount: int = 0
    rest: int = 0
    """Left of the whole limit, as of the last grant."""
    wait_s: float = 1.0


class Shared:
    """The connection, and what this gateway calls itself."""

    def __init__(self, url: str) -> None:
        self.name = os.urandom(6).hex()
        self._url = url
        self._client: Any = None

    async def beat(self) -> None:
        """Say that this gateway lives; its seats are its own for another `ALIVE_S`."""
        await self.client.set(f"{PREFIX}:alive:{self.name}", 1, px=int(ALIVE_S * 1000))

    @property
    def client(self) -> Any:
        if self._client is None:
            self._client = connect(self._url, Tls())
        return self._client

    async def ask(self, script: str, key: str, *arguments: object) -> list[int]:
        """Raises `Overloaded` where the store cannot be reached: what cannot be checked is not let in."""
        try:
            return [int(part) for part in await self.client.eval(script, 1, key, *arguments)]
        except Exception as error:
            raise Overloaded(
                "limits are shared and their store cannot be reached now; try again", retry_after_s=1.0
            ) from error

    async def close(self) -> None:
        if self._client is not None:
            await self._client.delete(f"{PREFIX}:alive:{self.name}")
            await self._client.aclose()


class SharedMeter:
    """A `Meter` over leases: `lacking` says whether a request needs `refill` first; the rest is as for a local one."""

    def __init__(self, kind: str, name: str, limits: Limits, shared: Shared) -> None:
        self.name = f"{kind} {name!r}"
        self.limits = limits
        self._id = f"{kind}:{name}"
        self._shared = shared
        self._leases = {what: Lease() for what in ("requests", "tokens", "seats", "day", "month")}
        self._running = 0
        self._seconds = USUAL_SECONDS
        self._returns: list[tuple[str, str, int]] = []
        """(what, label, amount) to be given back with the next flush."""

    def change(self, limits: Limits, spent_day: int, spent_month: int) -> None:
        self.limits = limits

    def lacking(self, need: Need, now_s: float) -> list[str]:
        """What no lease covers."""
        return [what for what, amount in self._wanted(need) if self._left(what, now_s) < amount]

    async def refill(self, need: Need, now_s: float) -> None:
        """Raises `RequestError` for what never fits, `Overloaded` where the store cannot be reached."""
        wanted = dict(self._wanted(need))
        for what in self.lacking(need, now_s):
            limit = self._limit(what)
            if what in ("requests", "tokens") and wanted[what] > limit:
                raise RequestError(
                    f"this request may use {wanted[what]} {what}, {self.name} has {limit} a minute: it would never be "
                    "served; shorten the messages or lower `max_tokens` or `n`",
                    code="request_exceeds_limit",
                )
            await self._lease(what, limit, wanted[what], now_s)

    def check(self, need: Need, now_s: float) -> None:
        """Raises `RateLimited`."""
        for what in self.lacking(need, now_s):
            lease = self._leases[what]
            if what in ("day", "month"):
                error = RateLimited(
                    f"the budget of {self.name} for this {what} has {max(0, lease.rest) / NANOS:.6f} left and this "
                    f"request may cost {need.nanos / NANOS:.6f}; send `max_tokens`, or wait for the next {what} (UTC)",
                    retry_after_s=period_end(what, now_s) - now_s,  # type: ignore[arg-type]
                )
                error.code = "insufficient_quota"
                raise error
            told = f"all {self._limit(what)} {what} of {self.name} are taken, on all gateways together"
            raise RateLimited(told, retry_after_s=self._seconds if what == "seats" else max(1.0, lease.wait_s))

    def take(self, need: Need, now_s: float) -> Taken:
        self._running += 1
        for what, amount in self._wanted(need):
            if what != "seats":
                self._leases[what].amount -= amount
        return Taken(self, need, int(now_s) // SLOT_S, now_s)

    def settle(self, taken: Taken, tokens: int, nanos: int, now_s: float) -> None:
        self._running -= 1
        self._seconds += 0.1 * (now_s - taken.since_s - self._seconds)
        if self.limits.tokens_per_minute is not None:
            self._amend("tokens", str(taken.slot), taken.need.tokens - tokens)
        for what, limit in (("day", self.limits.budget_day), ("month", self.limits.budget_month)):
            if limit is not None:
                self._amend(what, _label(what, taken.since_s), taken.need.nanos - nanos)

    def standing(self, now_s: float) -> tuple[Standing | None, Standing | None]:
        """As of the last grant, and of this gateway's own leases."""
        found = []
        for what in ("requests", "tokens"):
            lease, limit = self._leases[what], self._limit(what)
            left = max(0, lease.rest + self._left(what, now_s))
            found.append(None if limit < 0 else Standing(limit, min(limit, left), 60.0))
        return found[0], found[1]

    async def give_back(self, now_s: float) -> None:
        """What settled requests did not use, and leases that nobody uses now."""
        for what, lease in self._leases.items():
            idle = self._running == 0 and what != "seats"
            if lease.amount > 0 and (idle or not _holds(what, lease.label, now_s)):
                self._returns.append((what, lease.label, lease.amount))
                lease.amount = 0
        spare = self._leases["seats"].amount - self._running
        if spare > 0:
            self._leases["seats"].amount -= spare
            self._returns.append(("seats", "", spare))
        returns, self._returns = self._returns, []
        for what, label, amount in returns:
            await self._give(what, label, amount)

    def _wanted(self, need: Need) -> list[tuple[str, int]]:
        limits = self.limits
        found = [
            ("seats", self._running + 1, limits.concurrency),
            ("requests", 1, limits.requests_per_minute),
            ("tokens", need.tokens, limits.tokens_per_minute),
            ("day", need.nanos, limits.budget_day),
            ("month", need.nanos, limits.budget_month),
        ]
        return [(what, amount) for what, amount, limit in found if limit is not None]

    def _limit(self, what: str) -> int:
        """-1: none."""
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
        return lease.amount if what == "seats" or _holds(what, lease.label, now_s) else 0

    async def _lease(self, what: str, limit: int, need: int, now_s: float) -> None:
        lease, label = self._leases[what], _label(what, now_s)
        want = max(need - self._left(what, now_s), limit // SHARE, 1)
        least = need - self._left(what, now_s)
        if what == "seats":
            key = f"{PREFIX}:seats:{self._id}"
            alive = f"{PREFIX}:alive:"
            grant, rest, oldest = await self._shared.ask(_SEATS, key, limit, want, self._shared.name, alive)
        elif what in ("requests", "tokens"):
            key = f"{PREFIX}:{what}:{self._id}"
            grant, rest, oldest = await self._shared.ask(_RATE, key, label, limit, want, least)
        else:
            key = f"{PREFIX}:money:{self._id}:{label}"
            grant, rest, oldest = await self._shared.ask(_MONEY, key, limit, want, least)
        if lease.label != label and lease.amount > 0 and what != "seats":
            self._returns.append((what, lease.label, lease.amount))
            lease.amount = 0
        lease.label, lease.amount, lease.rest = label, lease.amount + grant, rest
        lease.wait_s = (oldest + 14) * SLOT_S - now_s

    def _amend(self, what: str, label: str, change: int) -> None:
        """`change` > 0: so much less was used than reserved."""
        lease = self._leases[what]
        if lease.label == label:
            lease.amount += change
        elif change:
            self._returns.append((what, label, change))

    async def _give(self, what: str, label: str, amount: int) -> None:
        client = self._shared.client
        if what == "seats":
            await client.hincrby(f"{PREFIX}:seats:{self._id}", self._shared.name, -amount)
        elif what in ("requests", "tokens"):
            await client.hincrby(f"{PREFIX}:{what}:{self._id}", label, -amount)
        else:
            await client.decrby(f"{PREFIX}:money:{self._id}:{label}", amount)


def _label(what: str, now_s: float) -> str:
    if what in ("requests", "tokens"):
        return str(int(now_s) // SLOT_S)
    day = day_of(now_s)
    return "" if what == "seats" else day if what == "day" else day[:7]


def _holds(what: str, label: str, now_s: float) -> bool:
    """A lease of a slot is good in the next one as well, so that none is lost where one slot becomes another."""
    if what in ("requests", "tokens"):
        return label != "" and int(label) >= int(now_s) // SLOT_S - 1
    return label == _label(what, now_s)


async def covered(meters: list[SharedMeter], need: Need, clock: Callable[[], float] = time.time) -> None:
    """Lease what `meters` lack for a request. Others may take it in between: who comes too late asks again."""
    for _ in range(3):
        now_s = clock()
        lacking: list[Awaitable[None]] = [m.refill(need, now_s) for m in meters if m.lacking(need, now_s)]
        if not lacking:
            return
        await asyncio.gather(*lacking)
