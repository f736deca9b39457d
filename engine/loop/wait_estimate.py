"""Estimate the wait of a new request from how long earlier ones ran: Little's law over the places of a batch."""

from __future__ import annotations

_WEIGHT = 0.1
"""Weight of the newest sequence in the mean: about the last twenty decide."""


class WaitEstimate:
    """A moving mean of running times. Written by the engine thread, read anywhere."""

    def __init__(self) -> None:
        self._mean_s: float | None = None

    def record(self, stayed_s: float) -> None:
        """Record that a sequence ran for `stayed_s` after it left the queue."""
        mean = stayed_s if self._mean_s is None else self._mean_s
        self._mean_s = mean + _WEIGHT * (stayed_s - mean)

    def wait_s(self, leaving: int, running: int, oldest_s: float, age_s: float = 0.0) -> float:
        """Estimate the seconds until `leaving` of `running` sequences have ended.

        The running time is the mean so far, or `age_s`, the mean age of running sequences, if that is longer, as when
        the machine became busy. Otherwise clients would be given the same short wait again and again. Before any
        sequence has ended it is `oldest_s`, the age of the oldest.
        """
        stay = oldest_s if self._mean_s is None else max(self._mean_s, age_s)
        return max(0, leaving) * stay / max(1, running)
