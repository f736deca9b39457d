"""How far a rollout is: what was seen of both versions, and what follows from it. Pure: no clock, no disk."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from sluicegate.gateway.rollout.evidence import Evidence, Ranks
from sluicegate.gateway.rollout.observation import Observation
from sluicegate.gateway.settings import OnlineChecks, RolloutMetric, RolloutSettings
from sluicegate.plugins import read_settings

METRICS: tuple[RolloutMetric, ...] = get_args(RolloutMetric)
State = Literal["running", "held", "stopped", "promoted", "superseded"]
Action = Literal["start", "advance", "stop", "promote", "hold", "resume", "supersede"]
OPEN: tuple[State, ...] = ("running", "held")
KEPT_DECISIONS = 50


@dataclass(frozen=True, slots=True)
class RolloutDecision:
    """A decision. `evidence`: the wealth of the bettors that decided it, `needed`: what they had to reach."""

    at_s: float
    action: Action
    by: str
    reason: str
    share: float
    """Share of the canary from then on."""
    requests: int
    """Requests of both versions seen so far."""
    metric: str = ""
    evidence: float | None = None
    needed: float | None = None


@dataclass(slots=True)
class Rollout:
    """`pending`: a decision whose weights are not in force yet; nothing else is decided until they are."""

    route: str
    settings: RolloutSettings
    began_s: float
    state: State = "running"
    step: int = 0
    since_s: float = 0.0
    """Start of the current step."""
    at_step: int = 0
    """Requests of the canary that ended in this step."""
    evidence: dict[str, Evidence] = field(default_factory=dict)
    ranks: Ranks = field(default_factory=Ranks)
    speakers: dict[str, int] = field(default_factory=dict)
    """Number of feedback scores that counted, by caller."""
    decisions: list[RolloutDecision] = field(default_factory=list)
    pending: RolloutDecision | None = None

    def __post_init__(self) -> None:
        for metric in METRICS:
            if metric not in self.evidence:
                self.evidence[metric] = Evidence(self.settings.tolerated(metric))

    # --- what is seen ------------------------------------------------------------------------------------------

    def take(self, seen: Observation, now_s: float) -> None:
        """Add one observation, and decide to stop where it is the one that shows the canary worse."""
        if self.state not in OPEN or self._is_stopping or not self._concerns(seen):
            return
        is_canary = seen.version == self.settings.canary
        p = seen.share if is_canary else 1 - seen.share
        values = dict(seen.values)
        if "feedback" in values and not self._listens_to(seen.by):
            return
        if seen.seconds is not None:
            if (rank := self.ranks.of(seen.seconds)) is not None:
                values["latency"] = rank
            self.ranks.add(seen.seconds)
        for metric, value in values.items():
            if metric in self.evidence:
                self.evidence[metric].add(is_canary, p, min(1.0, max(0.0, value)))
        self.at_step += is_canary and seen.counts
        self._stop_if_worse(values, now_s)

    def _listens_to(self, caller: str) -> bool:
        """Return whether a score of `caller` counts, and count it if so. This depends on what went before alone, so
        that it moves no error."""
        given, total = self.speakers.get(caller, 0) + 1, sum(self.speakers.values()) + 1
        if given > max(1.0, self.settings.feedback_from_one * total):
            return False
        self.speakers[caller] = given
        return True

    def _concerns(self, seen: Observation) -> bool:
        return seen.version in (self.settings.canary, self.settings.baseline) and 0 < seen.share < 1

    def _stop_if_worse(self, metrics: Iterable[str], now_s: float) -> None:
        for metric in metrics:
            needed = self.needed(metric)
            if metric in self.evidence and needed is not None and self.evidence[metric].worse.log >= math.log(needed):
                found = self.evidence[metric]
                reason = (
                    f"{metric}: {_mean(found.canary.mean)} of {self.settings.canary}, {_mean(found.baseline.mean)} of "
                )
                reason += f"{self.settings.baseline} (0 is best)"
                if metric == "feedback":
                    reason += f", said by {len(self.speakers)} caller{'s' if len(self.speakers) > 1 else ''}"
                made = self._verdict("stop", "rollout", reason, 0.0, now_s)
                self._decide(replace(made, metric=metric, evidence=_exp(found.worse.log), needed=needed))
                return

    # --- what follows ------------------------------------------------------------------------------------------

    @property
    def share(self) -> float:
        """Return the canary's share, by the decisions made."""
        if self.state == "promoted":
            return 1.0
        return self.settings.steps[self.step] if self.state in OPEN else 0.0

    @property
    def requests(self) -> int:
        found = self.evidence["failures"]
        return found.canary.n + found.baseline.n

    def needed(self, metric: str) -> float | None:
        """Return the wealth that stops the canary for `metric`; None where it cannot stop it."""
        weights = {name: self.settings.weight(name) for name in self.applicable}
        part = weights.get(metric, 0.0) / (sum(weights.values()) or 1.0)  # type: ignore[call-overload]  # any name
        return 1 / (self.settings.alpha * part) if part else None

    @property
    def applicable(self) -> tuple[RolloutMetric, ...]:
        """Return the metrics that can have observations at all."""
        absent = {"checks"} if self.settings.checks == OnlineChecks() else set()
        absent |= set() if self.settings.judge else {"judge"}
        return tuple(metric for metric in METRICS if metric not in absent)

    def unproven(self) -> list[str]:
        """Return the metrics that have not shown the canary fine."""
        enough = math.log(1 / self.settings.beta)
        seen = [metric for metric in self.settings.prove if self._both_seen(metric)]
        return [metric for metric in seen if self.evidence[metric].fine.log < enough]

    def unseen(self) -> list[str]:
        """Return the metrics that were to be proven and have nothing to prove them by."""
        return [m for m in self.settings.prove if m in self.applicable and not self._both_seen(m)]

    def _both_seen(self, metric: str) -> bool:
        return bool(self.evidence[metric].canary.n and self.evidence[metric].baseline.n)

    def waits_for(self, now_s: float) -> list[str]:
        """Return what has to happen before the canary gets more; empty where nothing has."""
        if self.state not in OPEN:
            return []
        found = ["an operator, who holds it"] if self.state == "held" else []
        if (left_s := self.since_s + self.settings.hold_s - now_s) > 0:
            found.append(f"{left_s:.0f} s of this step")
        if (left := self.settings.hold_requests - self.at_step) > 0:
            found.append(f"{left} requests of {self.settings.canary} at this step")
        if self.is_last_step:
            found += [f"proof that {metric} is no worse" for metric in self.unproven()]
        return found

    @property
    def is_last_step(self) -> bool:
        return self.step == len(self.settings.steps) - 1

    def consider(self, now_s: float) -> None:
        """Decide to advance where nothing has to be waited for."""
        if self.state != "running" or self.pending is not None or self.waits_for(now_s):
            return
        if self.is_last_step:
            unseen = self.unseen()
            reason = "no metric is worse" + (f"; not seen: {', '.join(unseen)}" if unseen else "")
            self._decide(self._verdict("promote", "rollout", reason, 1.0, now_s))
        else:
            share = self.settings.steps[self.step + 1]
            self._decide(self._verdict("advance", "rollout", "the step was held", share, now_s))

    def command(self, action: Action, by: str, now_s: float, reason: str = "") -> None:
        """Take an operator's command. Raises `ValueError` where the rollout is over or busy with a decision."""
        if self.state not in OPEN:
            raise ValueError(f"the rollout of {self.route!r} is {self.state}; begin another one")
        if self.pending is not None and not (action == "stop" and not self._is_stopping):
            raise ValueError(f"the decision to {self.pending.action} is being put into force; ask again")
        if action in ("hold", "resume"):
            self.state = "held" if action == "hold" else "running"
            self._note(self._verdict(action, by, reason, self.share, now_s))
            return
        share = {"stop": 0.0, "promote": 1.0}.get(action, self.share)
        self._decide(self._verdict(action, by, reason or f"asked for by {by}", share, now_s))

    def begin(self, by: str, now_s: float) -> None:
        self._decide(self._verdict("start", by, "a new canary", self.settings.steps[0], now_s))

    def supersede(self, by: str, now_s: float) -> None:
        """End the rollout because somebody else set the weights: theirs stand."""
        self.state = "superseded"
        self._note(self._verdict("supersede", by, f"the weights of the route are others now, of {by}", 0.0, now_s))

    def applied(self, now_s: float) -> None:
        """Note that the weights of `pending` are in force."""
        done, self.pending = self.pending, None
        assert done is not None
        if done.action == "advance":
            self.step += 1
        elif done.action in ("stop", "promote"):
            self.state = "stopped" if done.action == "stop" else "promoted"
        self.since_s, self.at_step = now_s, 0

    @property
    def _is_stopping(self) -> bool:
        return self.pending is not None and self.pending.action in ("stop", "promote")

    def _decide(self, made: RolloutDecision) -> None:
        self.pending = made
        self._note(made)

    def _note(self, made: RolloutDecision) -> None:
        self.decisions = [*self.decisions, made][-KEPT_DECISIONS:]

    def _verdict(self, action: Action, by: str, reason: str, share: float, now_s: float) -> RolloutDecision:
        return RolloutDecision(now_s, action, by, reason, share, self.requests)

    # --- on the disk -------------------------------------------------------------------------------------------

    def to_json(self) -> str:
        kept = {
            "route": self.route,
            "settings": asdict(self.settings),
            "began_s": self.began_s,
            "state": self.state,
            "step": self.step,
            "since_s": self.since_s,
            "at_step": self.at_step,
            "evidence": {metric: found.to_json() for metric, found in self.evidence.items()},
            "ranks": self.ranks.newest,
            "speakers": self.speakers,
            "decisions": [asdict(one) for one in self.decisions],
            "pending": None if self.pending is None else asdict(self.pending),
        }
        return json.dumps(kept)

    @classmethod
    def from_json(cls, text: str) -> Rollout:
        """Read a rollout from JSON. Raises `ValueError`, `TypeError`, `KeyError` or `ConfigurationError` for what is
        not a rollout."""
        kept: Mapping[str, Any] = json.loads(text)
        settings = read_settings(RolloutSettings, kept["settings"], f"rollout {kept['route']}")
        return cls(
            str(kept["route"]),
            settings,
            float(kept["began_s"]),
            kept["state"],
            min(int(kept["step"]), len(settings.steps) - 1),
            float(kept["since_s"]),
            int(kept["at_step"]),
            {metric: Evidence.from_json(found) for metric, found in kept["evidence"].items()},
            Ranks([float(one) for one in kept["ranks"]]),
            {str(caller): int(count) for caller, count in kept.get("speakers", {}).items()},
            [RolloutDecision(**one) for one in kept["decisions"]],
            None if kept["pending"] is None else RolloutDecision(**kept["pending"]),
        )


def _mean(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3f}"


def _exp(log: float) -> float:
    """Return e to the power of `log`, bounded so that JSON can hold the number."""
    return math.exp(min(log, 300.0))
