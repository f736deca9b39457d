"""How many engines there are to be: by who waits, how full the KV caches are, and how late first texts come.

Each measure is divided by what the operator bears; the worst of the three says by how much the replicas are too few
(the rule of Kubernetes' HorizontalPodAutoscaler, which takes the largest of several metrics). Fewer are wanted only
where the ones left would stay below `CALM` of every bound, so that the number does not swing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

CALM = 0.7
MOST_AT_ONCE = 2.0
"""Largest factor of one scaling step: first texts that are ten times too late do not call for ten times the
machines."""


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """Means over the window. `waiting`: requests without a place in the step; `first_text_s`: 0 where none came."""

    running: float = 0.0
    waiting: float = 0.0
    kv_usage: float = 0.0
    first_text_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadBounds:
    """What one replica may have, on average."""

    waiting: float
    kv_usage: float
    first_text_s: float


def wanted(running: int, target: int, loads: Sequence[EngineLoad], queued: float, bounds: LoadBounds) -> int:
    """Return how many replicas the load calls for. `running` share it now; `target` is how many were called for before:
    those that still load their models are not taken away because the load dips meanwhile. `queued`: requests that no
    replica has taken yet."""
    count = max(1, running)
    pressure = max(
        (sum(one.waiting for one in loads) + queued) / count / bounds.waiting,
        sum(one.kv_usage for one in loads) / count / bounds.kv_usage,
        max((one.first_text_s for one in loads), default=0.0) / bounds.first_text_s,
    )
    if pressure > 1:
        return max(target, math.ceil(count * min(pressure, MOST_AT_ONCE) - 1e-9))
    for fewer in range(1, target):
        if pressure * count / fewer <= CALM:
            return fewer
    return max(1, target)


class EngineScaling:
    """An autoscaling policy of Ray Serve: called by its controller with what all replicas reported."""

    def __init__(self, **bounds: float) -> None:
        self._bounds = LoadBounds(**bounds)

    def __call__(self, context: Any) -> tuple[int, dict[str, Any]]:
        """Return how many replicas are wanted. `context`: an `AutoscalingContext`; metrics are by name, then by
        replica."""
        found: Mapping[str, Mapping[Any, float]] = context.aggregated_metrics or {}
        replicas = {replica for values in found.values() for replica in values}
        loads = [
            EngineLoad(**{name: found.get(name, {}).get(replica) or 0.0 for name in EngineLoad.__slots__})
            for replica in replicas
        ]
        queued = float(context.total_queued_requests or 0.0)
        target = context.target_num_replicas
        return wanted(context.current_num_replicas, target, loads, queued, self._bounds), {}
