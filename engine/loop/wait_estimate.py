"""Estimate how long a new request waits, from how long others stayed: Little's law over the places of a batch."""

from __future__ import annotations

_WEIGHT = 0.1
"""Of the newest sequence in the mean: the last twenty or so decide."""


class WaitEstimate:
    """Written by the engine thread, read anywhere."""

    def __init__(self) -> None:
        self._mean_s: float | None = None

    def record(self, stayed_s: float) -> None:
        """Record that a sequence ended `stayed_s` after it left the queue."""
        mean = stayed_s if self._mean_s is None else self._mean_s
        self._mean_s = mean + _WEIGHT * (stayed_s - mean)

    def wait_s(self, leaving: int, running: int, oldest_s: float, age_s: float = 0.0) -> float:
        """Estimate the seconds until `leaving` of `running` sequences have left. While none has ever left, the age of
        the oldest stands for how long they stay. `age_s`: their mean age. Where it is past what those before them
        stayed, these stay longer, as on a machine that has become busy: who is told to come back is not told the same
        short time again and again."""
        stay = oldest_s if self._mean_s is None else max(self._mean_s, age_s)
        return max(0, leaving) * stay / max(1, running)
