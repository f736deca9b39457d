"""Intervals and tests for shares and means; everything drawn comes from a seed."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959964
DRAWS = 4000
EXACT_UP_TO = 14
"""With at most this many differences, all 2^n signs are tried."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure of `n` cases with its 95 % interval."""

    n: int
    value: float
    low: float
    high: float


def share(right: int, n: int) -> Interval | None:
    """Return a share with the interval of Wilson (1927); None of nothing."""
    if n == 0:
        return None
    p = right / n
    middle, spread = p + Z * Z / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    low, high = (middle - spread) / (1 + Z * Z / n), (middle + spread) / (1 + Z * Z / n)
    return Interval(n, p, max(0.0, low), min(1.0, high))


def mean(values: Sequence[float], seed: int = 0, bounds: tuple[float, float] | None = None) -> Interval | None:
    """Return a mean with the percentile interval of the bootstrap (Efron 1979); None of nothing. Values within `bounds`
    that are all the same get the interval of `_unseen` instead: the bootstrap's has no width, however few they are."""
    if not values:
        return None
    if bounds is not None and min(values) == max(values):
        return _unseen(values[0], len(values), *bounds)
    rng, n = random.Random(f"bootstrap-{seed}"), len(values)
    draws = sorted(math.fsum(rng.choices(values, k=n)) / n for _ in range(DRAWS))
    return Interval(n, math.fsum(values) / n, draws[int(0.025 * DRAWS)], draws[int(0.975 * DRAWS)])


def _unseen(value: float, n: int, least: float, most: float) -> Interval:
    """Return the interval of `n` equal values. It reaches as far as the mean moves where as many cases differ as
    Wilson's interval allows of what was never seen in `n`, each by all that the bounds leave. For values at a bound it
    is Wilson's own."""
    other = Z * Z / (n + Z * Z)
    return Interval(n, value, value - other * (value - least), value + other * (most - value))


def mean_score(values: Sequence[float], seed: int = 0) -> Interval | None:
    """Return a mean of scores from 0 to 1; None of nothing. Where each is 0 or 1 it is a share."""
    if all(value in (0.0, 1.0) for value in values):
        return share(sum(value == 1.0 for value in values), len(values))
    return mean(values, seed, (0.0, 1.0))


def paired(differences: Sequence[float], seed: int = 0) -> float:
    """Return the two-sided p of "neither is better", by flipping signs (Fisher 1935): all of them where that is few,
    else `DRAWS` random ones."""
    moved = [difference for difference in differences if difference]
    if not moved:
        return 1.0
    found = abs(math.fsum(moved)) - 1e-9
    if len(moved) <= EXACT_UP_TO:
        sums = (math.fsum(d if bits >> i & 1 else -d for i, d in enumerate(moved)) for bits in range(2 ** len(moved)))
        return sum(abs(one) >= found for one in sums) / (1 << len(moved))
    rng = random.Random(f"signs-{seed}")
    hits = sum(abs(math.fsum(rng.choice((-d, d)) for d in moved)) >= found for _ in range(DRAWS))
    return (hits + 1) / (DRAWS + 1)


def kappa(left: Sequence[float], right: Sequence[float], levels: int = 5) -> float | None:
    """Return the agreement of two raters beyond chance, 1 = full, linearly weighted (Cohen 1968), over 0 to 1 in
    `levels` steps. None of nothing, and where both always give the same mark: it cannot be told then."""
    if not left:
        return None
    a, b = [round(x * (levels - 1)) for x in left], [round(x * (levels - 1)) for x in right]
    observed = sum(abs(x - y) for x, y in zip(a, b, strict=True)) / len(a)
    chance = sum(abs(x - y) for x in a for y in b) / len(a) ** 2
    return None if chance == 0 else 1 - observed / chance


def quantile(values: Sequence[float], q: float) -> float | None:
    """Return the quantile `q` by the nearest rank; None of nothing."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(q * len(ordered)) - 1 if q else 0)] if ordered else None
