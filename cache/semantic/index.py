"""Rows of one scope, packed, and the exact nearest among them.

The guard is an equality of 64-bit digests, so it goes first: one vector comparison leaves the rows that may be served
at all. Where many pass, their cosines are bounded before they are computed. Rows are rotated by one fixed random
rotation, which spreads any embedding's energy evenly over the axes; of the first quarter of the axes the inner product
is exact, and of the rest it is at most the product of the lengths (Cauchy-Schwarz). Only rows whose bound reaches the
threshold (or the best found) are computed in full. The answer is the same as a full scan's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from cache.entries import Row, Vector

ROUNDING = 2e-3
"""More than float16 rows can be off in a cosine; bounds are widened by it."""
FEW = 2048
"""So many rows are computed in full at once."""
FIRST_CAPACITY = 16


@dataclass(frozen=True, slots=True)
class Near:
    digest: str
    score: float
    """Cosine."""


class Partition:
    """At most `max_rows` rows; the oldest is overwritten when a new one comes. Not thread-safe."""

    def __init__(self, dim: int, max_rows: int) -> None:
        self._dim = dim
        self._head_dim = max(8, dim // 4)
        self._max_rows = max_rows
        self._count = 0
        self._oldest = 0
        self._digests: list[str] = []
        self._places: dict[str, int] = {}
        self._facts = np.zeros(0, np.uint64)  # [capacity]
        self._heads = np.zeros((0, self._head_dim), np.float32)  # [capacity, head_dim]
        self._tails = np.zeros((0, dim - self._head_dim), np.float16)  # [capacity, dim - head_dim]
        self._tail_lengths = np.zeros(0, np.float32)  # [capacity]

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Of the arrays, and about 150 bytes a row for its digest."""
        arrays = (self._facts, self._heads, self._tails, self._tail_lengths)
        return sum(array.nbytes for array in arrays) + 150 * self._count

    def add(self, row: Row) -> None:
        """The row of a digest that is there already replaces it; a vector of another dimension is ignored."""
        if row.vector.shape != (self._dim,):
            return
        place = self._places.get(row.digest)
        if place is None:
            place = self._new_place()
            self._digests[place] = row.digest
            self._places[row.digest] = place
        rotated = row.vector @ rotation(self._dim)
        self._facts[place] = row.facts
        self._heads[place] = rotated[: self._head_dim]
        self._tails[place] = rotated[self._head_dim :]
        self._tail_lengths[place] = np.linalg.norm(self._tails[place].astype(np.float32))

    def remove(self, digest: str) -> None:
        """The last row takes its place."""
        place = self._places.pop(digest, None)
        if place is None:
            return
        last = self._count - 1
        if place != last:
            for array in (self._facts, self._heads, self._tails, self._tail_lengths):
                array[place] = array[last]
            self._digests[place] = self._digests[last]
            self._places[self._digests[place]] = place
        self._digests.pop()
        self._count = last
        self._oldest = self._oldest % max(last, 1)

    def nearest(self, vector: Vector, facts: int, floor: float, without: Iterable[str] = ()) -> Near | None:
        """The row of the highest cosine among those whose facts are equal and whose cosine is at least `floor`."""
        places = np.flatnonzero(self._facts[: self._count] == np.uint64(facts))
        if excluded := [self._places[digest] for digest in without if digest in self._places]:
            places = np.setdiff1d(places, excluded)
        if not len(places):
            return None
        query = vector @ rotation(self._dim)
        everything = len(places) == self._count
        if len(places) > FEW:
            places = self._within_reach(query, places, everything, floor)
        return self._best(query, places, floor)

    def _within_reach(
        self, query: Vector, places: npt.NDArray[np.intp], everything: bool, floor: float
    ) -> npt.NDArray[np.intp]:
        """Places whose cosine may reach the floor, and the best lower bound found so far; see the module."""
        head, tail_length = query[: self._head_dim], np.linalg.norm(query[self._head_dim :])
        heads = self._heads[: self._count] if everything else self._heads[places]
        lengths = self._tail_lengths[: self._count] if everything else self._tail_lengths[places]
        products = heads @ head
        bounds = products + lengths * tail_length
        promising = int(bounds.argmax())
        best = float(self._cosines(query, places[promising : promising + 1])[0])
        within: npt.NDArray[np.intp] = places[bounds >= max(floor, best) - ROUNDING]
        return within

    def _best(self, query: Vector, places: npt.NDArray[np.intp], floor: float) -> Near | None:
        best, where = -2.0, -1
        for start in range(0, len(places), FEW):
            some = places[start : start + FEW]
            cosines = self._cosines(query, some)
            place = int(cosines.argmax())
            if float(cosines[place]) > best:
                best, where = float(cosines[place]), int(some[place])
        if best < floor:
            return None
        return Near(self._digests[where], min(best, 1.0))

    def _cosines(self, query: Vector, places: npt.NDArray[np.intp]) -> Vector:
        heads = self._heads[places] @ query[: self._head_dim]
        tails = self._tails[places].astype(np.float32) @ query[self._head_dim :]
        summed: Vector = heads + tails
        return summed

    def _new_place(self) -> int:
        if self._count == self._max_rows:
            place = self._oldest
            self._oldest = (place + 1) % self._max_rows
            del self._places[self._digests[place]]
            return place
        if self._count == len(self._facts):
            self._grow()
        self._digests.append("")
        self._count += 1
        return self._count - 1

    def _grow(self) -> None:
        """By a half: at most a third of the memory lies idle."""
        capacity = min(max(FIRST_CAPACITY, self._count + self._count // 2), self._max_rows)
        self._facts = _resized(self._facts, capacity)
        self._heads = _resized(self._heads, capacity)
        self._tails = _resized(self._tails, capacity)
        self._tail_lengths = _resized(self._tail_lengths, capacity)


def _resized(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    grown: npt.NDArray[Any] = np.zeros((rows, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


@lru_cache(maxsize=4)
def rotation(dim: int) -> npt.NDArray[np.float32]:
    """float32 [dim, dim], orthogonal, the same in every process: the Q of a Gaussian matrix of a fixed seed."""
    gaussian = np.random.Generator(np.random.PCG64(7)).standard_normal((dim, dim))
    q, r = np.linalg.qr(gaussian)
    turned: npt.NDArray[np.float32] = (q * np.sign(np.diag(r))).astype(np.float32)
    return turned
