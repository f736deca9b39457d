"""The property names of an object so far, for tapes that go back."""

from __future__ import annotations

from collections.abc import Iterator


class GivenNames:
    """Immutable. Sets of falling sizes, each at least twice the next: one name more copies few of them, while every
    state on the way is kept (Bentley and Saxe, "Decomposable searching problems", 1980)."""

    __slots__ = ("_parts",)

    def __init__(self, parts: tuple[frozenset[str], ...] = ()) -> None:
        self._parts = parts

    def plus(self, name: str) -> GivenNames:
        parts, last = self._parts, frozenset((name,))
        while parts and len(parts[-1]) < 2 * len(last):
            last |= parts[-1]
            parts = parts[:-1]
        return GivenNames((*parts, last))

    def all(self) -> frozenset[str]:
        return self._parts[0] if len(self._parts) == 1 else frozenset().union(*self._parts)

    def __contains__(self, name: object) -> bool:
        return any(name in part for part in self._parts)

    def __iter__(self) -> Iterator[str]:
        return (name for part in self._parts for name in part)
