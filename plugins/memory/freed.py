"""Memory that was freed, and that the C library's allocator keeps for later."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any


@cache
def _trim() -> Any:
    """Return `malloc_trim` of glibc; None where there is another C library."""
    try:
        return getattr(ctypes.CDLL(None), "malloc_trim", None)
    except (OSError, TypeError):  # Windows names no library of the process itself
        return None


def give_back() -> None:
    """Return pages that hold nothing to the system, from the middle of the heaps of all threads too. Takes 6 to 26 ms
    where some hundred MB are in use, without the interpreter's lock."""
    trim = _trim()
    if trim is not None:
        trim(0)
