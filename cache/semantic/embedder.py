"""Text embedders: the Protocol, the built-in default, and an adapter for any function."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Callable
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt

from sluicegate.cache.entries import Vector
from sluicegate.cache.semantic.english import listed
from sluicegate.cache.semantic.judged.near_words import near_rows

FREQUENT = listed(
    """
    a an and are as at be by can could do does for from had has have how i if in is it me my of on or our please should
    tell that the their this to was we were what when where which who why will with would you your
    """
)
COMMON = FREQUENT | listed(
    """
    am im i'm i'd i've into them they those these there some any so just than then been also its not no many much up out
    about after before while until over under too very more most than only still already again else other us let make
    does possible allowed okay ok able must may might shall if but because want need like get getting one someone person
    please way help tips trick suggestion steps show explain know find thing things something anything s t re ve ll d m
    """
)
"""Words that two questions in other words share by chance: they would bring near misses before paraphrases."""
SENSES = 1.2
"""Weight of the senses of a word, beside 1 of the word itself."""
WORD = re.compile(r"\w+", re.UNICODE)


class Embedder(Protocol):
    """Embeds texts. `name` identifies the model: vectors of different names are never compared."""

    @property
    def name(self) -> str: ...

    @property
    def dim(self) -> int:
        """Return the number of dimensions; 0 until the first vector where it is not known before."""

    @property
    def threshold(self) -> float:
        """Return the default cosine below which two texts are not compared."""

    async def embed(self, text: str) -> Vector:
        """Return the vector of a text: float32 [dim], of length 1."""


class HashedNgrams:
    """The embedded default: words, pairs of words and character 3- and 4-grams, hashed with signs into `dim` numbers.

    It sees spelling, not meaning: texts are near when they share words. Weights stand in for document frequencies that
    nobody has collected (frequent English words count little). Two unrelated texts have a cosine within about
    +-2/sqrt(dim) of what their shared words account for. It needs no model, no download and about 0.1 ms a sentence.
    """

    frequent = FREQUENT
    """Words that count little."""

    def __init__(self, dim: int = 384) -> None:
        self.dim = dim
        self.name = f"hashed-ngrams-1-{dim}"
        self.threshold = 0.4  # rewordings of one question begin there (benchmarks/pairs.txt); the guard decides

    async def embed(self, text: str) -> Vector:
        return self.vector(text)

    def vector(self, text: str) -> Vector:
        return unit(self._dense(self._features(WORD.findall(text.lower()))))

    def _features(self, words: list[str]) -> dict[int, float]:
        """Return the weight of each feature of a text's words."""
        sums: dict[int, float] = {}
        for word in words:
            weight = 0.3 if word in self.frequent else 1.0
            self._add(sums, word, weight)
            padded = f" {word} "
            for size in (3, 4):
                for start in range(len(padded) - size + 1):
                    self._add(sums, padded[start : start + size], 0.3 * weight)
        for one, other in pairwise(words):
            self._add(sums, f"{one} {other}", 0.3)
        return sums

    def _add(self, sums: dict[int, float], feature: str, weight: float) -> None:
        code = zlib.crc32(feature.encode())
        sums[code] = sums.get(code, 0.0) + weight

    def _dense(self, sums: dict[int, float]) -> Vector:
        dense = np.zeros(self.dim, np.float32)
        for code, weight in sums.items():
            dense[(code >> 1) % self.dim] += weight if code & 1 else -weight
        return dense


class HashedSenses(HashedNgrams):
    """`HashedNgrams` and, of each word, the senses that `near_words.txt` knows: the default where a judge decides.

    "What's the fee for an overdraft" and "how much do you charge if I overdraw my account" share no word, but senses.
    """

    frequent = COMMON

    def __init__(self, dim: int = 384) -> None:
        super().__init__(dim)
        self.name = f"hashed-senses-2-{dim}"

    def _features(self, words: list[str]) -> dict[int, float]:
        sums = super()._features(words)
        for numbers in near_rows([word for word in words if word not in self.frequent]):
            weight = SENSES / len(numbers) ** 0.5
            for number in numbers:
                self._add(sums, f"sense {number}", weight)
        return sums


class CallableEmbedder:
    """Any function from text to vector: an engine's pooled hidden states, a local sentence-transformers folder
    (`lambda text: model.encode(text)`), a client of an embeddings upstream. It runs in a thread unless it is quick."""

    def __init__(
        self,
        name: str,
        dim: int,
        call: Callable[[str], npt.ArrayLike],
        *,
        threshold: float = 0.9,
        in_thread: bool = True,
    ) -> None:
        self.name = name
        self.dim = dim
        self.threshold = threshold
        self._call = call
        self._in_thread = in_thread

    async def embed(self, text: str) -> Vector:
        """Return the vector of a text, float32 [dim], of length 1. Raises `ValueError` where the function returns
        anything but `dim` finite numbers."""
        made = await asyncio.to_thread(self._call, text) if self._in_thread else self._call(text)
        vector = np.asarray(made, dtype=np.float32)
        if vector.shape != (self.dim,) or not np.isfinite(vector).all():
            raise ValueError(
                f"embedder {self.name!r} answered shape {vector.shape}; expected ({self.dim},), all finite"
            )
        return unit(vector)


def unit(vector: Vector) -> Vector:
    """Scale a vector to length 1. A zero vector, of a text without features, becomes the first axis."""
    length = float(np.sqrt(vector @ vector))
    if length == 0.0:
        vector = vector.copy()
        vector[0] = length = 1.0
    return vector / np.float32(length)
