"""Limit the prompt tokens of a step that also decodes, so that it takes at most a multiple of a decode step's time."""

from __future__ import annotations

SHORT = 16
"""A sequence with at most this many pending tokens counts as decoding: drafts and forced tokens are not a prompt."""
_FEWEST = 8
"""Fewest tokens of a chunk: far into a prompt, even a short chunk must read all keys and values before it."""
_UNIT = 4
"""Rows that matrix products process at a time; chunks grow in multiples of it."""
_WEIGHT = 0.15
"""Weight of the newest step in the running means."""


class PrefillChunker:
    """Learns the time of a decode step, and of each prompt token added to it.

    The time of a token grows along its prompt (attention). The moving mean follows, since a prompt is read in many
    steps: chunks become shorter on the way.
    """

    def __init__(self, slowdown: float, most: int) -> None:
        """Set the limits: a step may take `slowdown` times as long as a decode step, and a chunk has at most `most`
        tokens."""
        self._slowdown = slowdown
        self._most = most
        self._plain_s: float | None = None
        self._token_s: float | None = None

    @property
    def prompt_tokens(self) -> int:
        """Return how many prompt tokens the next step may read if it also decodes. Small before anything was measured;
        never too small to advance."""
        if self._plain_s is None or self._token_s is None:
            return min(self._most, _FEWEST)
        room = int((self._slowdown - 1) * self._plain_s / self._token_s) // _UNIT * _UNIT
        return max(_FEWEST, min(self._most, room))

    def record(self, decoded: int, prompt_tokens: int, seconds: float) -> None:
        """Record a step of `decoded` decoding sequences and `prompt_tokens` of prompts that took `seconds`."""
        if decoded and not prompt_tokens:
            self._plain_s = _mean(self._plain_s, seconds)
        elif decoded and self._plain_s is not None:
            self._token_s = _mean(self._token_s, max(seconds - self._plain_s, 0.02 * seconds) / prompt_tokens)


def _mean(before: float | None, new: float) -> float:
    """Update a moving mean. A slow outlier (the machine was busy) counts as at most three times the mean."""
    return new if before is None else before + _WEIGHT * (min(new, 3 * before) - before)
