"""Define the masks passed to the sampler, and its outcomes."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from sluicegate.engine.sampling.bitmasks import Bitmask
from sluicegate.plugins import GenerationFailed


class SampledToken(NamedTuple):
    """A drawn token. If logprobs are wanted: its logprob, and the likeliest (token, logprob), likeliest first. `law`
    and `likely`: the same under the mask, for explained rows."""

    token_id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    law: float | None = None
    likely: tuple[tuple[int, float], ...] = ()


Outcome = SampledToken | GenerationFailed


@dataclass(frozen=True, slots=True)
class MaskRows:
    """Masks of a step's rows. `masked[i]` is the row of `bitmask[i]`; `free` rows have a grammar that allows every
    token; `unending` rows may not draw an end-of-sequence token yet."""

    masked: list[int] = field(default_factory=list)
    bitmask: Bitmask = field(default_factory=lambda: np.zeros((0, 0), np.int32))
    """int32 [len(masked), ceil(V/32)]."""
    free: frozenset[int] = field(default_factory=frozenset)
    unending: list[int] = field(default_factory=list)
    barred: dict[int, list[int]] = field(default_factory=dict)
    """Row -> further tokens that it may not draw yet."""

    def covers(self, row: int) -> bool:
        """Return whether a constrained row has a mask, or is free."""
        at = bisect_left(self.masked, row)  # rows are in order
        return row in self.free or (at < len(self.masked) and self.masked[at] == row)
