"""Rows of one scope, packed, and the exact nearest among them.

The guard is an equality of 64-bit digests, so it goes first: a row of other facts costs one comparison. Of the others,
the cosine is estimated from 8-bit codes, the first third of the axes first: together with the lengths of what remains
(Cauchy-Schwarz) that often tells already that the row cannot win. Every estimate comes with its largest possible error,
so the rows that may be nearest are known for certain; only those are computed from the float16 rows. Rows are rotated
by one fixed random rotation beforehand, which spreads any embedding's energy evenly over the axes and the codes.

The answer is a full scan's, with one exception: where more than `MOST` rows are within the error of the best, the best
`MOST` by estimate are computed. The cosine found is then at most that error, about 0.025, below the highest.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from sluicegate.cache.entries import IndexRow, SimilarEntry, Vector
from sluicegate.plugins.compiled.kernels import kernel

ROUNDING = 1e-3
"""Most by which float16 rows can be wrong in a cosine; estimates get this much margin."""
MOST = 1024
FIRST_CAPACITY = 16


class Partition:
    """At most `max_rows` rows; the oldest is overwritten when a new one comes. Not thread-safe."""

    def __init__(self, dim: int, max_rows: int) -> None:
        self._dim = dim
        self._head = dim // 3
        self._max_rows = max_rows
        self._count = 0
        self._oldest = 0
        self._digests: list[str] = []
        self._places: dict[str, int] = {}
        self._facts = np.zeros(0, np.uint64)  # [capacity]
        self._rows = np.zeros((0, dim), np.float16)  # [capacity, dim], rotated
        self._heads = np.zeros((0, self._head), np.int8)  # [capacity, head]; code * step is within step / 2 of the row
        self._rests = np.zeros((0, dim - self._head), np.int8)  # [capacity, dim - head], apart: it is seldom read
        self._steps = np.zeros(0, np.float32)  # [capacity]
        self._tails = np.zeros(0, np.float32)  # [capacity], length of a row's axes after the head

    def __len__(self) -> int:
        return self._count

    @property
    def nbytes(self) -> int:
        """Return the bytes of the arrays, and about 150 bytes a row for its digest."""
        return sum(array.nbytes for array in self._arrays()) + 150 * self._count

    def add(self, row: IndexRow) -> None:
        """Add a row. The row of a digest that is there already is replaced; a vector of another dimension is
        ignored."""
        if row.vector.shape != (self._dim,):
            return
        place = self._places.get(row.digest)
        if place is None:
            place = self._new_place()
            self._digests[place] = row.digest
            self._places[row.digest] = place
        rotated = row.vector @ rotation(self._dim)
        step = max(float(np.abs(rotated).max()), 1e-9) / 127
        self._facts[place] = row.facts
        self._rows[place] = rotated
        codes = np.rint(rotated / step)
        self._heads[place] = codes[: self._head]
        self._rests[place] = codes[self._head :]
        self._steps[place] = step
        self._tails[place] = np.linalg.norm(rotated[self._head :])

    def remove(self, digest: str) -> None:
        """Remove the row of a digest, if there is one. The last row takes its place."""
        place = self._places.pop(digest, None)
        if place is None:
            return
        last = self._count - 1
        if place != last:
            for array in self._arrays():
                array[place] = array[last]
            self._digests[place] = self._digests[last]
            self._places[self._digests[place]] = place
        self._digests.pop()
        self._count = last
        self._oldest = self._oldest % max(last, 1)

    def nearest(self, vector: Vector, facts: int, floor: float, without: Iterable[str] = ()) -> SimilarEntry | None:
        """Return the row of the highest cosine among those whose facts are equal and whose cosine is at least
        `floor`."""
        found = self.nearest_few(vector, facts, floor, 1, without)
        return found[0] if found else None

    def nearest_few(
        self, vector: Vector, facts: int, floor: float, count: int, without: Iterable[str] = ()
    ) -> list[SimilarEntry]:
        """Return the `count` rows of the highest cosines, highest first, as `nearest` returns one."""
        query = (vector @ rotation(self._dim)).astype(np.float32)
        excluded = [self._places[digest] for digest in without if digest in self._places]
        upper = self._upper_bounds(query, facts, floor, count, excluded)
        places = np.flatnonzero(upper > -2.0)
        if len(places) > MOST:
            places = places[np.argpartition(upper[places], -MOST)[-MOST:]]
        cosines = self._rows[places].astype(np.float32) @ query
        best = [int(at) for at in np.argsort(-cosines, kind="stable")[:count] if float(cosines[at]) >= floor]
        return [SimilarEntry(self._digests[int(places[at])], min(float(cosines[at]), 1.0)) for at in best]

    def _upper_bounds(self, query: Vector, facts: int, floor: float, count: int, excluded: list[int]) -> Vector:
        """Return the upper bound of the cosine of every row that may be among the `count` nearest, and -2 for all
        others."""
        upper = np.empty(self._count, np.float32)
        if not self._count:
            return upper
        facts_of = self._facts[: self._count]
        if excluded:
            facts_of = facts_of.copy()
            facts_of[excluded] = np.uint64(facts ^ 1)
        error = np.float32(np.abs(query).sum() / 2)
        tail = np.float32(np.linalg.norm(query[self._head :]))
        scales = (self._heads, self._rests, self._steps, self._tails)
        lows = np.full(count, floor, np.float32)
        best = _bound(*scales, facts_of, np.uint64(facts), query, tail, error, lows, upper)
        upper[upper < best] = -2.0
        return upper

    def _arrays(self) -> tuple[npt.NDArray[Any], ...]:
        return self._facts, self._rows, self._heads, self._rests, self._steps, self._tails

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
        """Grow by a half, so that at most a third of the memory lies idle."""
        capacity = min(max(FIRST_CAPACITY, self._count + self._count // 2), self._max_rows)
        grown = (_resized(array, capacity) for array in self._arrays())
        self._facts, self._rows, self._heads, self._rests, self._steps, self._tails = grown


def warm_up(dim: int) -> None:
    """Compile the search kernels and make the rotation: up to a second the first time, then loaded from the disk."""
    partition = Partition(dim, 1)
    vector = np.zeros(dim, np.float32)
    vector[0] = 1.0
    partition.add(IndexRow("", 0, vector))
    partition.nearest(vector, 0, 0.0)


def _resized(array: npt.NDArray[Any], rows: int) -> npt.NDArray[Any]:
    grown: npt.NDArray[Any] = np.zeros((rows, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown


@lru_cache(maxsize=4)
def rotation(dim: int) -> npt.NDArray[np.float32]:
    """Return the random rotation, float32 [dim, dim]: Q of a Gaussian matrix of a fixed seed, the same in every
    process."""
    gaussian = np.random.Generator(np.random.PCG64(7)).standard_normal((dim, dim))
    q, r = np.linalg.qr(gaussian)
    turned: npt.NDArray[np.float32] = (q * np.sign(np.diag(r))).astype(np.float32)
    return turned


def _bound_rows(  # type: ignore[no-untyped-def]
    heads, rests, steps, tails, facts, wanted, query, tail, error, lows, upper
):
    """Fill `upper`, and `lows` with the highest lower bounds in ascending order; return the least of these. A row of
    which the head alone shows that it stays below gets -2."""
    head = heads.shape[1]
    near, far = query[:head], query[head:]
    best = lows[0]
    for row in range(upper.size):
        upper[row] = -2.0
        if facts[row] != wanted:
            continue
        room = steps[row] * error + np.float32(ROUNDING)
        estimate = _product(heads[row], near) * steps[row]
        if estimate + tails[row] * tail + room < best:
            continue
        estimate += _product(rests[row], far) * steps[row]
        upper[row] = estimate + room
        low = estimate - room
        if low > best:
            at = 0
            while at + 1 < lows.size and lows[at + 1] < low:
                lows[at] = lows[at + 1]
                at += 1
            lows[at] = low
            best = lows[0]
    return best


def _code_product(codes, query):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for axis in range(query.size):
        total += np.float32(codes[axis]) * query[axis]
    return total


_product = kernel(python=True, fastmath=True, name="_product")(_code_product)
_bound = kernel(python=True, fastmath=True, name="_bound")(_bound_rows)
