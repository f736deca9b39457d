"""Measure how much memory an object keeps."""

from __future__ import annotations

import gc
import sys
from collections import deque
from collections.abc import Iterable
from functools import _lru_cache_wrapper
from types import BuiltinFunctionType, FunctionType, ModuleType

import numpy as np

_NOT_ITS_OWN = (type, ModuleType, BuiltinFunctionType, _lru_cache_wrapper)


def footprint(root: object, shared: Iterable[object], most_objects: int) -> tuple[int, bool]:
    """Return the bytes of the objects that `root` leads to, and whether these were all: only `most_objects` are looked
    at, the nearest first, since large tables lie near the root and small objects by the thousand far away. Classes,
    modules, and `shared` with what it leads to, are left out."""
    seen = {id(one) for one in shared}
    waiting: deque[object] = deque((root,))
    found = 0
    while waiting and len(seen) < most_objects:
        one = waiting.popleft()
        if id(one) in seen or isinstance(one, _NOT_ITS_OWN):
            continue
        seen.add(id(one))
        found += sys.getsizeof(one)
        waiting.extend(_parts(one))
    return found, not waiting


def _parts(one: object) -> Iterable[object]:
    if isinstance(one, FunctionType):  # what it refers to besides is its module, with all that this imports
        return one.__closure__ or ()
    if isinstance(one, np.ndarray):  # a view does not tell the collector what it views
        return () if one.base is None else (one.base,)
    return gc.get_referents(one)
