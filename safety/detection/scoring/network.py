"""A small network beside the linear heads: the sum of a window's embedded features, one hidden layer, one number.

It errs at other texts than the linear heads do, as a feature may speak for an attack beside some words and against it
beside others. Each feature counts once in a window, divided as in a linear head.

Not covered: the order of words beyond what n-grams hold.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sluicegate.safety.detection.features import BITS, CONCEPT_BITS, Integers
from sluicegate.safety.detection.scoring.occurrences import Floats, Sums, WindowFeatures, sums_once

NETWORK_BITS = 15
"""Words and characters share fewer buckets here than in linear heads: the first bits of theirs."""
ROWS = (2 << NETWORK_BITS) + (1 << (CONCEPT_BITS - BITS + NETWORK_BITS))
WIDTH = 16


@dataclass(frozen=True, slots=True)
class TextNetwork:
    """`table` [ROWS, WIDTH], `hidden` and `output` [WIDTH] float32. A score is `output` times what of the sum of rows
    and `hidden` is above zero, plus `bias`."""

    table: Floats
    hidden: Floats
    output: Floats
    bias: float

    def scores(self, read: WindowFeatures, character_share: float) -> Sums:
        """Return the score of each window, whose features count once."""
        words = sums_once(self.table[word_rows(read.words.buckets)], read.words)
        words += sums_once(self.table[concept_rows(read.concepts.buckets)], read.concepts)
        chars = sums_once(self.table[char_rows(read.chars.buckets)], read.chars)
        summed = words / read.word_roots[:, None] + character_share * (chars / read.char_roots[:, None])  # [n, WIDTH]
        found: Sums = np.maximum(summed + self.hidden, 0.0) @ self.output.astype(np.float64) + self.bias
        return found


def word_rows(buckets: Integers) -> Integers:
    """Return the row of the table for each bucket of words."""
    return buckets >> (BITS - NETWORK_BITS)


def char_rows(buckets: Integers) -> Integers:
    """Return the row of the table for each bucket of characters."""
    return word_rows(buckets) + (1 << NETWORK_BITS)


def concept_rows(buckets: Integers) -> Integers:
    """Return the row of the table for each bucket of concepts."""
    return word_rows(buckets) + (2 << NETWORK_BITS)
