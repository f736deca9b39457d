"""Judge an answer by probes on the answering model's hidden states, per sentence and per token.

The engine applies the probes in the pass that generates the answer (`engine/probes`); here their log-odds become
scores. A unit's score is the mean over its tokens. A token's score is the mean over the last few tokens, with a limit
and a category of its own (`LABEL/token`), so that a plainly bad answer is stopped before its sentence ends.

Not covered: text without states. An answer from the cache, or from a model without probes, gets no judgement and is not
released.
"""

from __future__ import annotations

import itertools
import math
import operator
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, cast

from sluicegate.plugins import Caller, Channel, Request, TokenLogOdds, TokenScores
from sluicegate.safety.judging.session import TOKEN_SUFFIX, Assessment, Joined, JudgedReading

EXACT_TO = 1e6
"""Sums of float32 up to here are exact to ten digits as differences of sums; others are added up."""


def token_category(label: str) -> str:
    return f"{label}{TOKEN_SUFFIX}"


class ProbeAnswerJudge:
    """Turns the probes' log-odds into scores. `labels`: the probes to use; empty = all of the model's. `window`: tokens
    averaged for a token's score. Shared by requests."""

    reads_states = True

    def __init__(self, labels: Sequence[str] = (), window: int = 16) -> None:
        self.labels = tuple(labels)
        self._window = window
        self._counts = {"units_total": 0.0, "tokens_total": 0.0}

    def stats(self) -> Mapping[str, float]:
        return self._counts

    def read(self, request: Request, caller: Caller, channel: Channel, lead: str) -> JudgedReading:
        return ProbedText(self.labels, self._window, self._counts)


@dataclass(slots=True)
class ProbedText:
    """Mutable, for one text. Call `add_log_odds` before judging the units it covers.

    The text is kept in parts, each with the log-odds of its tokens; in columns, since most parts are a token.
    """

    judges_at_once: ClassVar[bool] = True

    labels: tuple[str, ...]
    window: int
    counts: dict[str, float]
    _places: list[int] = field(default_factory=lambda: [0])
    """Where each part begins, and where the next one will."""
    _firsts: list[int] = field(default_factory=lambda: [0])
    """Number of each part's first token, and of the next part's."""
    _forgotten: int = 0
    """Tokens that the columns begin behind."""
    _misses: bool = False
    """Whether a part had no token."""
    _odds: dict[str, list[float | None]] = field(default_factory=dict)
    """By label, for each token: its log-odds; None where the label has none."""
    _means: dict[str, list[float]] = field(default_factory=dict)
    """By label, for each token: the mean log-odds of the window that ends in it; -inf where it has none."""
    _recent: dict[str, list[float]] = field(default_factory=dict)
    _judged: int = 0
    _open: dict[str, float] = field(default_factory=dict)
    """The worst scores of the first `_counted` parts, up to character `_open_to`; kept because every token asks."""
    _counted: int = 0
    _open_to: int = 0

    def add_log_odds(self, size: int, probed: TokenLogOdds, joined: Joined = ()) -> None:
        """Record the probes' log-odds for the next `size` characters. `joined`: characters and tokens of each of their
        parts; () = they are one. What does not add up counts as not scored."""
        sizes, counts = zip(*(joined or ((size, len(probed)),)), strict=True)
        if min(sizes) < 0 or min(counts) < 0 or sum(sizes) != size or sum(counts) != len(probed):
            sizes, counts, probed = (size,), (0,), ()
        before, place = self._firsts.pop(), self._places.pop()
        self._places.extend(itertools.accumulate(sizes, initial=place))
        self._firsts.extend(itertools.accumulate(counts, initial=before))
        self._misses = self._misses or 0 in counts
        columns = _columns(probed, self.labels)
        for label in [*self._odds, *(columns.keys() - self._odds.keys())]:
            self._record(label, columns.get(label) or [None] * len(probed), before - self._forgotten)
        self.counts["tokens_total"] += len(probed)

    def _record(self, label: str, new: list[float | None], before: int) -> None:
        """Record the log-odds of new tokens, behind the `before` that are kept, and the means of their windows."""
        if label not in self._odds:
            self._odds[label], self._means[label] = [None] * before, [-math.inf] * before
        odds, means = self._odds[label], self._means[label]
        values = [value for value in new if value is not None] if None in new else cast(list[float], new)
        recent = self._recent.get(label, []) + values
        found = _window_means(recent, len(recent) - len(values), self.window)
        self._recent[label] = recent[-self.window :]
        odds += new
        if len(values) == len(new):
            means += found
            return
        numbers = iter(found)
        means += [-math.inf if value is None else next(numbers) for value in new]

    def score_open_unit(self, end: int) -> Assessment:
        """Return the token scores of the unit being written, up to character `end`."""
        if end < self._open_to:
            self._begin_unit()
        first, self._open_to = self._counted, end
        self._counted = max(first, self._parts_before(end))
        since, to = self._firsts[first] - self._forgotten, self._firsts[self._counted] - self._forgotten
        for label, means in self._means.items() if to > since else ():
            if (worst := _worst(means[since:to])) > -math.inf or math.isnan(worst):
                category = token_category(label)
                self._open[category] = _worst([self._open.get(category, 0.0), probability(worst)])
        return Assessment(self._open)

    def _parts_before(self, end: int) -> int:
        """Return how many parts begin before character `end`."""
        return bisect_left(self._places, end, 0, len(self._places) - 1)

    def _parts_within(self, end: int) -> int:
        """Return how many parts end at character `end` or before."""
        return bisect_right(self._places, end, 1) - 1

    def _begin_unit(self) -> None:
        self._open, self._counted, self._open_to = {}, 0, 0

    async def judge(self, unit: str) -> Assessment:
        """Judge the next unit. Raises `ValueError` if a part of it was not scored, or the model lacks a probe."""
        end = self._judged + len(unit)
        parts = self._parts_before(end)
        if unit and (not parts or self._places[parts] < end or not self._has_tokens(parts)):
            raise ValueError("no probe has looked at the states of this text")
        found = dict(self.score_open_unit(end).scores)
        tokens = self._tokens_to(parts, end) or [(0, self._firsts[parts] - self._forgotten)]
        for label in self.labels or self._odds:
            column = self._odds.get(label, ())
            odds = [one for since, to in tokens for one in column[since:to] if one is not None]
            if unit and not odds and self.labels:
                raise ValueError(f"the model has no probe {label!r}")
            if odds or self.labels:
                found[label] = probability(sum(odds) / len(odds)) if odds else 0.0
        self.counts["units_total"] += 1
        self._judged = end
        self._forget(self._parts_within(end))
        self._begin_unit()
        return Assessment(found)

    def _has_tokens(self, parts: int) -> bool:
        """Return whether each of the first `parts` parts has a token that was scored."""
        return not self._misses or all(map(operator.lt, self._firsts[:parts], self._firsts[1 : parts + 1]))

    def _tokens_to(self, parts: int, end: int) -> list[tuple[int, int]]:
        """Return the ranges of tokens of the first `parts` parts that belong to the unit up to character `end`: all of
        those that lie in it, and some of those that reach over its borders."""
        since = bisect_left(self._places, self._judged, 0, parts)
        to = max(since, min(parts, self._parts_within(end)))
        found = [token for part in range(since) for token in self._tokens_within(part, end)] if since else []
        if self._firsts[to] > self._firsts[since]:
            found.append((self._firsts[since] - self._forgotten, self._firsts[to] - self._forgotten))
        for part in range(to, parts):
            found += self._tokens_within(part, end)
        return found

    def _tokens_within(self, part: int, end: int) -> list[tuple[int, int]]:
        """Return those of a part's tokens whose middle lies in the unit up to character `end`, as if they were equally
        long."""
        start = self._places[part]
        first, last = self._firsts[part] - self._forgotten, self._firsts[part + 1] - self._forgotten
        if start >= self._judged and self._places[part + 1] <= end:
            return [(first, last)] if last > first else []
        if last - first == 1:
            return [(first, last)] if self._judged <= start + (self._places[part + 1] - start) * 0.5 < end else []
        each = (self._places[part + 1] - start) / max(1, last - first)
        middles = [start + each * (at + 0.5) for at in range(last - first)]
        return [(first + at, first + at + 1) for at, middle in enumerate(middles) if self._judged <= middle < end]

    def _forget(self, parts: int) -> None:
        """Forget the first parts, which are judged."""
        tokens = self._firsts[parts] - self._forgotten
        self._forgotten += tokens
        del self._places[:parts], self._firsts[:parts]
        for label, means in self._means.items():
            del means[:tokens], self._odds[label][:tokens]


