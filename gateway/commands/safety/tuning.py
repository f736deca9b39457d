"""Propose where a head of the classifier rings: the midpoint of its score moves, or its words are refitted on reports.

Of all midpoints at which no harmless set rings more often than allowed, or than it does now, and no set of attacks
loses more recall than allowed, the one is proposed at which fewest reports are judged wrongly; of equals the nearest.
What a rule finds, and not the head, rings wherever the midpoint is.

Not covered: a report that looks like the opposite kind to the head. It is shown as still wrong, and needs a blocklist
or a retrained head (`training.detector.train`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from sluicegate.gateway.commands.redteam import RedteamRow
from sluicegate.gateway.commands.safety.refitting import MARGINS, change_of, refitted
from sluicegate.gateway.commands.statistics import share
from sluicegate.gateway.commands.tables import table
from sluicegate.safety.detection.classifier import Classifier, load
from sluicegate.safety.detection.detector import Detector

FLAG_THRESHOLD = 0.5
STEPS = 400
By = Literal["midpoint", "words"]


@dataclass(frozen=True, slots=True)
class Scored:
    """A text, the head's score before anything is moved, and whether it rings whatever the head says."""

    row: RedteamRow
    score: float
    is_flagged_by_rules: bool = False

    def is_flagged(self, shift: float) -> bool:
        return self.is_flagged_by_rules or _odds(self.score) + shift >= _odds(FLAG_THRESHOLD)


@dataclass(frozen=True, slots=True)
class TuningProposal:
    """`shift`: of the log-odds of every score, or, by words, how far the weights moved as a share of their length; 0 =
    nothing better was found. `rows`: for each set its name, texts, and the share that rings now and then."""

    head: str
    shift: float
    weights: Classifier
    rows: Sequence[tuple[str, int, float, float]]
    wrong: tuple[int, int]
    """Reports judged wrongly: (now, with the proposal)."""
    by: By = "midpoint"
    forbidden_by: str = ""
    """The set that would become worse than allowed under the smallest change that judges more reports correctly."""
    by_rule: int = 0
    """Reported false alarms raised by a rule, which no head changes."""

    def as_json(self) -> dict[str, Any]:
        sets = [{"set": name, "rows": n, "now": now, "then": then} for name, n, now, then in self.rows]
        return {
            "head": self.head,
            "by": self.by,
            "shift": round(self.shift, 4),
            "wrong": list(self.wrong),
            "sets": sets,
            "forbidden_by": self.forbidden_by,
            "by_rule": self.by_rule,
        }

    def as_text(self) -> str:
        shown = [(name, n, f"{now:.1%}", _percent(then, n)) for name, n, now, then in self.rows]
        how = {"midpoint": f"scores move by {self.shift:+.3f} log-odds", "words": f"weights move by {self.shift:.1%}"}
        verdict = f"{self.head}: {how[self.by]}" if self.shift else f"{self.head}: no change"
        said = f"{verdict}; reports judged wrongly: {self.wrong[0]} now, {self.wrong[1]} then"
        if self.forbidden_by:
            said += f"; a change that judges more of them rightly makes {self.forbidden_by} worse than is allowed"
        if self.by_rule:
            said += f"; {self.by_rule} of them ring by a rule, which no head changes"
        return "\n".join([table(("set", "texts", "rings now", "rings then (95 %)"), shown), said])


def proposal(
    weights: Path,
    head: str,
    reports: Sequence[RedteamRow],
    sets: Sequence[RedteamRow],
    false_alarms: float,
    may_lose: float,
) -> TuningProposal:
    """Propose the midpoint of a head at which fewest reports are judged wrongly, as the top of this file says. Raises
    `ConfigurationError` where the weights cannot be read."""
    classifier = load(weights)
    detector = Detector(classifier)
    told, held = _scored(detector, head, reports), _scored(detector, head, sets)
    groups = _groups(held)
    best, fewest, forbidden = 0.0, _wrong(told, 0.0), ""
    for shift in _shifts(told):
        if _wrong(told, shift) >= fewest:
            continue
        worse = _worse(groups, groups, shift, false_alarms, may_lose)
        if worse:
            forbidden = forbidden or worse
        else:
            best, fewest, forbidden = shift, _wrong(told, shift), ""
    one = classifier.heads[head]
    by = best / one.slope
    moved = (
        replace(one, document_midpoint=one.document_midpoint - by)
        if head == "document"
        else replace(one, midpoint=one.midpoint - by)
    )
    about = {**classifier.about, "tuned": {"head": head, "shift": best}}
    shown = {**_groups(told), **groups}.items()
    rows = [(name, len(group), _flagged_share(group, 0.0), _flagged_share(group, best)) for name, group in shown]
    tuned = Classifier({**classifier.heads, head: moved}, about)
    return TuningProposal(
        head, best, tuned, rows, (_wrong(told, 0.0), fewest), forbidden_by=forbidden, by_rule=_by_rule(told)
    )


