"""How much of a prompt a step may take while others decode: as much as keeps the step within a multiple of theirs."""

from __future__ import annotations

SHORT = 16
"""Pending tokens up to which a sequence counts as decoding: drafts and forced tokens are not a prompt."""
_FEWEST = 8
"""Far into a prompt its keys and values must be read for any chunk: fewer tokens would mostly pay for that."""
_UNIT = 4
"""Rows that products take at a time: a step grows by so many."""
_WEIGHT = 0.15
"""Of the newest step in the means."""


class PrefillChunker:
    """Learns what a decode step takes, and what each token of a prompt adds to it. `slowdown` is the multiple.

    What a token adds grows along its prompt (attention). The mean follows, since a prompt is read from its beginning in
    many steps: chunks become shorter on the way.
    """

    def __init__(self, slowdown: float, most: int) -> None:
        self._slowdown = slowdown
        self._most = most
        self._plain_s: float | None = None
        self._token_s: float | None = None

    @property
    def prompt_tokens(self) -> int:
        """Of the next step, if it also decodes. Few as long as nothing is known; always enough to advance."""
        if self._plain_s is None or self._token_s is None:
            return min(self._most, _FEWEST)
        room = int((self._slowdown - 1) * self._plain_s / self._token_s) // _UNIT * _UNIT
        return max(_FEWEST, min(self._most, room))

    def record(self, decoded: int, prompt_tokens: int, seconds: float) -> None:
        """A step of `decoded` decoding sequences and `prompt_tokens` of prompts took `seconds`."""
        if decoded and not prompt_tokens:
            self._plain_s = _mean(self._plain_s, seconds)
        elif decoded and self._plain_s is not None:
            self._token_s = _mean(self._token_s, max(seconds - self._plain_s, 0.02 * seconds) / prompt_tokens)


def _mean(before: float | None, new: float) -> float:
    """One slow step (the machine did something else) moves the mean no more than one of three times the usual."""
    return new if before is None else before + _WEIGHT * (min(new, 3 * before) - before)
