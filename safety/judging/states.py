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

from sluicegate.plugins import Caller, Channel, Request
from sluicegate.safety.judging.session import TOKEN_SUFFIX, Assessment, Joined, JudgedReading, TokenLogOdds

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

    labels: tuple[str, ...]
    window: int
    counts: dict[str, float]
    _starts: list[int] = field(default_factory=list)
    _ends: list[int] = field(default_factory=list)
    _firsts: list[int] = field(default_factory=lambda: [0])
    """Places in `_odds` of each part's first token, and of the next part's."""
    _odds: list[Mapping[str, float]] = field(default_factory=list)
    _worst: dict[str, list[float]] = field(default_factory=dict)
    """By label, for each part: the worst mean log-odds of a window of tokens that ends in it; -inf where none does."""
    _recent: dict[str, list[float]] = field(default_factory=dict)
    _scored: int = 0
    _judged: int = 0
    _open: dict[str, float] = field(default_factory=dict)
    """The worst scores of the first `_counted` parts, up to character `_open_to`; kept because every token asks."""
    _counted: int = 0
    _open_to: int = 0

    def add_log_odds(self, size: int, probed: TokenLogOdds, joined: Joined = ()) -> None:
        """Record the probes' log-odds for the next `size` characters. `joined`: characters and tokens of each of their
        parts; () = they are one. What does not add up counts as not scored."""
        parts = joined or ((size, len(probed)),)
        if not _adds_up(parts, size, len(probed)):
            parts, probed = ((size, 0),), ()
        wanted = self.labels
        chosen = probed if not wanted else [{label: one[label] for label in wanted if label in one} for one in probed]
        sizes, counts = zip(*parts, strict=True)
        places = list(itertools.accumulate(sizes, initial=self._scored))
        self._scored = places[-1]
        self._starts += places[:-1]
        self._ends += places[1:]
        self._firsts += list(itertools.accumulate(counts, initial=self._firsts[-1]))[1:]
        self._odds += chosen
        for label in dict.fromkeys(itertools.chain.from_iterable(chosen)):
            self._record_windows(label, chosen, len(parts))
        self.counts["tokens_total"] += len(chosen)

    def _record_windows(self, label: str, chosen: TokenLogOdds, parts: int) -> None:
        """Record the worst windows of the newest `parts` parts, whose tokens have the log-odds `chosen`."""
        column, before = self._worst.setdefault(label, []), len(self._starts) - parts
        column += [-math.inf] * (before - len(column))  # the parts before had no such label
        values = [odds[label] for odds in chosen if label in odds]
        recent = self._recent.get(label, []) + values
        means = _window_means(recent, len(recent) - len(values), self.window)
        self._recent[label] = recent[-self.window :]
        if parts == len(means) == len(chosen):
            column += means  # a token each, as most are
            return
        numbers = iter(means)
        for first, end in itertools.pairwise(self._firsts[before:]):
            inside = chosen[first - self._firsts[before] : end - self._firsts[before]]
            column.append(_worst([next(numbers) for odds in inside if label in odds]))

    def score_open_unit(self, end: int) -> Assessment:
        """Return the token scores of the unit being written, up to character `end`."""
        if end < self._open_to:
            self._begin_unit()
        first, self._open_to = self._counted, end
        self._counted = max(first, bisect_left(self._starts, end))
        for label, column in self._worst.items():
            if (worst := _worst(column[first : self._counted])) > -math.inf or math.isnan(worst):
                category = token_category(label)
                self._open[category] = _worst([self._open.get(category, 0.0), probability(worst)])
        return Assessment(self._open)

    def _begin_unit(self) -> None:
        self._open, self._counted, self._open_to = {}, 0, 0

    async def judge(self, unit: str) -> Assessment:
        """Judge the next unit. Raises `ValueError` if a part of it was not scored, or the model lacks a probe."""
        end = self._judged + len(unit)
        parts = bisect_left(self._starts, end)
        if unit and (not parts or self._ends[parts - 1] < end or not self._has_tokens(parts)):
            raise ValueError("no probe has looked at the states of this text")
        found = dict(self.score_open_unit(end).scores)
        tokens = self._tokens_to(parts, end) or self._odds[: self._firsts[parts]]
        for label in self.labels or dict.fromkeys([label for one in tokens for label in one]):
            odds = [one[label] for one in tokens if label in one]
            if unit and not odds:
                raise ValueError(f"the model has no probe {label!r}")
            found[label] = probability(sum(odds) / len(odds)) if odds else 0.0
        self.counts["units_total"] += 1
        self._judged = end
        self._forget(bisect_right(self._ends, end))
        self._begin_unit()
        return Assessment(found)

    def _has_tokens(self, parts: int) -> bool:
        """Return whether each of the first `parts` parts has a token that was scored."""
        return all(map(operator.lt, self._firsts[:parts], self._firsts[1 : parts + 1]))

    def _tokens_to(self, parts: int, end: int) -> list[Mapping[str, float]]:
        """Return the log-odds of the tokens of the first `parts` parts that belong to the unit up to character `end`:
        all of those that lie in it, and some of those that reach over its borders."""
        since = bisect_left(self._starts, self._judged, 0, parts)
        to = max(since, bisect_right(self._ends, end, 0, parts))
        found = [one for part in range(since) for one in self._within(part, end)]
        found += self._odds[self._firsts[since] : self._firsts[to]]
        return found + [one for part in range(to, parts) for one in self._within(part, end)]

    def _within(self, part: int, end: int) -> TokenLogOdds:
        """Return the log-odds of those of a part's tokens whose middle lies in the unit up to character `end`, as if
        they were equally long."""
        start, odds = self._starts[part], self._odds[self._firsts[part] : self._firsts[part + 1]]
        if start >= self._judged and self._ends[part] <= end:
            return odds
        each = (self._ends[part] - start) / max(1, len(odds))
        return [one for at, one in enumerate(odds) if self._judged <= start + each * (at + 0.5) < end]

    def _forget(self, parts: int) -> None:
        """Forget the first parts, which are judged."""
        tokens = self._firsts[parts]
        self._firsts = [first - tokens for first in self._firsts[parts:]]
        del self._starts[:parts], self._ends[:parts]
        for column in self._worst.values():
            del column[:parts]
        del self._odds[:tokens]


def _window_means(values: list[float], known: int, size: int) -> list[float]:
    """Return the mean of each window of `size` values, or of as many as there are, that ends behind the first `known`
    values."""
    if known >= size and sum(map(abs, values)) < EXACT_TO:
        totals = list(itertools.accumulate(values, initial=0.0))
        return [(to - since) / size for since, to in zip(totals[known + 1 - size :], totals[known + 1 :], strict=False)]
    return [sum(values[max(0, at - size) : at]) / min(at, size) for at in range(known + 1, len(values) + 1)]


def _adds_up(parts: Joined, size: int, tokens: int) -> bool:
    sizes, counts = zip(*parts, strict=True)
    return bool(min(sizes) >= 0 and min(counts) >= 0 and sum(sizes) == size and sum(counts) == tokens)


def _worst(values: Sequence[float]) -> float:
    """Return the largest value, -inf if there is none; NaN if one is, so that it is refused."""
    found = max(values, default=-math.inf)
    return math.nan if math.isnan(sum(values)) and any(map(math.isnan, values)) else found


def probability(log_odds: float) -> float:
    """Return the probability of `log_odds`; NaN stays NaN, which callers refuse."""
    if math.isnan(log_odds):
        return log_odds
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, log_odds))))
