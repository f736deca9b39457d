"""Room for tables of which most grammars use a few pages."""

from __future__ import annotations

import math
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
"""0 where the system has no such mappings (Windows)."""


def room(shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return zeros in pages of their own, which take memory when they are written to, and give it back with the array.

    An allocator's room is reused: after the first grammars were dropped, all of such a table is made of pages that were
    written to before.
    """
    kind = np.dtype(dtype)
    if not _PRIVATE:
        return np.zeros(shape, kind)
    count = math.prod(shape)
    return np.frombuffer(mmap.mmap(-1, max(1, count * kind.itemsize), flags=_PRIVATE), kind, count).reshape(shape)


def twice(table: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return room for twice as many rows, which begins with those of `table`."""
    more = room((2 * len(table), *table.shape[1:]), table.dtype)
    more[: len(table)] = table
    return more
