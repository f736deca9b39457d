"""Define the counters of a core."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class CoreCounters:
    """Totals since the start. `step_s` and `forward_s` are seconds; their difference is the engine's own overhead."""

    steps: int = 0
    ahead: int = 0
    """Steps whose forward pass was launched before the host had finished the step before."""
    step_s: float = 0.0
    forward_s: float = 0.0
    tokens: int = 0
    forced_tokens: int = 0
    repetitions: int = 0
    """Choices that were ended because they repeated themselves."""
    drafted: int = 0
    accepted: int = 0
    rows: int = 0
    masks: int = 0
    mask_s: float = 0.0
