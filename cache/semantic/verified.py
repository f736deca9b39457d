"""Verified mode: how often a near answer is let out is learned, entry by entry, and held to an error bound.

After the idea of vCache (arXiv 2502.03771). Two limits hold for each entry, and the stricter one counts:

- What its samples tell. A sample is a prompt that was let through to the model: its cosine, and whether the fresh
  answer was the kept one. Of n samples no nearer than this prompt, of which k were right, the lower Chernoff limit p of
  k/n at confidence 1 - e bounds the chance of being right from below (exactly, where all were right), and that of being
  wrong is at most w = 1 - (1 - e) p. The entry is served with probability min(1, d / w). That assumes that an answer is
  not right less often for nearer prompts, and that prompts go on as they came.
- What it has saved. Each prompt that found the entry adds d to its savings. A trial at a chance p of serving costs
  p / (1 - p), which is given back where the fresh answer was the kept one. A chance is never higher than what the
  savings can pay. Of prompts with a wrong answer a share p is served and a share 1 - p pays for it, so what was paid is
  on average what was served wrong, and the share of wrong answers among all prompts that found the entry stays at or
  under d on average, whatever they are, in whatever order: near misses that are nearer than paraphrases, or come when
  all was right.

Not covered: answers that are right in other words count as wrong (unless a judge is given), and trials without a whole
answer as well; both cost hits, not truth. Samples are kept in this process and are lost with it.
"""

from __future__ import annotations

import json
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf, log
from random import Random
from typing import Any

from sluicegate.plugins import Answer

Judge = Callable[[tuple[Answer, ...], tuple[Answer, ...]], bool]
SAMPLES = 200
"""Most samples of an entry; older ones are dropped."""


MOST_SAVED = 20.0
"""Most wrong answers that an entry's savings may pay for at once, however long it was right."""


@dataclass(slots=True)
class _History:
    """Samples of one entry (cosine, whether it was right), and its savings: wrong answers that it may still give."""

    samples: deque[tuple[float, bool]] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    saved: float = 0.0

    def earn(self, share: float) -> None:
        self.saved = min(MOST_SAVED, self.saved + share)


class VerifiedMode:
    """`error_bound`: share of wrong answers allowed, 0 < d < 1. Used from one thread."""

    def __init__(self, error_bound: float, *, max_entries: int = 20_000, random: Random | None = None) -> None:
        self._bound = error_bound
        self._max_entries = max_entries
        self._random = random or Random()
        self._histories: OrderedDict[str, _History] = OrderedDict()

    def decide(self, entry: str, score: float) -> float | None:
        """Decide at random whether to serve the entry (None). If not, return the chance there was, for `learn`: it is
        paid for as if the answer were wrong until that is called."""
        chance = self.chance(entry, score)
        history = self._history(entry)
        history.earn(self._bound)
        if self._random.random() < chance:
            return None
        history.saved -= chance / (1 - chance)
        return chance

    def chance(self, entry: str, score: float) -> float:
        """Return the probability of serving the entry."""
        history = self._histories.get(entry, _History())
        outcomes = [right for at, right in history.samples if at <= score]
        wrong = 1.0 - confident_share(sum(outcomes), len(outcomes))
        saved = history.saved + self._bound
        return min(1.0, self._bound / wrong, saved / (1 + saved))

    def learn(self, entry: str, score: float, right: bool, chance: float) -> None:
        """Add a sample of an entry. `chance`: what `decide` returned."""
        history = self._history(entry)
        history.samples.append((score, right))
        if right:
            history.earn(chance / (1 - chance))

    def forget(self, entry: str) -> None:
        self._histories.pop(entry, None)

    def _history(self, entry: str) -> _History:
        history = self._histories.setdefault(entry, _History())
        self._histories.move_to_end(entry)
        if len(self._histories) > self._max_entries:
            self._histories.popitem(last=False)
        return history


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
