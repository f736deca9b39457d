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
    """The fewest."""
    most_replicas: int = 0
    """0 = as many as `replicas`, always."""
    cpus: float = 1.0
    """Of each."""
    requests: Positive = 64.0
    """Open requests of one replica that call for another one."""

    def __post_init__(self) -> None:
        _check(self.replicas, self.most_replicas)


@dataclass(frozen=True, slots=True)
class RayEngineSettings:
    """Replicas that hold the models of `[stages.generate.engine]`."""

    replicas: Count = 1
    """The fewest."""
    most_replicas: int = 0
    """0 = as many as `replicas`, always."""
    cpus: float = 1.0
    """Of each."""
    gpus: float = 0.0
    """Of each; a part of one is shared."""
    routing: Literal["prefix", "load"] = "prefix"
    """Which replica answers: the one that has read the prompt's beginning, within a bound on load; or the one of two
    drawn at random that has less to do."""
    waiting: Positive = 4.0
    """Requests of one replica that wait for a place, above which there are to be more replicas."""
    kv_usage: Share = 0.85
    """Share of the KV cache in use, above which there are to be more."""
    first_text_s: Positive = 2.0
    """Seconds to the first text, above which there are to be more."""

    def __post_init__(self) -> None:
        _check(self.replicas, self.most_replicas)
        if not self.kv_usage:
            raise ValueError("kv_usage must be above 0: an empty cache would call for more replicas")


@dataclass(frozen=True, slots=True)
class RaySettings:
    gateway: RayGatewaySettings = RayGatewaySettings()
    """Replicas in front."""
    engine: RayEngineSettings = RayEngineSettings()
    """Replicas behind them, which compute."""
    up_s: float = 15.0
    """How long more replicas have to be called for before there are more."""
    down_s: float = 300.0
    """The same for fewer."""
    window_s: Positive = 15.0
    """What is measured is averaged over so long."""
