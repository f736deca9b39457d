"""Verified mode: how often a near answer is let out is learned, entry by entry, and held to an error bound.

After the idea of vCache (arXiv 2502.03771), with a bound that assumes less. For each entry we keep what became of
samples that were let through to the model: the cosine, and whether the fresh answer was the kept one. Assumed is only
that an entry's answer is not right less often for nearer prompts. Then of n samples no nearer than this prompt, of
which k were right, the lower Chernoff limit p of k/n at confidence 1 - e bounds the chance of being right from below
(exactly, where all were right), and that of being wrong is at most w = 1 - (1 - e) p. Serving with probability
min(1, d / w), else letting through, keeps the share of wrong answers among all prompts that found this entry at or
under d.

Not covered: answers that are right in other words count as wrong (unless a judge is given), which costs hits, not
truth; samples are kept in this process and are lost with it.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from math import inf, log
from random import Random
from typing import Any

from sluicegate.plugins import Answer

Judge = Callable[[tuple[Answer, ...], tuple[Answer, ...]], bool]
SAMPLES = 200
"""Most samples of an entry; older ones are dropped."""


class VerifiedMode:
    """`error_bound`: share of wrong answers allowed, 0 < d < 1. Used from one thread."""

    def __init__(self, error_bound: float, *, max_entries: int = 20_000, random: Random | None = None) -> None:
        self._bound = error_bound
        self._max_entries = max_entries
        self._random = random or Random()
        self._samples: OrderedDict[str, deque[tuple[float, bool]]] = OrderedDict()

    def trusts(self, entry: str, score: float) -> bool:
        """Decide at random, by `chance`, whether to serve the entry (True) or generate and call `learn` with the
        outcome."""
        return self._random.random() < self.chance(entry, score)

    def chance(self, entry: str, score: float) -> float:
        """Return the probability of serving the entry."""
        outcomes = [right for at, right in self._samples.get(entry, ()) if at <= score]
        wrong = 1.0 - confident_share(sum(outcomes), len(outcomes))
        return 1.0 if wrong <= self._bound else self._bound / wrong

    def learn(self, entry: str, score: float, right: bool) -> None:
        samples = self._samples.setdefault(entry, deque(maxlen=SAMPLES))
        samples.append((score, right))
        self._samples.move_to_end(entry)
        if len(self._samples) > self._max_entries:
            self._samples.popitem(last=False)

    def forget(self, entry: str) -> None:
        self._samples.pop(entry, None)


@lru_cache(maxsize=4096)
def confident_share(right: int, n: int) -> float:
    """Return (1 - e) times the lower limit of right/n at confidence 1 - e, where e = 1 / (n + 2). e depends on nothing
    but n, so that it is not chosen to please the sample. The limit is the p at which the binomial's Chernoff bound
    exp(-n KL(right/n || p)) is e."""
    if right == 0:
        return 0.0
    e, share = 1 / (n + 2), right / n
    low, high = 0.0, share
    for _ in range(50):
        middle = (low + high) / 2
        if n * _divergence(share, middle) > -log(e):
            low = middle
        else:
            high = middle
    return (1 - e) * low


def _divergence(share: float, p: float) -> float:
    """Return the Kullback-Leibler divergence of two coins, in nats; p <= share."""
    if p == 0:
        return inf
    rest = (1 - share) * log((1 - share) / (1 - p)) if share < 1 else 0.0
    return share * log(share / p) + rest


def same_answers(one: tuple[Answer, ...], other: tuple[Answer, ...]) -> bool:
    """Return whether two answers are equal as JSON values or, failing that, as text ignoring case and white space."""
    return len(one) == len(other) and all(_meant(a.text) == _meant(b.text) for a, b in zip(one, other, strict=True))


def _meant(text: str) -> Any:
    try:
        return "json", json.dumps(json.loads(text), sort_keys=True)
    except ValueError:
        return "text", " ".join(text.casefold().split())
