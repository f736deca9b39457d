"""Training rows, and the fit: L2-regularised linear classification by dual coordinate descent.

The algorithm is that of Hsieh et al., "A dual coordinate descent method for large-scale linear SVM" (ICML 2008), with
the squared hinge loss. Deterministic for a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from sluicegate.safety.detection.detector import WINDOW, document_features, windows
from sluicegate.safety.detection.features import BUCKETS, CONCEPT_BUCKETS, Integers, TextFeatures, features
from sluicegate.safety.detection.normalise import fold
from sluicegate.safety.detection.repeats import without_repeats
from sluicegate.safety.detection.scoring.head import BIAS, CHARACTER_SHARE, CONTEXT_SCALE, Head
from sluicegate.safety.detection.scoring.occurrences import LEAST_CHARACTERS, LEAST_WORDS, NGRAMS_PER_CHARACTER
from sluicegate.safety.detection.segments import CONTEXT

_CONTEXT = 2 * BUCKETS + 1
CONCEPTS = _CONTEXT + len(CONTEXT)
WIDTH = CONCEPTS + CONCEPT_BUCKETS
"""Columns: words, characters, bias, context, concepts."""

EPOCHS = 8
PRUNED = 0.004
"""Weights below this share of the largest are dropped."""
PRUNED_MORE = 0.04
"""The same where `pruned` is asked for: smaller ones say next to nothing and take a seventh of the file (0266)."""
CAP = 0.8
CAPPED_BY = 20
"""Where a head is capped, no weight exceeds this share of the weight of that rank: a few words of attacks ("base64",
"prompt", "limits") weigh so much that one of them alone makes a harmless text ring (0210)."""


@dataclass(frozen=True, slots=True)
class Row:
    """Sparse: `at` [k] columns, `value` [k]; `bad` and how much the row counts."""

    at: npt.NDArray[np.int64]
    value: npt.NDArray[np.float64]
    bad: bool
    weight: float = 1.0


def text_row(text: str, bad: bool, weight: float = 1.0) -> Row:
    """Return the row of the first window of a text, as `Head.scores` reads it."""
    return _row(features(_first_window(text)), bad, weight)


def once_row(text: str, bad: bool, weight: float = 1.0) -> Row:
    """Read a text as `text_row` does, and each feature once."""
    return _row(features(_first_window(text)), bad, weight, once=True)


def concept_row(text: str, bad: bool, weight: float = 1.0) -> Row:
    """Read a text as `text_row` does, with the concepts that it names, and each feature once."""
    return _row(features(_first_window(text), named=True), bad, weight, once=True)


def _first_window(text: str) -> str:
    return without_repeats(fold(text))[:WINDOW]


def window_rows(text: str, bad: bool, weight: float, read: Callable[[str, bool, float], Row]) -> list[Row]:
    """Return a row of each window of a text, as a detector reads a long one."""
    folded = without_repeats(fold(text))
    return [read(folded[start:end], bad, weight) for start, end in windows(len(folded))]


def segment_rows(text: str, planted: tuple[int, int] | None, weight: float = 1.0) -> list[tuple[str, Row]]:
    """Return (segment, row) for each segment of a document; those that lie in `planted` are bad."""
    folded = fold(text)
    exact = len(folded) == len(text)
    found, bounds, context = document_features(folded)
    rows = []
    for (start, end), facts in zip(bounds, context, strict=True):
        inside = planted is not None and _overlap(start, end, *planted) >= 0.5 * (end - start)
        if planted is None or exact:
            rows.append((folded[start:end], _row(_slice(found, start, end), inside, weight, facts)))
    return rows


def _overlap(start: int, end: int, low: int, high: int) -> int:
    return min(end, high) - max(start, low)


def _slice(found: TextFeatures, start: int, end: int) -> TextFeatures:
    words = slice(*np.searchsorted(found.word_at, (start, end)))
    chars = slice(*np.searchsorted(found.char_at, (start, end)))
    begins = slice(*np.searchsorted(found.starts, (start, end)))
    return TextFeatures(
        found.word_at[words], found.words[words], found.char_at[chars], found.chars[chars], found.starts[begins]
    )


def _row(
    found: TextFeatures,
    bad: bool,
    weight: float,
    context: npt.NDArray[np.float32] | None = None,
    once: bool = False,
) -> Row:
    words, word_counts = _counted(found.words, once)
    chars, char_counts = _counted(found.chars, once)
    concepts, concept_counts = _counted(found.concepts, once)
    root = np.sqrt(max(len(found.starts), LEAST_WORDS))
    at = [words, chars + BUCKETS, np.array([2 * BUCKETS])]
    value = [
        word_counts / root,
        CHARACTER_SHARE * char_counts / np.sqrt(max(len(found.chars) / NGRAMS_PER_CHARACTER, LEAST_CHARACTERS)),
        np.array([BIAS]),
    ]
    if context is not None:
        at.append(_CONTEXT + np.arange(len(CONTEXT)))
        value.append(CONTEXT_SCALE * context.astype(np.float64))
    at.append(CONCEPTS + concepts)
    value.append(concept_counts / root)
    return Row(np.concatenate(at), np.concatenate(value), bad, weight)


def _counted(buckets: Integers, once: bool) -> tuple[Integers, Integers]:
    """Return the distinct buckets, and how often each counts."""
    distinct, counts = np.unique(buckets, return_counts=True)
    return distinct, np.ones_like(counts) if once else counts


def fit(rows: Sequence[Row], cost: float, epochs: int = EPOCHS, seed: int = 0, *, capped: bool = False) -> Head:
    """Fit a head to `rows`, and cap its largest weights if it is to be `capped`. Raises `ValueError` where one of the
    two classes is missing."""
    if len({row.bad for row in rows}) != 2:
        raise ValueError("training needs both bad and harmless rows")
    ends = np.cumsum([0, *(len(row.at) for row in rows)])
    at = np.concatenate([row.at for row in rows])
    value = np.concatenate([row.value for row in rows])
    sign = np.array([1.0 if row.bad else -1.0 for row in rows])
    slack = np.array([0.5 / (cost * row.weight) for row in rows])
    rng = np.random.default_rng(seed)
    order = np.stack([rng.permutation(len(rows)) for _ in range(epochs)])
    weights = np.zeros(WIDTH)
    _descend(ends, at, value, sign, slack, order, weights)
    return _capped(_head(weights)) if capped else _head(weights)


@njit(cache=True)  # type: ignore[untyped-decorator]  # numba carries no types
def _descend(
    ends: npt.NDArray[np.int64],
    at: npt.NDArray[np.int64],
    value: npt.NDArray[np.float64],
    sign: npt.NDArray[np.float64],
    slack: npt.NDArray[np.float64],
    order: npt.NDArray[np.int64],
    weights: npt.NDArray[np.float64],
) -> None:
    """Solve for one row's dual variable with all others fixed, row after row in `order` [epochs, rows]; row k is
    at[ends[k] : ends[k + 1]]. Changes `weights` in place."""
    dual = np.zeros(len(sign))
    for epoch in range(len(order)):
        for k in order[epoch]:
            score, square = 0.0, 0.0
            for j in range(ends[k], ends[k + 1]):
                score += weights[at[j]] * value[j]
                square += value[j] * value[j]
            gradient = sign[k] * score - 1.0 + slack[k] * dual[k]
            after = max(dual[k] - gradient / (square + slack[k]), 0.0)
            if after != dual[k]:
                for j in range(ends[k], ends[k + 1]):
                    weights[at[j]] += (after - dual[k]) * sign[k] * value[j]
                dual[k] = after


def _head(weights: npt.NDArray[np.float64]) -> Head:
    words, chars = (_pruned(part) for part in (weights[:BUCKETS], weights[BUCKETS : 2 * BUCKETS]))
    context = weights[_CONTEXT:CONCEPTS].astype(np.float32)
    concepts = weights[CONCEPTS:]
    read = _pruned(concepts) if concepts.any() else None
    return Head(words, chars, context, float(weights[2 * BUCKETS]), concepts=read)


def _capped(head: Head) -> Head:
    concepts = None if head.concepts is None else _at_most(head.concepts)
    return replace(head, words=_at_most(head.words), chars=_at_most(head.chars), concepts=concepts)


def _at_most(weights: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    ranked = float(np.partition(weights, -CAPPED_BY - 1)[-CAPPED_BY - 1])
    return np.minimum(weights, max(CAP * ranked, 0.0)).astype(np.float32)


def counted_once(head: Head) -> Head:
    """Return the head that counts once in a window what `head` counts at each occurrence."""
    nothing = np.zeros_like(head.words)
    return replace(head, words=nothing, chars=nothing, words_once=head.words, chars_once=head.chars)


def mixed(first: Head, second: Head, share: float) -> Head:
    """Return the head whose scores are the mean of those of `first` and `second`, with `share` for the second; only
    `second` may read concepts or count once."""
    words, chars, context = (
        ((1 - share) * getattr(first, part) + share * getattr(second, part)).astype(np.float32)
        for part in ("words", "chars", "context")
    )
    concepts, words_once, chars_once = (
        None if (weights := getattr(second, part)) is None else (share * weights).astype(np.float32)
        for part in ("concepts", "words_once", "chars_once")
    )
    bias = (1 - share) * first.bias + share * second.bias
    return Head(words, chars, context, bias, concepts=concepts, words_once=words_once, chars_once=chars_once)


def pruned(head: Head) -> Head:
    """Return the head without its smallest weights, for a smaller file."""

    def kept(weights: npt.NDArray[np.float32] | None) -> npt.NDArray[np.float32] | None:
        return None if weights is None else _pruned(weights, PRUNED_MORE)

    return replace(
        head,
        words=_pruned(head.words, PRUNED_MORE),
        chars=_pruned(head.chars, PRUNED_MORE),
        concepts=kept(head.concepts),
        words_once=kept(head.words_once),
        chars_once=kept(head.chars_once),
    )


def _pruned(weights: npt.NDArray[Any], share: float = PRUNED) -> npt.NDArray[np.float32]:
    small = np.abs(weights) < share * np.abs(weights).max()
    return np.where(small, 0.0, weights).astype(np.float32)


def sparsity(heads: Iterable[Head]) -> float:
    """Return the share of the weights that are not zero."""
    parts = [part for head in heads for part in (head.words, head.chars)]
    return float(np.mean([np.mean(part != 0) for part in parts]))
