"""Evidence that one of two versions is worse, which may be looked at after every request.

Each request goes to the canary with a known probability p, drawn before anybody knows how it will go: A is 1 or 0. What
is observed of it, v in [0, 1], is the better the smaller. For a bound m on how much worse the canary may be,

    d = (A - p) (v - m A - c)        E[d | past] = p (1 - p) (E[v | canary] - m - E[v | baseline])

for every c that was known before. So a bettor who stakes a share of their wealth on d > 0 wins in the mean only where
the canary is worse by more than m: their wealth is a nonnegative supermartingale otherwise, and ever reaches 1/a with
probability a at most (Ville 1939), however often one looks. The mean of several bettors' wealth is one, too.

Source: betting by Waudby-Smith and Ramdas (2024), with stakes mixed in place of tuned; randomisation as the only
assumption by Ham, Bojinov, Lindon and Tingley (2023). Nothing is assumed of v: not that requests are alike, nor that
load, callers and prompts stay the same.

Not covered: outcomes that depend on how other requests were drawn (a canary that slows its neighbours down), and
requests that never end.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STAKES = (0.02, 0.05, 0.1, 0.2, 0.4, 0.8)
"""Bets of the individual bettors, as fractions of the largest stake that cannot lose more than the wealth."""
PRIOR, PRIOR_WEIGHT = 0.1, 10.0
"""Initial value and weight of the running mean: it narrows the bets and does not affect the error bounds."""


@dataclass(slots=True)
class Wealth:
    """Of all bettors on one side, as logarithms."""

    logs: list[float] = field(default_factory=lambda: [0.0] * len(STAKES))

    @property
    def log(self) -> float:
        """Return the logarithm of the bettors' mean wealth."""
        most = max(self.logs)
        return most + math.log(sum(math.exp(one - most) for one in self.logs) / len(self.logs))

    def bet(self, difference: float, worst: float) -> None:
        """Let every bettor bet on `difference`. `worst`: the largest loss that it could have been, above 0."""
        for number, share in enumerate(STAKES):
            self.logs[number] += math.log1p(share * difference / worst)


@dataclass(slots=True)
class Arm:
    n: int = 0
    total: float = 0.0

    @property
    def mean(self) -> float | None:
        return self.total / self.n if self.n else None


@dataclass(slots=True)
class Evidence:
    """Of one metric. `tolerance`: how much worse still counts as no worse where a canary is to be proven fine."""

    tolerance: float
    worse: Wealth = field(default_factory=Wealth)
    fine: Wealth = field(default_factory=Wealth)
    canary: Arm = field(default_factory=Arm)
    baseline: Arm = field(default_factory=Arm)

    def add(self, is_canary: bool, p: float, value: float) -> None:
        """Add one request. `p`: the probability, in (0, 1), with which it went to the canary; `value` in [0, 1]. Raises
        `ValueError` for values outside of these."""
        if not 0 < p < 1 or not 0 <= value <= 1:
            raise ValueError(f"p {p!r} and value {value!r} must lie in (0, 1) and [0, 1]")
        a, c, m = float(is_canary), self._centre, self.tolerance
        self.worse.bet((a - p) * (value - c), max((1 - p) * c, p * (1 - c)))
        self.fine.bet((p - a) * (value - m * a - c), max((1 - p) * max(1 - m - c, 0), p * c))
        arm = self.canary if is_canary else self.baseline
        arm.n += 1
        arm.total += value

    @property
    def _centre(self) -> float:
        """Return the mean so far, inside (0, 1)."""
        n, total = self.canary.n + self.baseline.n, self.canary.total + self.baseline.total
        return min(0.99, max(0.001, (total + PRIOR * PRIOR_WEIGHT) / (n + PRIOR_WEIGHT)))

    def to_json(self) -> dict[str, Any]:
        return {
            "tolerance": self.tolerance,
            "worse": self.worse.logs,
            "fine": self.fine.logs,
            "canary": [self.canary.n, self.canary.total],
            "baseline": [self.baseline.n, self.baseline.total],
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> Evidence:
        """Read evidence from JSON. Raises `ValueError`, `TypeError` or `KeyError` for what is not evidence."""
        arms = {name: Arm(int(kept[name][0]), float(kept[name][1])) for name in ("canary", "baseline")}
        return cls(float(kept["tolerance"]), _wealth(kept["worse"]), _wealth(kept["fine"]), **arms)


@dataclass(slots=True)
class Ranks:
    """Makes a number in [0, 1] of a time: the share of the newest times before it, of both versions, that are shorter.

    They were known before, so that it is a fair measure for both; it needs no threshold and no outlier moves it."""

    newest: list[float] = field(default_factory=list)
    KEPT = 200
    LEAST = 10
    """Fewest times before one can be called slow."""

    def of(self, seconds: float) -> float | None:
        if len(self.newest) < self.LEAST:
            return None
        below = sum(one < seconds for one in self.newest)
        same = sum(one == seconds for one in self.newest)
        return (below + same / 2) / len(self.newest)

    def add(self, seconds: float) -> None:
        self.newest.append(seconds)
        del self.newest[: -self.KEPT]


def _wealth(logs: Sequence[Any]) -> Wealth:
    found = [float(one) for one in logs]
    if len(found) != len(STAKES) or any(math.isnan(one) for one in found):
        raise ValueError(f"{len(STAKES)} bettors expected, found {logs!r}")
    return Wealth(found)
