"""Estimate how long a new request waits for its first text: for a slot, its prompt, and whatever delays its text.

The estimate is Little's law: the requests that wait, times the mean time between two first texts while any request
waits. It needs no figures from the generator, and covers more than the wait for a slot: even with slots for all, many
prompts are still read in turn.

A queue kept at exactly the acceptable wait makes half of the requests wait longer. So the target is lower, by a factor
that the first texts themselves adjust: a late one lowers it, once for all that the same congestion made late, and each
one in time raises it a little, however many there are (additive increase, multiplicative decrease: Chiu and Jain,
1989).
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable

DECAY = 0.98
"""Weight that older observations keep at each first text: about the last fifty count."""
INITIAL_TARGET, MIN_TARGET = 0.5, 0.1
"""Targets, as fractions of the acceptable wait."""
GROWTH = 1.5
SMOOTHING = 0.1
"""Weight of the newest first text in the running means."""
DECREASE, INCREASE = 0.9, 0.001
"""A late first text multiplies the target by the one; a first text in time adds the other."""
MAX_INCREASE = 0.01
"""The most that is added per acceptable wait of time. Without it, many quick texts would raise the target again between
two congestions, and every second would have late texts."""


class FirstTextEstimate:
    """Estimates the wait for a first text of one model. Used on the event loop."""

    def __init__(self, most_s: float = 0.0, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin without data. `most_s`: the longest acceptable wait for a first text, in seconds."""
        self._most_s = most_s
        self._clock = clock
        self._tenants: Counter[str] = Counter()
        """Requests that wait for their first text."""
        self._since_s = 0.0
        """Start of the current gap between first texts, while any request waits."""
        self._busy_s = 0.0
        self._count = 0.0
        self.target = INITIAL_TARGET
        self._lowered_s = -most_s
        self._raised_s = -most_s
        self._admitted_s = -most_s
        self._recent_s = 0.0
        """Running mean over about ten requests: seconds from arrival to first text."""
        self._waiting_then = 0.0
        """Running mean over the same requests: how many waited at their arrival, themselves included."""

    @property
    def waiting(self) -> int:
        return self._tenants.total()

    @property
    def target_s(self) -> float:
        """Return the longest expected wait, in seconds, with which a request is still admitted."""
        return self.target * self._most_s

    def expect(self, tenant: str) -> FirstTextWait:
        self._admitted_s = self._clock()
        if not self._tenants:
            self._since_s = self._admitted_s
        self._tenants[tenant] += 1
        return FirstTextWait(self, tenant, self.waiting)

    @property
    def is_idle(self) -> bool:
        """Return whether no request was admitted for `most_s` seconds and none waits. One must then be admitted, or no
        text could come in time and raise the aim again."""
        return not self._tenants and self._clock() - self._admitted_s >= self._most_s

    def wait_s(self, tenant: str) -> float:
        """Return the seconds until a new request of `tenant` has its first text, after those before it. Return 0 while
        nothing is known or nobody waits. Tenants take turns: of each other tenant's requests, at most one more than
        `tenant` has itself come before the new one."""
        if not self._count or not self._tenants or self._may_double():
            return 0.0
        own = self._tenants[tenant]
        others = len(self._tenants) - (1 if own else 0)
        before = own + min(self.waiting - own, (own + 1) * others)
        return (before + 1) * self._pace_s()

    def _may_double(self) -> bool:
        """Return whether up to half as many more as lately waited may be admitted, whatever the pace. They may where
        first texts came soon: while few wait, the pace is that of the few and below the possible one."""
        return self._recent_s <= self._most_s / 2 and self.waiting < GROWTH * self._waiting_then + 1

    def _pace_s(self) -> float:
        """Return the mean seconds from one first text to the next, the current gap included."""
        silent_s = self._clock() - self._since_s
        return max(self._busy_s / self._count, (self._busy_s + silent_s) / (self._count + 1))

    def settle(self, tenant: str, waiting_then: int, took_s: float | None) -> None:
        """End the wait of one request. `took_s`: seconds from its arrival to its first text; None where it ended
        without one."""
        now_s = self._clock()
        if took_s is not None:
            self._busy_s = DECAY * self._busy_s + now_s - self._since_s
            self._count = DECAY * self._count + 1
            self._since_s = now_s
            self._recent_s += SMOOTHING * (took_s - self._recent_s)
            self._waiting_then += SMOOTHING * (waiting_then - self._waiting_then)
            self._adjust_target(took_s)
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]

    def _adjust_target(self, took_s: float) -> None:
        now_s = self._clock()
        if took_s <= self._most_s:
            may_rise = MAX_INCREASE * (now_s - self._raised_s) / self._most_s if self._most_s else INCREASE
            self.target, self._raised_s = min(1.0, self.target + min(INCREASE, may_rise)), now_s
        elif now_s - self._lowered_s >= self._most_s:
            self.target, self._lowered_s = max(MIN_TARGET, self.target * DECREASE), now_s


class FirstTextWait:
    """One request's wait for its first text."""

    __slots__ = ("_tenant", "_texts", "_waiting_then")

    def __init__(self, texts: FirstTextEstimate, tenant: str, waiting_then: int) -> None:
        self._texts: FirstTextEstimate | None = texts
        self._tenant = tenant
        self._waiting_then = waiting_then

    def came(self, took_s: float) -> None:
        """Record that the first text came, `took_s` seconds after the request arrived."""
        self._settle(took_s)

    def gave_up(self) -> None:
        """Record that the request ended without a first text. Idempotent; does nothing once the text came."""
        self._settle(None)

    def _settle(self, took_s: float | None) -> None:
        if self._texts is not None:
            texts, self._texts = self._texts, None
            texts.settle(self._tenant, self._waiting_then, took_s)
