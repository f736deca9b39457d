"""Sets of property names that can be asked which of them end a begun string, and those of an object so far."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Iterable, Iterator

_REMEMBERED = 256
"""Most beginnings of names whose rests are cached."""
_FEW = 8
"""Most names of an object that are searched one by one."""


class NameSet:
    """Immutable but for what it remembers."""

    __slots__ = ("_known", "_names", "_sorted")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._sorted: list[str] | None = None
        self._known: dict[tuple[str, int], list[str]] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def rests(self, begun: str, among: Container[str]) -> list[str]:
        """Return the rests of the names that begin with `begun`, those that are in `among`: a vocabulary's, which
        stays."""
        known = self._known.get((begun, id(among)))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[begun, id(among)] = self._rests(begun, among)
        return known

    def _rests(self, begun: str, among: Container[str]) -> list[str]:
        names = self._sorted
        if names is None:
            names = self._sorted = sorted(self._names)
        low = bisect_left(names, begun)
        if low == len(names) or not names[low].startswith(begun):
            return []
        size = len(begun)
        high = bisect_right(names, begun, low, key=lambda name: name[:size])
        return [name[size:] for name in names[low:high] if name[size:] in among]


class GivenNames:
    """Immutable. The last few names as they came, since most objects have no more and are asked about rarely; before
    them sets of falling sizes, each at least twice the next: one name more copies few of them, while every state on the
    way is kept (Bentley and Saxe, "Decomposable searching problems", 1980)."""

    __slots__ = ("_last", "_parts")

    def __init__(self, parts: tuple[NameSet, ...] = (), last: tuple[str, ...] = ()) -> None:
        self._parts = parts
        self._last = last

    def plus(self, name: str) -> GivenNames:
        last = (*self._last, name)
        if len(last) < _FEW:
            return GivenNames(self._parts, last)
        parts, names = self._parts, [*last]
        while parts and len(parts[-1]) < 2 * len(names):
            names += parts[-1]
            parts = parts[:-1]
        return GivenNames((*parts, NameSet(names)))

    def all(self) -> frozenset[str]:
        return frozenset(self._last).union(*self._parts)

    def rests(self, begun: str, among: Container[str]) -> list[str]:
        """Return `NameSet.rests` of all names together."""
        size = len(begun)
        found = [rest for name in self._last if name.startswith(begun) and (rest := name[size:]) in among]
        for part in self._parts:
            found += part.rests(begun, among)
        return found

    def __contains__(self, name: object) -> bool:
        return name in self._last or any(name in part for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        yield from self._last
        for part in self._parts:
            yield from part