def _columns(probed: TokenLogOdds, labels: Sequence[str]) -> dict[str, list[float | None]]:
    """Return log-odds by label, of `labels` or of all if there are none; None where a token has none."""
    if not probed:
        return {}
    if isinstance(probed, TokenScores):
        return {label: list(column) for label, column in probed.columns.items() if not labels or label in labels}
    first = probed[0]
    if not labels and sum(map(len, probed)) == len(first) * len(probed):
        try:  # the labels of one model
            return {label: list(map(operator.itemgetter(label), probed)) for label in first}
        except KeyError:
            pass
    known = dict.fromkeys(itertools.chain.from_iterable(probed))
    return {label: [odds.get(label) for odds in probed] for label in known if not labels or label in labels}


def _window_means(values: list[float], known: int, size: int) -> list[float]:
    """Return the mean of each window of `size` values, or of as many as there are, that ends behind the first `known`
    values."""
    is_exact = sum(map(abs, values)) < EXACT_TO
    short = min(max(known, size), len(values)) if is_exact else len(values)
    means = [sum(values[max(0, at - size) : at]) / min(at, size) for at in range(known + 1, short + 1)]
    if short == len(values):
        return means
    totals = list(itertools.accumulate(values, initial=0.0))
    return means + [gain / size for gain in map(operator.sub, totals[short + 1 :], totals[short + 1 - size :])]


def _worst(values: Sequence[float]) -> float:
    """Return the largest value, -inf if there is none; NaN if one is, so that it is refused."""
    found = max(values, default=-math.inf)
    return math.nan if math.isnan(sum(values)) and any(map(math.isnan, values)) else found


def probability(log_odds: float) -> float:
    """Return the probability of `log_odds`; NaN stays NaN, which callers refuse."""
    if math.isnan(log_odds):
        return log_odds
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, log_odds))))
