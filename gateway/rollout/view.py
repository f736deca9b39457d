"""A rollout as JSON, for the admin API and the console."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from sluicegate.gateway.rollout.evidence import Arm, Wealth
from sluicegate.gateway.rollout.progress import OPEN, Rollout

MOST = 1e9
"""Larger wealth is shown as this."""


def view(found: Rollout, now_s: float) -> dict[str, Any]:
    settings = found.settings
    return {
        "route": found.route,
        "state": found.state,
        "baseline": settings.baseline,
        "canary": settings.canary,
        "share": found.share,
        "step": found.step + 1,
        "steps": list(settings.steps),
        "began_s": found.began_s,
        "step_since_s": found.since_s,
        "requests": {
            "canary": found.evidence["failures"].canary.n,
            "baseline": found.evidence["failures"].baseline.n,
            "canary_at_step": found.at_step,
            "hold": settings.hold_requests,
        },
        "waits_for": found.waits_for(now_s),
        "pending": None if found.pending is None else found.pending.action,
        "alpha": settings.alpha,
        "beta": settings.beta,
        "metrics": {metric: _metric(found, metric) for metric in found.applicable},
        "decisions": [asdict(one) for one in found.decisions],
        "feedback_callers": len(found.speakers),
        "is_open": found.state in OPEN,
    }


def _metric(found: Rollout, metric: str) -> dict[str, Any]:
    """Return the evidence for one metric. `worse.p` is an always-valid p-value of "the canary is no worse"; `fine.p` is
    one of "it is worse by the tolerance"."""
    evidence, needed = found.evidence[metric], found.needed(metric)
    return {
        "canary": _arm(evidence.canary),
        "baseline": _arm(evidence.baseline),
        "tolerance": evidence.tolerance,
        "worse": {**_wealth(evidence.worse), "needed": needed},
        "fine": {**_wealth(evidence.fine), "needed": 1 / found.settings.beta, "asked": metric in found.settings.prove},
    }


def _arm(arm: Arm) -> dict[str, Any]:
    return {"n": arm.n, "mean": None if arm.mean is None else round(arm.mean, 6)}


def _wealth(wealth: Wealth) -> dict[str, float]:
    evidence = math.exp(min(wealth.log, math.log(MOST)))
    return {"evidence": evidence, "p": min(1.0, 1 / evidence) if evidence else 1.0}
