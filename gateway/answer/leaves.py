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
_INSIDE = re.compile(r'(?:[^"\\]|\\.)*', re.DOTALL)
_BARE = re.compile(r"[^\s{}\[\]:,\"]+")


class Leaf(NamedTuple):
    """A value without further values in it, [start, end) of the text: a scalar, or an empty object or array."""

    path: Path
    start: int
    end: int
    value: Any
    raw: str
    """The value as written: a number may exceed any float, an escape may be half a surrogate pair."""

    @property
    def pointer(self) -> str:
        return pointer_of(self.path)


def pointer_of(path: Path) -> str:
    """Return the JSON pointer (RFC 6901) of `path`; half a surrogate pair in a key becomes U+FFFD."""
    text = "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in path)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class LeafReader:
    """Reads one JSON text incrementally; the leaves do not depend on how it is cut. Invalid JSON ends the reading
    silently: the validator judges that."""

    def __init__(self) -> None:
        self._position = JsonPosition()
        self._held = ""
        self._pieces: list[str] = []  # behind what is held, of a string that is open
        self._in_string = self._escaped = False
        self._offset = 0  # of what is held, in the text
        self._opened: tuple[Path, int] | None = None  # the container that was opened last, while nothing stands in it

    def feed(self, text: str, *, last: bool = False) -> Iterator[Leaf]:
        """Yield leaves that `text` completes. `last`: nothing follows, so that a number ends too."""
        self._pieces.append(text)
        if self._in_string and not self._closes(text) and not last:
            return
        self._held, self._in_string = "".join([self._held, *self._pieces]), False
        self._pieces.clear()
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
        if self._held[:1] == '"':
            self._in_string, self._escaped = True, False
            self._closes(self._held[1:])

    def _closes(self, text: str) -> bool:
        """Return whether the open string ends in `text`. Each character of a long string is looked at once."""
        begin = 1 if self._escaped and text else 0
        self._escaped = self._escaped and not text
        inside = _INSIDE.match(text, begin)
        rest = text[inside.end() if inside else begin :]
        self._escaped = self._escaped or rest == "\\"
        return rest not in ("", "\\")

    def _next(self, at: int, last: bool) -> tuple[Leaf | None, int]:
        """Return the leaf at `at`, if one begins there, and its end; `at` itself where the end is not known yet."""
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
        return self._leaf(place.path(), at, found.end(), value, found[0]), found.end()

    def _mark(self, mark: str, at: int) -> Leaf | None:
        opened, self._opened = self._opened, None
        if mark in "{[":
            self._opened = (self._position.path(), at + self._offset)
        self._position.read(mark)
        if mark in "}]" and opened is not None:
            path, start = opened
            value: Any = {} if mark == "}" else []
            return Leaf(path, start, at + self._offset + 1, value, json.dumps(value))
        return None

    def _leaf(self, path: Path, start: int, end: int, value: Any, raw: str) -> Leaf:
        return Leaf(path, start + self._offset, end + self._offset, value, raw)


def leaves_of(text: str) -> list[Leaf]:
    return list(LeafReader().feed(text, last=True))


def _match(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return at if found is None else found.end()