def refit(
    weights: Path,
    head: str,
    reports: Sequence[RedteamRow],
    sets: Sequence[RedteamRow],
    false_alarms: float,
    may_lose: float,
) -> TuningProposal:
    """Propose other weights of a head's words, under the same conditions as `proposal` proposes its midpoint."""
    classifier = load(weights)
    told, held = (_scored(Detector(classifier), head, rows) for rows in (reports, sets))
    now = {**_groups(told), **_groups(held)}
    best, fewest, then, forbidden = classifier, _wrong(told, 0.0), now, ""
    for margin in MARGINS:
        if not fewest:
            break
        tried = refitted(classifier, head, reports, margin)
        learned, kept = (_scored(Detector(tried), head, rows) for rows in (reports, sets))
        if _wrong(learned, 0.0) >= fewest:
            continue
        after = _groups(kept)
        worse = _worse(now, after, 0.0, false_alarms, may_lose)
        if worse:
            forbidden = forbidden or worse
        else:
            best, fewest, then, forbidden = tried, _wrong(learned, 0.0), {**_groups(learned), **after}, ""
    rows = [
        (name, len(group), _flagged_share(group, 0.0), _flagged_share(then[name], 0.0)) for name, group in now.items()
    ]
    moved = change_of(classifier.heads[head], best.heads[head]) if best is not classifier else 0.0
    return TuningProposal(head, moved, best, rows, (_wrong(told, 0.0), fewest), "words", forbidden, _by_rule(told))


def _scored(detector: Detector, head: str, rows: Iterable[RedteamRow]) -> list[Scored]:
    return [Scored(row, *detector.by_head(head, row.text, rings=FLAG_THRESHOLD)) for row in rows]


def _groups(scored: Iterable[Scored]) -> dict[str, list[Scored]]:
    found: dict[str, list[Scored]] = {}
    for one in scored:
        kind = "attacks" if one.row.harmful else "harmless"
        found.setdefault(f"{one.row.category} ({kind})", []).append(one)
    return dict(sorted(found.items()))


def _shifts(told: Iterable[Scored]) -> list[float]:
    """Return shifts just beyond each report's own score, the nearest to none first."""
    odds = {_odds(one.score) for one in told}
    near = {-value + step for value in odds for step in (-0.02, 0.02)}
    return sorted((shift for shift in near if abs(shift) < 12.0), key=abs)[:STEPS]


def _odds(score: float) -> float:
    bounded = min(max(score, 1e-9), 1 - 1e-9)
    return math.log(bounded / (1 - bounded))


def _flagged_share(scored: Sequence[Scored], shift: float) -> float:
    return sum(one.is_flagged(shift) for one in scored) / max(1, len(scored))


def _wrong(told: Sequence[Scored], shift: float) -> int:
    return sum(one.is_flagged(shift) != one.row.harmful for one in told)


def _by_rule(told: Sequence[Scored]) -> int:
    return sum(one.is_flagged_by_rules and not one.row.harmful for one in told)


def _worse(
    before: Mapping[str, Sequence[Scored]],
    after: Mapping[str, Sequence[Scored]],
    shift: float,
    false_alarms: float,
    may_lose: float,
) -> str:
    """Return the first set of `after` that is worse than is allowed; empty where none is."""
    for name, then in after.items():
        now, moved = _flagged_share(before[name], 0.0), _flagged_share(then, shift)
        if not (moved >= now - may_lose if then[0].row.harmful else moved <= max(now, false_alarms)):
            return name
    return ""


def _percent(value: float, n: int) -> str:
    found = share(round(value * n), n)
    return "" if found is None else f"{value:.1%} ({found.low:.1%} - {found.high:.1%})"
