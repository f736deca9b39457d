"""Linear heads over hashed features: one dot product for every window of a text, whatever their number.

A window's score is the sum of its features' weights over the root of how many there are, for words and for
characters; concepts, where a head reads them, count beside the words. Sums come from prefix sums, so a long text costs
one pass. A head may have weights that count once in a window, however often a feature stands there, so that what a long
text says again and again does not add up to an alarm: those take one sorting and a sum for each window. Fewer than four
words are divided as four are, so that a word or two alone are no more than a hint. The score becomes a number between 0
and 1: 0.5 is where one in a hundred of the harmless texts of the training sets stood (cross-validated), and the slope
is that of a logistic calibration on the same held-out scores.

Not covered: meaning beyond three words. A paraphrase that shares no words with what was learned passes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.plugins.errors import ConfigurationError
from sluicegate.safety.detection.features import BUCKETS, CONCEPT_BUCKETS, Integers, TextFeatures, features
from sluicegate.safety.detection.segments import CONTEXT
from sluicegate.safety.detection.settings import WEIGHTS

HEADS = ("injection", "document", "harm")
FORMAT = 4
READABLE = (1, 2, 3, FORMAT)
"""Format 1 is that of weights of which no head reads concepts, format 2 of those of which none reads parts, format 3 of
those that all count every occurrence."""

CHARACTER_SHARE = 0.5
"""How much the character n-grams weigh beside the words."""
NGRAMS_PER_CHARACTER = 4.0
LEAST_WORDS = 4.0
LEAST_CHARACTERS = 20.0
"""A window counts as at least so long: two words are little evidence, whatever they are."""
CONTEXT_SCALE = 0.4
BIAS = 0.5

_PARTS = ("words", "chars", "concepts", "words_once", "chars_once")
_PLACE_BITS = 40

Floats = npt.NDArray[np.float32]
Sums = npt.NDArray[np.float64]
Windows = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class FeatureShare:
    """The n-grams that a score is made of, and for each occurrence the factor of its weight in that score."""

    words: Integers
    chars: Integers
    word_shares: npt.NDArray[np.float64]
    char_shares: npt.NDArray[np.float64]

    @property
    def squared(self) -> float:
        """Return the squared length of the score's gradient in the weights."""
        sums = (
            np.bincount(np.unique(at, return_inverse=True)[1], weights=shares)
            for at, shares in ((self.words, self.word_shares), (self.chars, self.char_shares))
        )
        return float(sum((each**2).sum() for each in sums))

    def mixed(self, other: FeatureShare, share: float) -> FeatureShare:
        """Return what a mean of two scores is made of, with `share` for `other`."""
        return FeatureShare(
            np.concatenate((self.words, other.words)),
            np.concatenate((self.chars, other.chars)),
            np.concatenate(((1 - share) * self.word_shares, share * other.word_shares)),
            np.concatenate(((1 - share) * self.char_shares, share * other.char_shares)),
        )


@dataclass(frozen=True, slots=True)
class Head:
    """`words`, `chars` [BUCKETS], `context` [len(CONTEXT)] float32; `slope`, `midpoint` turn a score into 0..1, or
    `document_midpoint` where a document is read by a head that is not made for documents. `concepts`
    [CONCEPT_BUCKETS], or none where the head reads none. `part_share`: how much the worst short part of a text counts
    beside its worst window. `words_once`, `chars_once` [BUCKETS], or none: more weights of the same features, which
    count once in a window, as concepts then do."""

    words: Floats
    chars: Floats
    context: Floats
    bias: float
    slope: float = 1.0
    midpoint: float = 0.0
    document_midpoint: float = 0.0
    concepts: Floats | None = None
    part_share: float = 0.0
    words_once: Floats | None = None
    chars_once: Floats | None = None

    def features(self, text: str) -> TextFeatures:
        """Hash the features of folded `text` that this head uses."""
        return features(text, named=self.concepts is not None)

    def scores(self, found: TextFeatures, windows: Windows, context: Floats | None = None) -> Floats:
        """Return the raw score of each window; `context` [n, len(CONTEXT)] where windows are segments of a document."""
        bounds = np.asarray(windows, dtype=np.int64).reshape(-1, 2)
        words = _sums(self.words, self.words_once, found.words, found.word_at, bounds)
        if self.concepts is not None:
            every, once = (self.concepts, None) if self.words_once is None else (None, self.concepts)
            words += _sums(every, once, found.concepts, found.concept_at, bounds)
        words /= _word_roots(found, bounds)
        chars = _sums(self.chars, self.chars_once, found.chars, found.char_at, bounds)
        chars /= _char_roots(found, bounds)
        total = words + CHARACTER_SHARE * chars + BIAS * self.bias
        if context is not None:
            total = total + CONTEXT_SCALE * (context @ self.context)
        result: Floats = total.astype(np.float32)
        return result

    def share(self, found: TextFeatures, window: tuple[int, int]) -> FeatureShare:
        """Return the n-grams of one window and their factors in its score by the weights that count all of them."""
        bounds = np.asarray([window], dtype=np.int64)
        words, chars = (slice(*np.searchsorted(at, window)) for at in (found.word_at, found.char_at))
        roots = _word_roots(found, bounds), _char_roots(found, bounds)
        bucketed = found.words[words], found.chars[chars]
        factors = 1.0 / float(roots[0][0]), CHARACTER_SHARE / float(roots[1][0])
        return FeatureShare(
            *bucketed, *(np.full(len(at), factor) for at, factor in zip(bucketed, factors, strict=True))
        )

    def probability(self, score: float, *, document: bool = False) -> float:
        """Return a number between 0 and 1, monotone in `score`; 0.5 at the midpoint."""
        midpoint = self.document_midpoint if document else self.midpoint
        return float(1.0 / (1.0 + np.exp(-np.clip(self.slope * (score - midpoint), -30.0, 30.0))))


