"""Propose where a head of the classifier rings: the midpoint of its score moves, its words stay.

Of all midpoints at which no harmless set rings more often than allowed, or than it does now, and no set of attacks
loses more recall than allowed, the one is proposed at which fewest reports are judged wrongly; of equals the nearest.
What a rule finds, and not the head, rings wherever the midpoint is.

Not covered: a report that looks like the opposite kind to the head. It is shown as still wrong, and needs a blocklist
or a retrained head (`training.detector.train`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sluicegate.gateway.commands.redteam import RedteamRow
from sluicegate.gateway.commands.statistics import share
from sluicegate.gateway.commands.tables import table
from sluicegate.safety.detection.classifier import Classifier, load
from sluicegate.safety.detection.detector import Detector

RINGS = 0.5
STEPS = 400
Scored = tuple[RedteamRow, float]
"""A text, and its score before anything is moved."""


@dataclass(frozen=True, slots=True)
class TuningProposal:
    """`shift`: of the log-odds of every score; 0 = nothing better was found. `rows`: for each set its name, texts, and
    the share that rings now and then."""

    head: str
    shift: float
    weights: Classifier
    rows: Sequence[tuple[str, int, float, float]]
    wrong: tuple[int, int]
    """Reports that are judged wrongly: now, and then."""

    def as_json(self) -> dict[str, Any]:
        sets = [{"set": name, "rows": n, "now": now, "then": then} for name, n, now, then in self.rows]
        return {"head": self.head, "shift": round(self.shift, 4), "wrong": list(self.wrong), "sets": sets}

    def as_text(self) -> str:
        shown = [(name, n, f"{now:.1%}", _percent(then, n)) for name, n, now, then in self.rows]
        verdict = f"{self.head}: scores move by {self.shift:+.3f} log-odds" if self.shift else f"{self.head}: no change"
        said = f"{verdict}; reports judged wrongly: {self.wrong[0]} now, {self.wrong[1]} then"
        return "\n".join([table(("set", "texts", "rings now", "rings then (95 %)"), shown), said])


def proposal(
    weights: Path,
    head: str,
    reports: Sequence[RedteamRow],
    sets: Sequence[RedteamRow],
    false_alarms: float,
    may_lose: float,
) -> TuningProposal:
    """Raises `ConfigurationError` where the weights cannot be read."""
    classifier = load(weights)
    detector = Detector(classifier)
    told, held = _scored(detector, head, reports), _scored(detector, head, sets)
    groups = _groups(held)
    best, fewest = 0.0, _wrong(told, 0.0)
    for shift in _shifts(told):
        bearable = (_bearable(group, shift, false_alarms, may_lose) for group in groups.values())
        if _wrong(told, shift) < fewest and all(bearable):
            best, fewest = shift, _wrong(told, shift)
    one = classifier.heads[head]
    moved = replace(one, midpoint=one.midpoint - best / one.slope)
    about = {**classifier.about, "tuned": {"head": head, "shift": best}}
    shown = {**_groups(told), **groups}.items()
    rows = [(name, len(group), _rings(group, 0.0), _rings(group, best)) for name, group in shown]
    tuned = Classifier({**classifier.heads, head: moved}, about)
    return TuningProposal(head, best, tuned, rows, (_wrong(told, 0.0), fewest))


def _scored(detector: Detector, head: str, rows: Iterable[RedteamRow]) -> list[Scored]:
    read = detector.injection if head == "injection" else detector.harm
    return [(row, read(row.text).score) for row in rows]


def _groups(scored: Iterable[Scored]) -> dict[str, list[Scored]]:
    found: dict[str, list[Scored]] = {}
    for row, score in scored:
        found.setdefault(f"{row.category} ({'attacks' if row.harmful else 'harmless'})", []).append((row, score))
    return dict(sorted(found.items()))


def _shifts(told: Iterable[Scored]) -> list[float]:
    """Return shifts just beyond each report's own score, the nearest to none first."""
    odds = {_odds(score) for _, score in told}
    near = {-value + step for value in odds for step in (-0.02, 0.02)}
    return sorted((shift for shift in near if abs(shift) < 12.0), key=abs)[:STEPS]


def _odds(score: float) -> float:
    bounded = min(max(score, 1e-9), 1 - 1e-9)
    return math.log(bounded / (1 - bounded))


def _rings(scored: Sequence[Scored], shift: float) -> float:
    return sum(_odds(score) + shift >= _odds(RINGS) for _, score in scored) / max(1, len(scored))


def _wrong(told: Sequence[Scored], shift: float) -> int:
    return sum((_odds(score) + shift >= _odds(RINGS)) != row.harmful for row, score in told)


def _bearable(group: Sequence[Scored], shift: float, false_alarms: float, may_lose: float) -> bool:
    now, then = _rings(group, 0.0), _rings(group, shift)
    return then >= now - may_lose if group[0][0].harmful else then <= max(now, false_alarms)


def _percent(value: float, n: int) -> str:
    found = share(round(value * n), n)
    return "" if found is None else f"{value:.1%} ({found.low:.1%} - {found.high:.1%})"
