"""How long a request that comes now waits for its first text: a place, its prompt, and whatever holds its text back.

By Little's law: so many wait before it, and first texts come at such a pace while any is awaited. That needs nothing
from the generator, and counts what a place alone does not: with places for all, many prompts are still read in turn.

A queue that is kept at exactly the wait that callers bear makes half of them wait longer. So the law aims lower, by a
margin that the first texts themselves adjust: late ones lower it, once for all that the same jam made late, and each
that is in time raises it a little, however many there are (additive increase, multiplicative decrease: Chiu and Jain,
1989).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

KEPT = 0.98
"""Of what was seen before, at each first text: the last fifty or so decide."""
FIRST_AIM, LEAST_AIM = 0.5, 0.1
"""Shares of the wait that callers bear."""
GROWS = 1.5
NEWEST = 0.1
"""Weight of the newest first text in what is known of the last ones."""
BACK, ON = 0.9, 0.001
"""What a late first text multiplies the share by, and what one in time adds."""
RISES = 0.01
"""The most that is added while as much time passes as callers bear: many quick texts would else undo between two jams
what each of them taught, and every second would have its late ones."""


class FirstTexts:
    """The waits for first texts of one model. Used on the event loop."""

    def __init__(self, most_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without data. `most_s`: the longest acceptable wait for a first text, in seconds."""
        self._most_s = most_s
        self._clock = clock
        self._tenants: Counter[str] = Counter()
        """Requests that wait for their first text."""
        self._since_s = 0.0
        """From when on the time counts as busy, while any waits."""
        self._busy_s = 0.0
        self._came = 0.0
        self.aim = FIRST_AIM
        self._lowered_s = -most_s
        self._raised_s = -most_s
        self._let_in_s = -most_s
        self._recent_s = 0.0
        """Of the last ten or so, from arrival to first text."""
        self._beside = 0.0
        """How many waited when those came, themselves included."""

    @property
    def waiting(self) -> int:
        return self._tenants.total()

    @property
    def aim_s(self) -> float:
        """Return the longest expected wait, in seconds, with which a request is still admitted."""
        return self.aim * self._most_s

    def expect(self, tenant: str) -> Awaited:
        self._let_in_s = self._clock()
        if not self._tenants:
            self._since_s = self._let_in_s
        self._tenants[tenant] += 1
        return Awaited(self, tenant, self.waiting)

    @property
    def rests(self) -> bool:
        """Return whether no request was admitted for `most_s` seconds and none waits. One must then be admitted, or no
        text could come in time and raise the aim again."""
        return not self._tenants and self._clock() - self._let_in_s >= self._most_s

    def wait_s(self, tenant: str) -> float:
        """Return the seconds until a new request of `tenant` has its first text, after those before it. Return 0 while
        nothing is known or nobody waits. Tenants take turns: of each other tenant's requests, at most one more than
        `tenant` has itself come before the new one."""
        if not self._came or not self._tenants or self._may_double():
            return 0.0
        own = self._tenants[tenant]
        others = len(self._tenants) - (1 if own else 0)
        before = own + min(self.waiting - own, (own + 1) * others)
        return (before + 1) * self._pace_s()

    def _may_double(self) -> bool:
        """Return whether up to half as many more as lately waited may be admitted, whatever the pace. They may where
        first texts came soon: while few wait, the pace is that of the few and below the possible one."""
        return self._recent_s <= self._most_s / 2 and self.waiting < GROWS * self._beside + 1

    def _pace_s(self) -> float:
        """Return the mean seconds from one first text to the next, the current gap included."""
        silent_s = self._clock() - self._since_s
        return max(self._busy_s / self._came, (self._busy_s + silent_s) / (self._came + 1))

    def settle(self, tenant: str, beside: int, took_s: float | None) -> None:
        """End the wait of one request. `took_s`: seconds from its arrival to its first text; None where it ended
        without one."""
        now_s = self._clock()
        if took_s is not None:
            self._busy_s = KEPT * self._busy_s + now_s - self._since_s
            self._came = KEPT * self._came + 1
            self._since_s = now_s
            self._recent_s += NEWEST * (took_s - self._recent_s)
            self._beside += NEWEST * (beside - self._beside)
            self._adjust(took_s)
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]

    def _adjust(self, took_s: float) -> None:
        now_s = self._clock()
        if took_s <= self._most_s:
            may_rise = RISES * (now_s - self._raised_s) / self._most_s if self._most_s else ON
            self.aim, self._raised_s = min(1.0, self.aim + min(ON, may_rise)), now_s
        elif now_s - self._lowered_s >= self._most_s:
            self.aim, self._lowered_s = max(LEAST_AIM, self.aim * BACK), now_s


class Awaited:
    """The wait of one request for its first text."""

    __slots__ = ("_beside", "_tenant", "_texts")

    def __init__(self, texts: FirstTexts, tenant: str, beside: int) -> None:
        self._texts: FirstTexts | None = texts
        self._tenant = tenant
        self._beside = beside

    def came(self, took_s: float) -> None:
        """Record that the first text came, `took_s` seconds after the request arrived."""
        self._settle(took_s)

    def gave_up(self) -> None:
        """Record that the request ended without a first text. Idempotent; does nothing once the text came."""
        self._settle(None)

    def _settle(self, took_s: float | None) -> None:
        if self._texts is not None:
            texts, self._texts = self._texts, None
            texts.settle(self._tenant, self._beside, took_s)