def _sums(every: Floats | None, once: Floats | None, buckets: Integers, at: Integers, bounds: Integers) -> Sums:
    """Return for each window the sum of the weights `every` of its buckets and of `once` of its distinct ones."""
    low, high = np.searchsorted(at, bounds[:, 0]), np.searchsorted(at, bounds[:, 1])
    sums: Sums = np.zeros(len(bounds))
    if every is not None:
        prefix = np.concatenate(([0.0], np.cumsum(every[buckets], dtype=np.float64)))
        sums += prefix[high] - prefix[low]
    if once is not None:
        sums += _sums_once(once[buckets].astype(np.float64), _before(buckets), low, high)
    return sums


def _sums_once(weights: Sums, before: Integers, low: Integers, high: Integers) -> Sums:
    """Sum the weights at the places of each window that are the first of their bucket there."""
    spans = zip(low.tolist(), high.tolist(), strict=True)
    return np.array([weights[start:end] @ (before[start:end] < start) for start, end in spans], dtype=np.float64)


def _before(buckets: Integers) -> Integers:
    """Return for each place the last place before it with the same bucket, else -1. Buckets and places share one number
    that is sorted, which is many times as fast as a stable sort of places."""
    found = np.full(len(buckets), -1, dtype=np.int64)
    ordered = np.sort(buckets << _PLACE_BITS | np.arange(len(buckets), dtype=np.int64))
    places = ordered & (1 << _PLACE_BITS) - 1
    same = ordered[1:] >> _PLACE_BITS == ordered[:-1] >> _PLACE_BITS
    found[places[1:][same]] = places[:-1][same]
    return found


def _word_roots(found: TextFeatures, bounds: Integers) -> npt.NDArray[np.float64]:
    """Return the root of how many words each window holds, in a short one of `LEAST_WORDS`."""
    return np.sqrt(np.maximum(_counts(found.starts, bounds), LEAST_WORDS))


def _char_roots(found: TextFeatures, bounds: Integers) -> npt.NDArray[np.float64]:
    """Return the root of about how many characters each window holds, in a short one of `LEAST_CHARACTERS`."""
    return np.sqrt(np.maximum(_counts(found.char_at, bounds) / NGRAMS_PER_CHARACTER, LEAST_CHARACTERS))


def _counts(at: Integers, bounds: Integers) -> npt.NDArray[np.float64]:
    count = np.searchsorted(at, bounds[:, 1]) - np.searchsorted(at, bounds[:, 0])
    found: npt.NDArray[np.float64] = count.astype(np.float64)
    return found


@dataclass(frozen=True, slots=True)
class Classifier:
    """Immutable; shared by requests and threads. `about` describes its training data and results."""

    heads: Mapping[str, Head]
    about: Mapping[str, Any]

    def save(self, path: Path) -> None:
        """Write the weights as int8 with one scale for each array."""
        arrays: dict[str, npt.NDArray[Any]] = {}
        for name, head in self.heads.items():
            for part in _PARTS:
                if (weights := getattr(head, part)) is not None:
                    arrays[f"{name}.{part}"], arrays[f"{name}.{part}.scale"] = _to_int8(weights)
            arrays[f"{name}.context"] = head.context
            scalars = head.bias, head.slope, head.midpoint, head.document_midpoint, head.part_share
            arrays[f"{name}.scalars"] = np.array(scalars, dtype=np.float32)
        about = json.dumps({"format": FORMAT, **self.about}, sort_keys=True)
        arrays["about"] = np.frombuffer(about.encode(), dtype=np.uint8)
        np.savez_compressed(path, allow_pickle=False, **arrays)


def _to_int8(weights: Floats) -> tuple[npt.NDArray[np.int8], Floats]:
    scale = float(np.abs(weights).max()) / 127.0 or 1.0
    return np.rint(weights / scale).astype(np.int8), np.array([scale], dtype=np.float32)


def load(path: Path = WEIGHTS) -> Classifier:
    """Load the weights. Raises `ConfigurationError` for a file that is missing or of another format."""
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(arrays["about"].tobytes())
            if about["format"] not in READABLE:
                raise ValueError(f"format {about['format']}, expected {FORMAT}")
            return Classifier({name: _head(arrays, name) for name in HEADS}, about)
    except (OSError, KeyError, ValueError) as error:
        raise ConfigurationError(
            f"detection weights {str(path)!r} cannot be read: {error}; "
            "`sluicegate safety tune --apply` writes them, as does `python -m training.detector.train --data FOLDER`"
        ) from error


def _head(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Head:
    parts = {part: _from_int8(arrays, f"{name}.{part}") for part in _PARTS if f"{name}.{part}" in arrays}
    context = arrays[f"{name}.context"]
    shapes = {part: (CONCEPT_BUCKETS if part == "concepts" else BUCKETS,) for part in parts}
    if {part: weights.shape for part, weights in parts.items()} != shapes or context.shape != (len(CONTEXT),):
        raise ValueError(f"head {name!r} has the wrong shape")
    bias, slope, midpoint, document_midpoint, *shares = (float(x) for x in arrays[f"{name}.scalars"])
    return Head(
        parts["words"],
        parts["chars"],
        context.astype(np.float32),
        bias,
        slope,
        midpoint,
        document_midpoint,
        concepts=parts.get("concepts"),
        part_share=shares[0] if shares else 0.0,
        words_once=parts.get("words_once"),
        chars_once=parts.get("chars_once"),
    )


def _from_int8(arrays: Mapping[str, npt.NDArray[Any]], name: str) -> Floats:
    weights: Floats = arrays[name].astype(np.float32) * arrays[f"{name}.scale"]
    return weights
