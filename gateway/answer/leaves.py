"""Find the leaves of a JSON text while it comes in pieces: where each stands, and when it is complete."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from sluicegate.safety import JsonPosition

Path = tuple[str | int, ...]
_BLANK = re.compile(r"[ \t\r\n]*")
_MARK = re.compile(r"[{}\[\]:,]")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BARE = re.compile(r"[^\s{}\[\]:,\"]+")


class Leaf(NamedTuple):
    """A value without further values in it, [start, end) of the text: a scalar, or an empty object or array."""

    path: Path
    start: int
    end: int
    value: Any

    @property
    def pointer(self) -> str:
        return pointer_of(self.path)


def pointer_of(path: Path) -> str:
    """RFC 6901."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)


class LeafReader:
    """Reads one JSON text. Same leaves however it is cut. Text that is no JSON ends the reading without a word: what
    leaves was judged elsewhere."""

    def __init__(self) -> None:
        self._position = JsonPosition()
        self._held = ""
        self._offset = 0  # of what is held, in the text
        self._opened: tuple[Path, int] | None = None  # the container that was opened last, while nothing stands in it

    def feed(self, text: str, *, last: bool = False) -> Iterator[Leaf]:
        """Yield leaves that `text` completes. `last`: nothing follows, so that a number ends too."""
        self._held += text
        at = 0
        while True:
            at = _match(_BLANK, self._held, at)
            leaf, after = self._next(at, last)
            if after == at:
                break
            if leaf is not None:
                yield leaf
            at = after
        self._held, self._offset = self._held[at:], self._offset + at

    def _next(self, at: int, last: bool) -> tuple[Leaf | None, int]:
        """Return what begins at `at`, if it is a leaf, and where it ends; `at` itself where that is not known yet."""
        held, place = self._held, self._position
        if _MARK.match(held, at):
            return self._mark(held[at], at), at + 1
        string = _STRING.match(held, at)
        bare = None if string else _BARE.match(held, at)
        found = string or bare
        if found is None or (bare is not None and found.end() == len(held) and not last):
            return None, at
        self._opened = None
        try:
            value = json.loads(found[0])
        except ValueError:
            return None, at
        if string is not None and place.expects_key:
            place.key = value
            return None, found.end()
        return self._leaf(place.path(), at, found.end(), value), found.end()

    def _mark(self, mark: str, at: int) -> Leaf | None:
        opened, self._opened = self._opened, None
        if mark in "{[":
            self._opened = (self._position.path(), at + self._offset)
        self._position.read(mark)
        if mark in "}]" and opened is not None:
            path, start = opened
            return Leaf(path, start, at + self._offset + 1, {} if mark == "}" else [])
        return None

    def _leaf(self, path: Path, start: int, end: int, value: Any) -> Leaf:
        return Leaf(path, start + self._offset, end + self._offset, value)


def leaves_of(text: str) -> list[Leaf]:
    return list(LeafReader().feed(text, last=True))


def _match(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
