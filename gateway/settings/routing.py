"""Which model answers, and how a new version takes over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, get_args

from sluicegate.gateway.settings.numbers import Money, Part
from sluicegate.plugins import Within
from sluicegate.plugins.contract.disk_paths import PlacedFile

RolloutMetric = Literal["failures", "validity", "safety", "latency", "checks", "judge", "feedback"]


@dataclass(frozen=True, slots=True)
class OnlineChecks:
    """What holds of every good answer, whatever was asked."""

    must_match: tuple[str, ...] = ()
    """Regular expressions (RE2) that must each match the answer's text."""
    must_not_match: tuple[str, ...] = ()
    """Regular expressions (RE2) that must not match the answer's text."""
    min_chars: int = 0
    """Fewest characters of the answer's text."""
    max_chars: int = 0
    """Most characters of the answer's text; 0 = any number."""


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """How a new version takes over a public name by itself, or does not."""

    canary: str
    """The new model, among those served."""
    baseline: str
    """The model that it is to replace."""
    steps: tuple[float, ...] = (0.05, 0.25, 0.5)
    """Shares of the canary, rising, each below 1; after the last one it gets all requests."""
    hold_s: float = 600.0
    """Shortest time at each step."""
    hold_requests: int = 50
    """Fewest requests that the canary must answer at each step."""
    alpha: Annotated[float, Within(above=0, below=1)] = 0.05
    """Upper bound on the probability that a canary which is no worse is ever stopped; divided among metrics by
    `weights`."""
    beta: Annotated[float, Within(above=0, below=1)] = 0.05
    """Upper bound on the probability that a canary which is worse by more than `tolerance` in a metric of `prove` gets
    all requests."""
    tolerance: Mapping[RolloutMetric, Part] = field(default_factory=dict)
    """By metric, how much worse still counts as no worse, on its scale from 0 to 1; 0.1 by default."""
    weights: Mapping[RolloutMetric, Money] = field(default_factory=dict)
    """Shares of `alpha` by metric; 1 by default, 0 = the metric stops nothing."""
    prove: tuple[RolloutMetric, ...] = ("failures", "validity", "safety", "latency", "checks", "judge")
    """Metrics that must prove the canary good before it gets all requests; those without observations are reported
    instead."""
    checks: OnlineChecks = OnlineChecks()
    """Checks of every answer; failures count in the metric `checks`."""
    judge: str = ""
    """A served model that rates answers; empty = none."""
    judge_share: Part = 0.1
    """Share of answers that it rates, drawn at random."""
    rubric: str = ""
    """What the judge rates by; empty = whether the answer does what was asked."""
    feedback_from_one: Annotated[float, Within(most=1, above=0)] = 1.0
    """Largest share of the scores in `/v1/feedback` that may come from one caller (a key); further ones do not
    count."""

    def __post_init__(self) -> None:
        shares = (0.0, *self.steps)
        if not self.steps or any(not low < high < 1 for low, high in zip(shares, self.steps, strict=False)):
            raise ValueError(f"steps must be rising shares between 0 and 1, found {list(self.steps)}")
        if self.canary == self.baseline:
            raise ValueError(f"canary and baseline are both {self.canary!r}; name two served models")
        if self.weights and not any(self.weight(metric) for metric in get_args(RolloutMetric)):
            raise ValueError("weights are 0 for every metric, so that nothing could stop the canary")

    def weight(self, metric: RolloutMetric) -> float:
        return self.weights.get(metric, 1.0)

    def tolerated(self, metric: RolloutMetric) -> float:
        return self.tolerance.get(metric, 0.1)


@dataclass(frozen=True, slots=True)
class RouteSettings:
    """What one public name stands for."""

    weights: Mapping[str, float] = field(default_factory=dict)
    """Versions (names of served models) and their shares; empty = the model of that name."""
    sticky: Literal["user", "tenant", "none"] = "user"
    """Who always gets the same version: `user` (of a tenant), `tenant`, or `none`."""
    fallback: tuple[str, ...] = ()
    """Models tried in this order where this one is overloaded or fails before anything was sent."""
    shadow: str = ""
    """A model that gets a copy of some requests; its answers are only recorded."""
    shadow_share: Part = 1.0
    """Share of requests that `shadow` gets a copy of, drawn at random."""
    rollout: RolloutSettings | None = None
    """A canary that takes over by itself; it then sets `weights`."""

    def __post_init__(self) -> None:
        if self.rollout is not None and self.weights:
            raise ValueError("a route with a rollout takes its weights from it; leave out `weights`")
        if self.rollout is not None and self.sticky != "none":
            raise ValueError('a rollout compares requests that are drawn one by one; set sticky = "none" beside it')


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """Places of one model, whoever asks."""

    max_running: int
    """Most requests that the model works on at the same time."""
    max_waiting: int = 64
    """Most further requests that wait; beyond that, a 503."""
    wait_s: float = 30.0
    """How long a request may wait before it gets a 503."""


@dataclass(frozen=True, slots=True)
class RoutingSettings:
    models: Mapping[str, RouteSettings] = field(default_factory=dict)
    """Routes by public name."""
    queues: Mapping[str, QueueSettings] = field(default_factory=dict)
    """Queues by served model."""
    state: PlacedFile = ""
    """File that keeps changes of weights across restarts; empty = a restart restores the configured ones. The state of
    rollouts is beside it, in `FILE.rollouts`."""
