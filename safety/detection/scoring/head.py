"""Linear heads over hashed features: one dot product for every window of a text, whatever their number.

A window's score is the sum of its features' weights over the root of how many there are, for words and for
characters; concepts, where a head reads them, count beside the words (`occurrences` makes the sums). A head may have
weights that count once in a window, however often a feature stands there, so that what a long text says again and again
does not add up to an alarm. Fewer than four words are divided as four are, so that a word or two alone are no more than
a hint. Beside its own weights a head may have rivals, of which the lowest score counts, and a network: what only one of
them finds is seldom an attack. It may have specialists, small heads that know some kinds of attack alone: a text has
the highest score of the head and its specialists (the max rule of Kittler et al., "On combining classifiers", 1998), so
that no kind is paid for by another. The score becomes a number between 0 and 1: 0.5 is where one in a hundred of the
harmless texts of the training sets stood (cross-validated), and the slope is that of a logistic calibration on the same
held-out scores.

Not covered: meaning beyond three words. A paraphrase that shares no words with what was learned passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from sluicegate.safety.detection.features import Integers, TextFeatures, features
from sluicegate.safety.detection.scoring.network import TextNetwork
from sluicegate.safety.detection.scoring.occurrences import Floats, Sums, WindowFeatures, char_roots, sums, word_roots

CHARACTER_SHARE = 0.5
"""How much the character n-grams weigh beside the words."""
CONTEXT_SCALE = 0.4
BIAS = 0.5

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
    count once in a window, as concepts then do. `rivals`: heads of the same features, the lowest of whose scores has
    `rival_share` of the linear part of the score; `network` has `network_share` of the whole. `specialists`: heads of
    the same features, none of which has members of its own."""

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
    rivals: tuple[Head, ...] = ()
    rival_share: float = 0.0
    network: TextNetwork | None = None
    network_share: float = 0.0
    specialists: tuple[Head, ...] = ()

    def features(self, text: str) -> TextFeatures:
        """Hash the features of folded `text` that this head uses."""
        return features(text, named=self.concepts is not None)

    def scores(self, found: TextFeatures, windows: Windows, context: Floats | None = None) -> Floats:
        """Return the raw score of each window without specialists; `context` [n, len(CONTEXT)] where windows are
        segments of a document."""
        return self._whole(self._read(found, windows), context)

    def member_scores(self, found: TextFeatures, windows: Windows) -> Floats:
        """Return the raw scores [1 + specialists, n] of each window, first the head's own."""
        read = self._read(found, windows)
        return np.stack([member._whole(read) for member in self.members])

    @property
    def members(self) -> tuple[Head, ...]:
        """Return the heads of which the highest score counts, first this one."""
        return (self, *self.specialists)

    def _read(self, found: TextFeatures, windows: Windows) -> WindowFeatures:
        bounds = np.asarray(windows, dtype=np.int64).reshape(-1, 2)
        return WindowFeatures.of(found, bounds, once=self.counts_once)

    def _whole(self, read: WindowFeatures, context: Floats | None = None) -> Floats:
        total = self._linear(read)
        if self.rivals:
            lowest = np.min([rival._linear(read) for rival in self.rivals], axis=0)
            total = (1 - self.rival_share) * total + self.rival_share * lowest
        if self.network is not None:
            beside = self.network.scores(read, CHARACTER_SHARE)
            total = (1 - self.network_share) * total + self.network_share * beside
        if context is not None:
            total = total + CONTEXT_SCALE * (context @ self.context)
        result: Floats = total.astype(np.float32)
        return result

    @property
    def counts_once(self) -> bool:
        """Tell whether something in this head counts once in a window."""
        others = (*self.rivals, *self.specialists)
        return self.words_once is not None or self.network is not None or any(other.counts_once for other in others)

    def _linear(self, read: WindowFeatures) -> Sums:
        words = sums(self.words, self.words_once, read.words)
        if self.concepts is not None:
            every, once = (self.concepts, None) if self.words_once is None else (None, self.concepts)
            words += sums(every, once, read.concepts)
        chars = sums(self.chars, self.chars_once, read.chars)
        return words / read.word_roots + CHARACTER_SHARE * (chars / read.char_roots) + BIAS * self.bias

    def share(self, found: TextFeatures, window: tuple[int, int]) -> FeatureShare:
        """Return the n-grams of one window and their factors in its score by the weights that count all of them."""
        bounds = np.asarray([window], dtype=np.int64)
        words, chars = (slice(*np.searchsorted(at, window)) for at in (found.word_at, found.char_at))
        roots = word_roots(found, bounds), char_roots(found, bounds)
        bucketed = found.words[words], found.chars[chars]
        own = (1 - self.rival_share) * (1 - self.network_share)
        factors = own / float(roots[0][0]), own * CHARACTER_SHARE / float(roots[1][0])
        return FeatureShare(
            *bucketed, *(np.full(len(at), factor) for at, factor in zip(bucketed, factors, strict=True))
        )

    def probability(self, score: float, *, document: bool = False) -> float:
        """Return a number between 0 and 1, monotone in `score`; 0.5 at the midpoint."""
        midpoint = self.document_midpoint if document else self.midpoint
        return float(1.0 / (1.0 + np.exp(-np.clip(self.slope * (score - midpoint), -30.0, 30.0))))
