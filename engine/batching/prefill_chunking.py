"""Limit how much of a prompt a step reads while others decode, so that the step stays within a multiple of theirs."""

from __future__ import annotations

SHORT = 16
"""Pending tokens up to which a sequence counts as decoding: drafts and forced tokens are not a prompt."""
_FEWEST = 8
"""Tokens of a chunk at least: far into a prompt its keys and values must be read for any chunk, however short."""
_UNIT = 4
"""Rows that products take at a time: a step grows by so many."""
_WEIGHT = 0.15
"""Of the newest step in the means."""


class PrefillChunker:
    """Learns how long a decode step takes, and how much each token of a prompt adds to it.

    What a token adds grows along its prompt (attention). The mean follows, since a prompt is read from its beginning in
    many steps: chunks become shorter on the way.
    """

    def __init__(self, slowdown: float, most: int) -> None:
        """Set the limits: `slowdown` is the multiple of a decode step that a step may take, `most` the tokens of a
        chunk at most."""
        self._slowdown = slowdown
        self._most = most
        self._plain_s: float | None = None
        self._token_s: float | None = None

    @property
    def prompt_tokens(self) -> int:
        """Return how many prompt tokens the next step may read if it also decodes. Few as long as nothing is known;
        always enough to advance."""
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
    """Move the mean. One slow step (the machine did something else) counts at most three times the usual."""
    return new if before is None else before + _WEIGHT * (min(new, 3 * before) - before)
