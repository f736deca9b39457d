"""Judge an answer by probes on the answering model's hidden states, per sentence and per token.

The engine applies the probes in the pass that generates the answer (`engine/probes`); here their log-odds become
scores. A unit's score is the mean over its tokens. A token's score is the mean over the last few tokens, with a limit
and a category of its own (`LABEL/token`), so that a plainly bad answer is stopped before its sentence ends.

Not covered: text without states. An answer from the cache, or from a model without probes, gets no judgement and is not
released.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sluicegate.plugins import Caller, Channel, Request
from sluicegate.safety.judging.session import TOKEN_SUFFIX, Assessment, JudgedReading, TokenLogOdds


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


class _ScoredSpan(NamedTuple):
    """Characters [start, end) of the text, with the log-odds of each of their tokens, and the worst window score by
    label."""

    start: int
    end: int
    odds: TokenLogOdds
    worst: Mapping[str, float]

    def within(self, start: int, end: int) -> TokenLogOdds:
        """Return the log-odds of the tokens whose middle lies in characters [start, end), as if all tokens were equally
        long."""
        each = (self.end - self.start) / max(1, len(self.odds))
        return [one for at, one in enumerate(self.odds) if start <= self.start + each * (at + 0.5) < end]


@dataclass(slots=True)
class ProbedText:
    """Mutable, for one text. Call `add_log_odds` before judging the units it covers."""

    labels: tuple[str, ...]
    window: int
    counts: dict[str, float]
    _parts: deque[_ScoredSpan] = field(default_factory=deque)
    _recent: dict[str, deque[float]] = field(default_factory=dict)
    _scored: int = 0
    _judged: int = 0
    _open: dict[str, float] = field(default_factory=dict)
    """The worst scores of the first `_counted` parts, up to character `_open_to`; kept because every token asks."""
    _counted: int = 0
    _open_to: int = 0

    def add_log_odds(self, size: int, probed: TokenLogOdds) -> None:
        """Record the probes' log-odds for the next `size` characters."""
        wanted = self.labels
        chosen = probed if not wanted else [{label: one[label] for label in wanted if label in one} for one in probed]
        worst: dict[str, float] = {}
        for odds in chosen:
            for label, value in odds.items():
                recent = self._recent.get(label)
                if recent is None:
                    recent = self._recent[label] = deque(maxlen=self.window)
                recent.append(value)
                score = probability(sum(recent) / len(recent))
                before = worst.get(label, 0.0)
                worst[label] = score if score > before or math.isnan(score) else before  # NaN stays, and is refused
        self.counts["tokens_total"] += len(chosen)
        self._parts.append(_ScoredSpan(self._scored, self._scored + size, chosen, worst))
        self._scored += size

    def score_open_unit(self, end: int) -> Assessment:
        """Return the token scores of the unit being written, up to character `end`."""
        if end < self._open_to:
            self._begin_unit()
        while self._counted < len(self._parts) and (part := self._parts[self._counted]).start < end:
            self._counted += 1
            if part.end > self._judged:
                self._count(part.worst)
        self._open_to = end
        return Assessment(self._open)

    def _count(self, worst: Mapping[str, float]) -> None:
        for label, score in worst.items():
            category = token_category(label)
            before = self._open.get(category, 0.0)
            self._open[category] = before if math.isnan(before) or before > score else score

    def _begin_unit(self) -> None:
        self._open, self._counted, self._open_to = {}, 0, 0

    async def judge(self, unit: str) -> Assessment:
        """Judge the next unit. Raises `ValueError` if a part of it was not scored, or the model lacks a probe."""
        end = self._judged + len(unit)
        covering = [part for part in self._parts if part.start < end and part.end > self._judged]
        if unit and (not covering or covering[-1].end < end or not all(part.odds for part in covering)):
            raise ValueError("no probe has looked at the states of this text")
        found = dict(self.score_open_unit(end).scores)
        tokens = [one for part in covering for one in part.within(self._judged, end)]
        tokens = tokens or [one for part in covering for one in part.odds]
        for label in self.labels or dict.fromkeys(label for one in tokens for label in one):
            odds = [one[label] for one in tokens if label in one]
            if unit and not odds:
                raise ValueError(f"the model has no probe {label!r}")
            found[label] = probability(sum(odds) / len(odds)) if odds else 0.0
        self.counts["units_total"] += 1
        self._judged = end
        while self._parts and self._parts[0].end <= end:
            self._parts.popleft()
        self._begin_unit()
        return Assessment(found)


def probability(log_odds: float) -> float:
    """Return the probability of `log_odds`; NaN stays NaN, which callers refuse."""
    if math.isnan(log_odds):
        return log_odds
    return 1.0 / (1.0 + math.exp(-max(-60.0, min(60.0, log_odds))))
