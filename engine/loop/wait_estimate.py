"""How long a new request will wait, from how long others stayed: Little's law over the places of a batch."""

from __future__ import annotations

_WEIGHT = 0.1
"""Of the newest sequence in the mean: the last twenty or so decide."""


class WaitEstimate:
    """Written by the engine thread, read anywhere."""

    def __init__(self) -> None:
        self._mean_s: float | None = None

    def record(self, stayed_s: float) -> None:
        """A sequence ended `stayed_s` after it left the queue."""
        mean = stayed_s if self._mean_s is None else self._mean_s
        self._mean_s = mean + _WEIGHT * (stayed_s - mean)

    def wait_s(self, leaving: int, running: int, oldest_s: float) -> float:
        """Seconds until `leaving` of `running` sequences have left, at the rate they did lately. As long as none has,
        the age of the oldest stands for their stay."""
        stay = oldest_s if self._mean_s is None else self._mean_s
        return max(0, leaving) * stay / max(1, running)
