"""Detect repetition: whether the newest tokens are one pattern, written several times in a row.

As vLLM's `repetition_detection` defines it, but the cost of a token does not grow with the count: for each pattern size
p a counter holds how many of the newest tokens equal the token p before them.
"""

from __future__ import annotations

import numpy as np

from sluicegate.plugins import RepetitionDetection

_ROOM = 256


class RepetitionDetector:
    """For one sequence. Same as asking after each token whether, for some pattern size p, the last p * min_count tokens
    are the last p tokens over and over, but incremental."""

    def __init__(self, asked: RepetitionDetection) -> None:
        self._low, self._high = max(asked.min_pattern_size, 1), asked.max_pattern_size
        sizes = np.arange(self._low, self._high + 1)
        self._enough = sizes * (asked.min_count - 1)
        self._runs = np.zeros(len(sizes), np.int64)
        """By pattern size: how many of the newest tokens equal the one that far before."""
        self._tokens = np.zeros(self._high + _ROOM, np.int64)
        self._count = 0

    def closed_by(self, token: int) -> bool:
        """Take one more token; True if a pattern has now been written often enough."""
        if self._count == len(self._tokens):
            self._tokens[: self._high] = self._tokens[self._count - self._high :].copy()
            self._count = self._high
        known = min(self._high, self._count) - self._low + 1
        if known > 0:
            last = self._count - self._low + 1
            before = self._tokens[last - known : last][::-1]
            self._runs[:known] = (self._runs[:known] + 1) * (before == token)
        self._tokens[self._count] = token
        self._count += 1
        return bool((self._runs >= self._enough).any())


def repetition_detector(asked: RepetitionDetection | None) -> RepetitionDetector | None:
    """Return a detector, or None where detection is off."""
    return RepetitionDetector(asked) if asked is not None and asked.max_pattern_size > 0 else None
