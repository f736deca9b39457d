"""Find the known name that an unknown one was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

SHORTEST = 3
"""Shorter names are near to anything."""
FAR_FROM = 9
"""From this length on, two letters may be wrong."""
LONGEST = 48


class Nearest:
    """Case, `_` and `-` aside, two names are near where leaving out one letter of each (two, of long ones) makes them
    the same: a letter too many, too few, another, or two exchanged. A look-up costs as many dictionary look-ups as
    there are ways to leave letters out, however many names there are."""

    def __init__(self, names: Iterable[str]) -> None:
        self._whole: dict[str, str] = {}
        self._less: dict[str, str] = {}
        for name in sorted(names, key=len):
            plain = _plain(name)
            self._whole.setdefault(plain, name)
            for less in _shortened(plain):
                self._less.setdefault(less, name)

    def find(self, name: str) -> str | None:
        plain = _plain(name)
        if len(plain) < SHORTEST or len(plain) > LONGEST:
            return self._whole.get(plain)
        found = self._whole.get(plain) or self._less.get(plain)
        if found is not None:
            return found
        for less in _shortened(plain):
            found = self._whole.get(less) or self._less.get(less)
            if found is not None:
                return found
        return None


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _shortened(plain: str) -> Iterator[str]:
    if len(plain) <= SHORTEST:
        return
    once = [plain[:i] + plain[i + 1 :] for i in range(len(plain))]
    yield from once
    if len(plain) >= FAR_FROM:
        yield from {one[:i] + one[i + 1 :] for at, one in enumerate(once) for i in range(at, len(one))}
