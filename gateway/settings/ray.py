"""How many replicas Ray Serve runs, and what makes them more: read by `sluicegate deploy ray` alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from sluicegate.plugins.settings import Count, Positive, Share


def _check(fewest: int, most: int) -> None:
    if most and most < fewest:
        raise ValueError(
            f"most_replicas is {most} and replicas {fewest}; set most_replicas to 0, or to at least {fewest}"
        )


@dataclass(frozen=True, slots=True)
class RayGatewaySettings:
    """Replicas that do all but compute: keys, limits, rails, cache, streams."""

    replicas: Count = 2
    """Fewest replicas."""
    most_replicas: int = 0
    """Most replicas; 0 = always `replicas`."""
    cpus: float = 1.0
    """CPUs of each replica."""
    requests: Positive = 64.0
    """Open requests per replica above which another one is added."""

    def __post_init__(self) -> None:
        _check(self.replicas, self.most_replicas)


@dataclass(frozen=True, slots=True)
class RayEngineSettings:
    """Replicas that hold the models of `[stages.generate.engine]`."""

    replicas: Count = 1
    """Fewest replicas."""
    most_replicas: int = 0
    """Most replicas; 0 = always `replicas`."""
    cpus: float = 1.0
    """CPUs of each replica."""
    gpus: float = 0.0
    """GPUs of each replica; a fraction shares one."""
    routing: Literal["prefix", "load"] = "prefix"
    """Which replica answers: `prefix`, the one that has read the prompt's beginning, within a bound on load; `load`,
    the less loaded of two drawn at random."""
    waiting: Positive = 4.0
    """Waiting requests per replica above which replicas are added."""
    kv_usage: Share = 0.85
    """Share of the KV cache in use above which replicas are added."""
    first_text_s: Positive = 2.0
    """Seconds to the first text above which replicas are added."""

    def __post_init__(self) -> None:
        _check(self.replicas, self.most_replicas)
        if not self.kv_usage:
            raise ValueError("kv_usage must be above 0: an empty cache would call for more replicas")


@dataclass(frozen=True, slots=True)
class RaySettings:
    gateway: RayGatewaySettings = RayGatewaySettings()
    """Replicas that serve HTTP."""
    engine: RayEngineSettings = RayEngineSettings()
    """Replicas behind them that compute."""
    up_s: float = 15.0
    """How long more replicas must be needed before they are added."""
    down_s: float = 300.0
    """How long fewer must be enough before some are removed."""
    window_s: Positive = 15.0
    """Period over which measurements are averaged."""
