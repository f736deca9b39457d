"""Detect repetition: whether the newest tokens are one pattern, written several times in a row.

Where a request asks: as vLLM's `repetition_detection` defines it, but the cost of a token does not grow with the count:
for each pattern size p a counter holds how many of the newest tokens equal the token p before them. Where it does not
ask, a constrained answer ends by the engine's own settings, which leave room for what repeats itself rightly: tables of
zeros, equal rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from sluicegate.engine.settings import RepetitionSettings
from sluicegate.plugins import Job, RepetitionDetection

_ROOM = 256
_EVERY = 32
"""Tokens between two checks of a `StretchDetector`."""
_PROMPT_TOKENS = 32_768
"""Most tokens at a prompt's end that are searched for repetition."""
_PROMPT_SHARE = 6
"""If a prompt repeats itself for one part in this many of what an answer may repeat, the text at hand is taken to be
repetitive."""


class LoopDetector(Protocol):
    asked: ClassVar[bool]
    """Whether the request asked for it: then the choice ends even where no valid ending is known."""

    def closed_by(self, token: int) -> bool:
        """Record one more token; return True if a pattern has been repeated often enough."""

    def allows(self, prompt: Sequence[int], way: Sequence[int]) -> bool:
        """Return whether a choice that repeats itself may continue. `way`: the grammar's shortest completion."""


class RepetitionDetector:
    """Detects repetition in one sequence: whether, for some pattern size p, the last p * min_count tokens are the last
    p tokens repeated. Incremental."""

    asked: ClassVar[bool] = True

    def __init__(self, asked: RepetitionDetection) -> None:
        self._low, self._high = max(asked.min_pattern_size, 1), asked.max_pattern_size
        sizes = np.arange(self._low, self._high + 1)
        self._enough = sizes * (asked.min_count - 1)
        self._runs = np.zeros(len(sizes), np.int64)
        """By pattern size: how many of the newest tokens equal the token that many places before."""
        self._tokens = np.zeros(self._high + _ROOM, np.int64)
        self._count = 0

    def closed_by(self, token: int) -> bool:
        """Record one more token; return True if a pattern has been repeated `min_count` times."""
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

    def allows(self, prompt: Sequence[int], way: Sequence[int]) -> bool:
        """Return False: the request asked for the end."""
        return False


class StretchDetector:
    """Checks the newest tokens at intervals: a pattern must fill `min_tokens` of them, `min_count` times at least.

    Not covered: repetition with small changes (a counter, another spelling), and patterns longer than
    `max_pattern_size`.
    """

    asked: ClassVar[bool] = False

    def __init__(self, settings: RepetitionSettings) -> None:
        self._settings = settings
        self._tokens: list[int] = []
        self._next = settings.min_tokens

    def closed_by(self, token: int) -> bool:
        self._tokens.append(token)
        if len(self._tokens) < self._next:
            return False
        self._next += _EVERY
        longest = max(self._settings.min_tokens, self._settings.max_pattern_size * self._settings.min_count)
        return repeats(np.array(self._tokens[-longest:]), self._settings, self._settings.min_tokens)

    def allows(self, prompt: Sequence[int], way: Sequence[int]) -> bool:
        """Return True if the prompt repeats itself too, or the shortest completion is longer than the answer so far."""
        enough = self._settings.min_tokens // _PROMPT_SHARE
        if holds_repetition(np.array(prompt[-_PROMPT_TOKENS:]), self._settings.max_pattern_size, enough):
            self._next = 1 << 62
            return True
        if len(way) > len(self._tokens):
            self._next = 2 * len(self._tokens)
            return True
        return False


def repeats(tokens: npt.NDArray[np.int64], settings: RepetitionSettings, min_tokens: int) -> bool:
    """Return whether some pattern of at most `max_pattern_size` tokens fills the last `min_tokens` tokens [n], and the
    last `min_count` times its size."""
    sizes = np.arange(1, min(settings.max_pattern_size, len(tokens) - 1) + 1)
    sizes = sizes[tokens[-1 - sizes] == tokens[-1]]
    for size in sizes.tolist():
        wanted = max(min_tokens, size * settings.min_count)
        if wanted <= len(tokens) and bool((tokens[-wanted:-size] == tokens[size - wanted :]).all()):
            return True
    return False


def holds_repetition(tokens: npt.NDArray[np.int64], largest: int, enough: int) -> bool:
    """Return whether some pattern of at most `largest` tokens is repeated for `enough` tokens anywhere in `tokens`
    [n]."""
    for size in range(1, min(largest, len(tokens) - enough) + 1):
        same = np.concatenate(([False], tokens[size:] == tokens[:-size], [False]))
        borders = np.flatnonzero(same[1:] != same[:-1])
        if len(borders) and int((borders[1::2] - borders[::2]).max()) >= enough:
            return True
    return False


def detector_of(job: Job, settings: RepetitionSettings) -> LoopDetector | None:
    """Return the detector the request asks for, else the engine's own for constrained answers, else None."""
    asked = job.sampling.repetition_detection
    if asked is not None:
        return RepetitionDetector(asked) if asked.max_pattern_size > 0 else None
    if job.grammar is None or job.sampling.use_beam_search or not settings.max_pattern_size:
        return None
    request = job.request
    is_free = request is not None and request.constraint is None and not request.callable_tools
    return None if is_free else StretchDetector(settings)
