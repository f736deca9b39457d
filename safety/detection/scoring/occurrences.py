"""Where the features of a text lie in its windows, read once for every member of a head, and sums over them.

Sums of weights that count every occurrence come from prefix sums; those that count once in a window take one sorting
for a text and a sum for each window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from sluicegate.safety.detection.features import Integers, TextFeatures

NGRAMS_PER_CHARACTER = 4.0
LEAST_WORDS = 4.0
LEAST_CHARACTERS = 20.0
"""A window counts as at least so long: two words are little evidence, whatever they are."""
_PLACE_BITS = 40

Floats = npt.NDArray[np.float32]
Sums = npt.NDArray[np.float64]
_Weights = TypeVar("_Weights", Floats, Sums)


@dataclass(frozen=True, slots=True)
class Occurrences:
    """The features of one kind, and which of them each window holds: `low` and `high` [n]. `before` says for each
    feature the place of the last equal one, -1 for none; it is empty where nothing counts once."""

    buckets: Integers
    low: Integers
    high: Integers
    before: Integers

    @classmethod
    def of(cls, buckets: Integers, at: Integers, bounds: Integers, once: bool) -> Occurrences:
        low, high = np.searchsorted(at, bounds[:, 0]), np.searchsorted(at, bounds[:, 1])
        return cls(buckets, low, high, _before(buckets) if once else buckets[:0])


@dataclass(frozen=True, slots=True)
class WindowFeatures:
    """What all members of a head read of a text's windows; `word_roots` and `char_roots` [n] divide their sums."""

    words: Occurrences
    chars: Occurrences
    concepts: Occurrences
    word_roots: Sums
    char_roots: Sums

    @classmethod
    def of(cls, found: TextFeatures, bounds: Integers, *, once: bool) -> WindowFeatures:
        return cls(
            Occurrences.of(found.words, found.word_at, bounds, once),
            Occurrences.of(found.chars, found.char_at, bounds, once),
            Occurrences.of(found.concepts, found.concept_at, bounds, once),
            word_roots(found, bounds),
            char_roots(found, bounds),
        )


def sums(every: Floats | None, once: Floats | None, read: Occurrences) -> Sums:
    """Return for each window the sum of the weights `every` of its buckets and of `once` of its distinct ones."""
    found: Sums = np.zeros(len(read.low))
    if every is not None:
        prefix = np.concatenate(([0.0], np.cumsum(every[read.buckets], dtype=np.float64)))
        found += prefix[read.high] - prefix[read.low]
    if once is not None:
        found += sums_once(once[read.buckets].astype(np.float64), read)
    return found


def sums_once(weights: _Weights, read: Occurrences) -> _Weights:
    """Sum weights [W], or rows of them [W, k], at the places of each window that are the first of their bucket
    there."""
    spans = list(zip(read.low.tolist(), read.high.tolist(), strict=True))
    found: _Weights = np.zeros((len(spans), *weights.shape[1:]), dtype=weights.dtype)
    for at, (low, high) in enumerate(spans):
        found[at] = (read.before[low:high] < low).astype(weights.dtype) @ weights[low:high]
    return found


def _before(buckets: Integers) -> Integers:
    """Return for each place the last place before it with the same bucket, else -1. Buckets and places share one number
    that is sorted, which is many times as fast as a stable sort of places."""
    found = np.full(len(buckets), -1, dtype=np.int64)
    ordered = np.sort(buckets << _PLACE_BITS | np.arange(len(buckets), dtype=np.int64))
    places = ordered & (1 << _PLACE_BITS) - 1
    same = ordered[1:] >> _PLACE_BITS == ordered[:-1] >> _PLACE_BITS
    found[places[1:][same]] = places[:-1][same]
    return found


def word_roots(found: TextFeatures, bounds: Integers) -> Sums:
    """Return the root of how many words each window holds, in a short one of `LEAST_WORDS`."""
    return np.sqrt(np.maximum(_counts(found.starts, bounds), LEAST_WORDS))


def char_roots(found: TextFeatures, bounds: Integers) -> Sums:
    """Return the root of about how many characters each window holds, in a short one of `LEAST_CHARACTERS`."""
    return np.sqrt(np.maximum(_counts(found.char_at, bounds) / NGRAMS_PER_CHARACTER, LEAST_CHARACTERS))


def _counts(at: Integers, bounds: Integers) -> Sums:
    count = np.searchsorted(at, bounds[:, 1]) - np.searchsorted(at, bounds[:, 0])
    found: Sums = count.astype(np.float64)
    return found
