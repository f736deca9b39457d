"""A text as rows of hashed features, kept by position, so that every window is scored from one pass.

Features are hashes of word n-grams (with one-word gaps and marks for the beginning of a sentence) and of character
n-grams: no vocabulary, a feature is a bucket number, and many n-grams share a bucket. Where a head wants them, the
concepts that the text names (`concepts`) are features too, alone and with their neighbours.

Chinese characters are words of their own, and a word ends where kana, Thai or another script that is written without
spaces meets another: words of that size are what pairs and triples can be learned of.

Not covered: word order beyond three words, and words within Thai and its like, which need a dictionary (their character
n-grams count).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from sluicegate.safety.detection.features import concepts, scripts

BITS = 18
BUCKETS = 1 << BITS
CONCEPT_BITS = 16
CONCEPT_BUCKETS = 1 << CONCEPT_BITS

Integers = npt.NDArray[np.int64]
_Hashes = npt.NDArray[np.uint64]
_Parts = tuple[tuple[Integers, Integers], ...]

_NEAR, _NEAR_THREE = 60, 100
"""Characters. Concepts that stand no further apart than that belong together."""
_LONGEST_NGRAM = 5
_SENTENCE_ENDS = frozenset('.!?:;\n\r|•*>。！？：।؟"“”«»(')
_LETTER, _OTHER, _END = 1, 0, 2
_QUOTED_SALT = np.uint64(0x5851F42D4C957F2D)
_QUOTED = re.compile(
    r"\"[^\"\n]{1,160}\"|“[^“”\n]{1,160}”|«[^«»\n]{1,160}»|„[^„“”\n]{1,160}[“”]|(?<!\w)'[^'\n]{2,160}'(?!\w)|`[^`\n]{1,160}`"
)


class _Kinds(dict[str, int]):
    """Part of a word, something else, or the end of a sentence; filled as characters are met."""

    def __missing__(self, char: str) -> int:
        if char in _SENTENCE_ENDS:
            kind = _END
        else:
            kind = _LETTER if unicodedata.category(char)[0] in "LMN" or char == "'" else _OTHER
        if len(self) < 20_000:
            self[char] = kind
        return kind


_KINDS = _Kinds()


@dataclass(frozen=True, slots=True)
class TextFeatures:
    """Positions are in the text as given, ascending. `word_at` [W] and `char_at` [C] say where a feature begins."""

    word_at: Integers
    words: Integers
    """Bucket of the feature that begins at `word_at`; several share a position."""
    char_at: Integers
    chars: Integers
    starts: Integers
    """Where each word begins: what windows are counted in."""
    concept_at: Integers = field(default_factory=lambda: _nothing())
    concepts: Integers = field(default_factory=lambda: _nothing())
    """Below `CONCEPT_BUCKETS`; none where the head that reads the text has no use for them."""


def features(text: str, cuts: Sequence[int] = (), *, named: bool = False) -> TextFeatures:
    """Hash the features of `text`, which is folded already (`normalise.fold`). No feature crosses an offset of `cuts`
    (ascending), and a sentence begins at each. Linear in the length of `text`; no limit is applied here. `named`: with
    features of concepts."""
    codes = concepts.codes_of(text)
    kinds = np.fromiter((_KINDS[char] for char in text), dtype=np.uint8, count=len(text))
    part = np.zeros(len(text) + 1, dtype=np.int64)
    np.add.at(part, np.asarray(cuts, dtype=np.int64), 1)
    part = np.cumsum(part)
    quoted = _quoted(text)
    spans = concepts.Spans(codes)
    script = scripts.scripts_of(codes)
    begin, end = _words(kinds, part, scripts.joints(script))
    plain = spans.hashes(begin, end)
    word_at, words = _word_features(plain ^ quoted[begin], kinds, part, begin, end)
    char_at, chars = _char_features(codes, part, quoted)
    found = (_nothing(), _nothing())
    if named:
        places = concepts.places(spans, plain, begin, end, part, np.flatnonzero(script))
        found = _concept_features(*places, part, quoted)
    return TextFeatures(word_at, words, char_at, chars, begin, *found)


def _nothing() -> Integers:
    return np.zeros(0, dtype=np.int64)


def _quoted(text: str) -> _Hashes:
    """Return a salt [len(text)]: non-zero inside quotation marks, so that quoted words are features of their own."""
    salt = np.zeros(len(text), dtype=np.uint64)
    for found in _QUOTED.finditer(text):
        salt[found.start() + 1 : found.end() - 1] = _QUOTED_SALT
    return salt


def _bucket(hashes: _Hashes, seed: int) -> Integers:
    """Mix hashes by the finaliser of MurmurHash3 (public domain, Austin Appleby), then take the top bits."""
    mixed = hashes ^ np.uint64(seed * 0xC2B2AE3D27D4EB4F & 0xFFFFFFFFFFFFFFFF)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    mixed = (mixed ^ (mixed >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return (mixed >> np.uint64(64 - BITS)).astype(np.int64)


def _words(kinds: npt.NDArray[np.uint8], part: Integers, joints: npt.NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """Return where each word begins and ends."""
    inside = np.concatenate(([False], kinds == _LETTER, [False]))
    parted = np.concatenate(([True], part[1:] != part[:-1])) | joints
    begin = np.flatnonzero(inside[1:] & (~inside[:-1] | parted))
    end = np.flatnonzero(inside[:-1] & (~inside[1:] | parted))
    return begin, end


def _word_features(
    words: _Hashes, kinds: npt.NDArray[np.uint8], part: Integers, begin: Integers, end: Integers
) -> tuple[Integers, Integers]:
    if not len(begin):
        return _nothing(), _nothing()
    ends = np.concatenate(([0], np.cumsum(kinds == _END)))
    first = np.concatenate(([True], (ends[begin[1:]] > ends[end[:-1]]) | (part[begin[1:]] > part[begin[:-1]])))
    return _word_ngrams(words, begin, first, part[begin])


def _concept_features(at: Integers, named: Integers, part: Integers, quoted: _Hashes) -> tuple[Integers, Integers]:
    """Hash the concepts `named` that stand `at`, pairs of neighbours and of next neighbours in any order, triples in
    any order."""
    of = part[at]
    two, three = _close(at, of, 1, _NEAR), _close(at, of, 2, _NEAR)
    wide = _close(at, of, 2, _NEAR_THREE)
    triple = np.sort(np.stack([named[:-2], named[1:-1], named[2:]]), axis=0)
    keyed = (
        (at, named, 20),
        (at[two], _unordered(named[:-1], named[1:])[two], 21),
        (at[three], _unordered(named[:-2], named[2:])[three], 21),
        (at[wide], ((triple[0] * 100 + triple[1]) * 100 + triple[2])[wide], 22),
    )
    hashed = tuple((where, _bucket(keys.astype(np.uint64) ^ quoted[where], seed)) for where, keys, seed in keyed)
    places, buckets = _sorted(hashed)
    return places, buckets >> (BITS - CONCEPT_BITS)


def _unordered(one: Integers, other: Integers) -> Integers:
    pair: Integers = np.minimum(one, other) * 100 + np.maximum(one, other)
    return pair


def _close(at: Integers, part: Integers, step: int, most: int) -> Integers:
    """Return where the concept so many places on stands near and in the same part."""
    return np.flatnonzero((at[step:] - at[:-step] <= most) & (part[step:] == part[:-step]))


def _word_ngrams(
    words: _Hashes, begin: Integers, first: npt.NDArray[np.bool_], part: Integers
) -> tuple[Integers, Integers]:
    """Hash words, pairs, triples, pairs over a gap; words and pairs that begin a sentence once more under another
    seed."""
    k = np.uint64(0x100000001B3)
    pair = words[:-1] * k + words[1:]
    triple = pair[:-1] * k + words[2:]
    gap = words[:-2] * k + words[2:]
    opener = np.flatnonzero(first)
    two, three = np.flatnonzero(part[1:] == part[:-1]), np.flatnonzero(part[2:] == part[:-2])
    opening_pair = two[first[two]]
    parts = (
        (begin, _bucket(words, 1)),
        (begin[two], _bucket(pair[two], 2)),
        (begin[three], _bucket(triple[three], 3)),
        (begin[three], _bucket(gap[three], 4)),
        (begin[opener], _bucket(words[opener], 5)),
        (begin[opening_pair], _bucket(pair[opening_pair], 6)),
    )
    return _sorted(parts)


def _char_features(codes: _Hashes, part: Integers, quoted: _Hashes) -> tuple[Integers, Integers]:
    parts = []
    k = np.uint64(0x100000001B3)
    rolling = codes.copy()
    for n in range(2, _LONGEST_NGRAM + 1):
        if len(codes) < n:
            break
        rolling = rolling[: len(codes) - n + 1] * k + codes[n - 1 :]
        whole = part[n - 1 : len(codes)] == part[: len(rolling)]
        if n == 2:  # pairs say something only where a character is nearly a word
            whole &= codes[: len(rolling)] >= 0x2E80
        at = np.flatnonzero(whole)
        parts.append((at, _bucket(rolling[at] ^ quoted[at], 10 + n)))
    return _sorted(tuple(parts))


def _sorted(parts: _Parts) -> tuple[Integers, Integers]:
    if not parts:
        return _nothing(), _nothing()
    at = np.concatenate([p for p, _ in parts])
    order = np.argsort(at, kind="stable")
    return at[order], np.concatenate([b for _, b in parts])[order]
