"""Results of pure functions over what callers sent, kept until they may be large.

One such result may take what the budget of its construction allows, 60 MB for an automaton of 60,000 states, so that a
cache of so many entries bounds no memory: a thousand patterns of thirty characters took 20 GB. What all of them take is
bounded by the CPU time that made them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import _lru_cache_wrapper, lru_cache
from typing import Any, TypeVar

FORGET_S = 0.5
"""CPU time of compiling after which all caches are emptied. Automata and sets of constants were made at 100 to 400 MB a
second (counted classes, long literals, large enums), so that all caches together stay below some 200 MB."""

_T = TypeVar("_T")


class RememberedFunctions:
    """The pure functions whose results are kept, which their modules name when they are imported."""

    def __init__(self) -> None:
        self._caches: list[_lru_cache_wrapper[Any]] = []

    def __call__(self, entries: int) -> Callable[[Callable[..., _T]], _lru_cache_wrapper[_T]]:
        """Decorate a function as `lru_cache` does."""

        def decorate(function: Callable[..., _T]) -> _lru_cache_wrapper[_T]:
            cached = lru_cache(maxsize=entries)(function)
            self._caches.append(cached)
            return cached

        return decorate

    def forget(self) -> None:
        """Empty all caches."""
        for cached in self._caches:
            cached.cache_clear()


remembered = RememberedFunctions()


class Forgetting:
    """Empties the caches of all `remembered` functions after `FORGET_S` of work. Safe to use from several threads."""

    def __init__(self) -> None:
        self._worked_s = 0.0
        self._lock = threading.Lock()

    def worked(self, seconds: float) -> None:
        """Count the CPU time of one compilation, whether it failed or not."""
        with self._lock:
            self._worked_s += seconds
            if self._worked_s < FORGET_S:
                return
            self._worked_s = 0.0
        remembered.forget()
