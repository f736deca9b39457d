"""How long a request that comes now waits for its first text: a place, its prompt, and whatever holds its text back.

By Little's law: so many wait before it, and first texts come at such a rate while any is awaited. That needs nothing
from the generator, and counts what a place alone does not: with places for all, many prompts are still read in turn.
"""

from __future__ import annotations

import time
from collections import Counter

KEPT = 0.98
"""Of what was seen before, at each first text: the last fifty or so decide."""


class FirstTexts:
    """Of one model. Used on the event loop."""

    def __init__(self) -> None:
        self._tenants: Counter[str] = Counter()
        """Requests that wait for their first text."""
        self._since_s = 0.0
        """From when on the time counts as busy, while any waits."""
        self._busy_s = 0.0
        self._came = 0.0

    @property
    def waiting(self) -> int:
        return self._tenants.total()

    def expect(self, tenant: str) -> Awaited:
        if not self._tenants:
            self._since_s = time.monotonic()
        self._tenants[tenant] += 1
        return Awaited(self, tenant)

    def wait_s(self, tenant: str) -> float:
        """Seconds until those before a new request of `tenant` have their first text; 0 while nothing is known. Tenants
        take turns, so that of another's many requests only as many are before it as it has itself, and one."""
        if not self._came:
            return 0.0
        own = self._tenants[tenant]
        others = len(self._tenants) - (1 if own else 0)
        before = own + min(self.waiting - own, (own + 1) * others)
        return before * self._busy_s / self._came

    def settle(self, tenant: str, *, came: bool) -> None:
        now_s = time.monotonic()
        if came:
            self._busy_s = KEPT * self._busy_s + now_s - self._since_s
            self._came = KEPT * self._came + 1
            self._since_s = now_s
        self._tenants[tenant] -= 1
        if not self._tenants[tenant]:
            del self._tenants[tenant]


class Awaited:
    """One request's first text."""

    __slots__ = ("_tenant", "_texts")

    def __init__(self, texts: FirstTexts, tenant: str) -> None:
        self._texts: FirstTexts | None = texts
        self._tenant = tenant

    def came(self) -> None:
        self._settle(came=True)

    def gave_up(self) -> None:
        """It ended without any. Idempotent, and without effect once it came."""
        self._settle(came=False)

    def _settle(self, *, came: bool) -> None:
        if self._texts is not None:
            texts, self._texts = self._texts, None
            texts.settle(self._tenant, came=came)
