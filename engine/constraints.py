"""Asking the matchers: one mask per constrained row, before sampling."""

from __future__ import annotations

from collections.abc import Sequence as Seq

import numpy as np

from engine.delivery import as_failure
from engine.masks import forbid, words_for
from engine.sampler import MaskRows
from engine.sequence import Sequence
from plugins import SluicegateError


def fill_masks(
    rows: Seq[Sequence], vocab_size: int, eos_token_ids: tuple[int, ...]
) -> tuple[MaskRows, dict[int, SluicegateError]]:
    """What the rows may not draw, and the rows whose matcher threw: those have no mask and must not be sampled."""
    constrained = [i for i, row in enumerate(rows) if row.matcher is not None]
    bitmask = np.zeros((len(constrained), words_for(vocab_size)), np.int32)
    masked: list[int] = []
    free: set[int] = set()
    failures: dict[int, SluicegateError] = {}
    for index in constrained:
        try:
            filled = rows[index].matcher.fill_mask(bitmask[len(masked)])  # type: ignore[union-attr]
        except Exception as error:
            failures[index] = as_failure(error, "filling the token mask")
            continue
        if filled:
            masked.append(index)
        else:
            free.add(index)
    unending = [i for i, row in enumerate(rows) if row.generated < row.sampling.min_tokens]
    for index in set(unending) & set(masked):
        forbid(bitmask[masked.index(index)], eos_token_ids)
    unmasked = [index for index in unending if index not in masked]
    return MaskRows(masked, bitmask[: len(masked)], frozenset(free), unmasked), failures
