"""What output rails found in one answer: the gravest outcome of each rail, its findings and replacements, and why it
stopped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from sluicegate.gateway.rails.verdicts import category_of
from sluicegate.safety import Released

WHY = {
    "rail_failed": "The answer was stopped: the safety check {rail!r} could not look at it.",
    "max_hold": "The answer was stopped: the safety check {rail!r} could not decide about so much text.",
    "redaction_refused": "The answer was stopped: what {rail!r} takes out of it cannot be replaced where it stood.",
    "not_json": "The answer was stopped: it is not the JSON text that was asked for.",
}
"""Reasons by what ended a choice, where that is no finding of a rail."""
GRAVITY = ("pass", "shadow redact", "shadow escalate", "shadow block", "redact", "escalate", "block", "failed")


MOST_COUNTED = 256
"""Different findings of one rail that are counted by name."""


class Findings:
    """Findings in all choices of one request."""

    def __init__(self, rails: Iterable[str]) -> None:
        """Begin without findings of `rails`."""
        self.outcomes = dict.fromkeys(rails, "pass")
        self.asked: list[tuple[str, str]] = []
        """(rail, reason) of every place that a person should look at."""
        self.failures: list[str] = []
        """Rails that failed, in that order."""
        self.reasons: dict[str, str] = {}
        """Why a rail stopped a choice, for operators."""
        self.scores: Mapping[str, Mapping[str, float]] = {}
        """The worst scores that judges gave."""
        self._redacted: dict[str, Counter[str]] = {}
        self._categories: dict[str, Counter[str]] = {}

    def detail(self, name: str) -> Mapping[str, Any]:
        """Return what a rail found, counted by category; what it replaced, counted by reason; and the worst scores of a
        judge."""
        if not (self._redacted or self._categories or self.scores):
            return {}
        found = {
            "redacted": self._redacted.get(name),
            "categories": self._categories.get(name),
            "scores": self.scores.get(name),
        }
        return {what: dict(counts) for what, counts in found.items() if counts}

    def note(self, step: Released) -> None:
        """Add the rails' verdicts on one step of a text."""
        for redaction in step.redactions:
            _count(self._redacted.setdefault(redaction.rail, Counter()), redaction.reason)
            self._found(redaction.rail, redaction.reason)
            self._worsen(redaction.rail, "redact")
        for line in step.escalations:
            rail, _, reason = line.partition(": ")
            self.asked.append((rail, reason))
            self._found(rail, reason)
            self._worsen(rail, "escalate")
        for line in step.failures:
            self.failures.append(line.partition(":")[0])
            self._worsen(self.failures[-1], "failed")
        for line in step.shadow:
            rail, action, reason = line.split(": ", 2)
            self._found(rail, reason)
            self._worsen(rail, f"shadow {action}")
        if step.rail is not None:
            if step.blocked is not None and step.blocked not in WHY:
                self._found(step.rail, step.blocked)
            self._worsen(step.rail, "block")
            self.reasons.setdefault(step.rail, step.blocked or "")

    def _found(self, rail: str, reason: str) -> None:
        """Count a finding by its category. A reason may continue with a place or a score."""
        _count(self._categories.setdefault(rail, Counter()), category_of(reason))

    def _worsen(self, rail: str, outcome: str) -> None:
        if GRAVITY.index(outcome) > GRAVITY.index(self.outcomes[rail]):
            self.outcomes[rail] = outcome


def _count(counts: Counter[str], what: str) -> None:
    counts[what if what in counts or len(counts) < MOST_COUNTED else "other"] += 1
