"""Define how the operator lets a rail act: enforced, in shadow or off, its time limit, and the effect of a failure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from sluicegate.plugins.frozen import frozen_when_checked
from sluicegate.plugins.settings import Count, Positive

MAX_HOLD = 8192
Mode = Literal["enforce", "shadow", "off"]


@dataclass(frozen=True, slots=True)
class RailPolicy:
    """The policy of one rail. Score limits apply where the rail gives a score."""

    mode: Mode = "enforce"
    """`shadow`: its verdicts are recorded and have no effect."""
    failure_mode: Literal["closed", "open"] = "closed"
    """What the rail's failure means: the request is refused (`closed`), or goes on without the rail (`open`)."""
    budget_s: Positive | None = None
    """Time of one call: an input rail's whole judgement, an output rail's reading of one piece; none = no limit."""
    escalate: Positive | None = None
    """Score from which a person is asked, in place of the rail's own action; above 1 = never."""
    block: Positive | None = None
    """Score from which the request is refused, in place of the rail's own action; above 1 = never."""
    on_block: Literal["block", "escalate"] = "block"
    """What a block does; `escalate`: a person decides."""
    failures_to_open: Count = 5
    """Failures in a row that open the rail's circuit breaker: the rail is no longer asked."""
    pause_s: Positive = 10.0
    """How long the breaker stays open; with `closed`, all requests are refused meanwhile."""

    def __post_init__(self) -> None:
        if self.escalate is not None and self.block is not None and self.escalate > self.block:
            raise ValueError(f"escalate = {self.escalate:g} is above block = {self.block:g}; lower it")

    @property
    def may_fail(self) -> bool:
        """Return whether a failure of the rail lets text pass."""
        return self.failure_mode == "open" or self.mode == "shadow"

    def action(self, action: str, score: float | None) -> str:
        """Return the action to take for a rail's `action` and `score`; a redaction below the thresholds stays a
        redaction."""
        if score is not None and (self.block is not None or self.escalate is not None):
            action = self._by_score(action, score)
        return "escalate" if action == "block" and self.on_block == "escalate" else action

    def _by_score(self, action: str, score: float) -> str:
        if self.block is not None and score >= self.block:
            return "block"
        if self.escalate is not None and score >= self.escalate:
            return "escalate"
        if action == "redact":
            return action
        untouched = (action == "block" and self.block is None) or (action == "escalate" and self.escalate is None)
        return action if untouched else "pass"


PLAIN = RailPolicy()


@frozen_when_checked
@dataclass(frozen=True, slots=True)
class WindowLimits:
    """Limits of a hold-back window. `max_hold`: characters held before the stream is blocked. `rail_policies`: by the
    rails' names; a rail without one is enforced, has no time limit and fails closed."""

    max_hold: int = MAX_HOLD
    rail_policies: Mapping[str, RailPolicy] = field(default_factory=dict)

    def rail_policy(self, rail: str) -> RailPolicy:
        return self.rail_policies.get(rail, PLAIN)
