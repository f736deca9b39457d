"""The text so far, and how its brackets nest: what guards look back at.

All readings of a text share its bytes, so one tape per matcher is enough; readings hold no text and can be shared.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from sluicegate.grammar.reading.array_items import ArrayItems
from sluicegate.grammar.reading.given_names import GivenNames

NO_NAMES = GivenNames()
_ARRAYS_KEPT = 16
"""Most arrays of unique items that are tracked: nested ones, and a few that were closed."""
_new = tuple.__new__


class OpenBracket(NamedTuple):
    """An open bracket: where it stands, and the decoded property names of its object so far."""

    start: int
    keys: GivenNames
    outer: OpenBracket | None


class Checkpoint(NamedTuple):
    """Where a tape stands; immutable, so that going back is an assignment."""

    size: int = 0
    mode: int = 0
    """0 = outside strings, 1 = inside one, 2 = after a backslash."""
    open: OpenBracket | None = None
    string: tuple[int, int] = (0, 0)
    """Start and end of the last string, quotes included; the end is meaningless while it is open."""
    closed: tuple[int, int] = (0, 0)
    """Start and end of the last object or array that was closed."""
    since: int = 0
    """Start of the current JSON value, or of the free text around one (structural tags)."""


class Tape:
    """Mutable; one per matcher. `text` holds every accepted byte."""

    __slots__ = ("_arrays", "closed", "mode", "open", "since", "string", "text")

    def __init__(self) -> None:
        self.text = bytearray()
        self._arrays: dict[int, ArrayItems] = {}
        self.restore(Checkpoint())

    @property
    def off(self) -> bool:
        """Return whether the text being written is not JSON."""
        return False

    def checkpoint(self) -> Checkpoint:
        # Made for every token, and a named tuple's own constructor takes twice as long.
        return _new(Checkpoint, (len(self.text), self.mode, self.open, self.string, self.closed, self.since))

    def restore(self, checkpoint: Checkpoint) -> None:
        size, self.mode, self.open, self.string, self.closed, self.since = checkpoint
        del self.text[size:]

    def copy(self) -> Tape:
        other = type(self)()
        other.text[:] = self.text
        other.restore(self.checkpoint())
        return other

    def push(self, byte: int) -> None:
        at = len(self.text)
        self.text.append(byte)
        if self.mode:
            self._in_string(byte, at)
        elif byte == 0x22:
            self.mode, self.string = 1, (at, at)
        elif byte == 0x2C or byte <= 0x20:  # what is most frequent
            return
        elif byte in b"{[":
            self.open = _new(OpenBracket, (at, NO_NAMES, self.open))
        elif byte in b"}]" and self.open is not None:
            self.closed = (self.open.start, at + 1)
            self.open = self.open.outer
        elif byte == 0x3A and self.open is not None:
            start, keys, outer = self.open
            self.open = _new(OpenBracket, (start, keys.plus(self.last_string()), outer))

    def push_all(self, word: bytes) -> None:
        if self.mode == 1 and b'"' not in word and b"\\" not in word:
            self.text += word
            return
        for byte in word:
            self.push(byte)

    def _in_string(self, byte: int, at: int) -> None:
        if self.mode == 2:
            self.mode = 1
        elif byte == 0x5C:
            self.mode = 2
        elif byte == 0x22:
            self.mode, self.string = 0, (self.string[0], at + 1)

    def last_string(self) -> str:
        """Return the string that was closed last, decoded."""
        begin, end = self.string
        return _decoded(self.text[begin + 1 : end - 1])

    def begun_string(self) -> str | None:
        """Return the decoded text of the open string; None if no string is open or its last character is incomplete."""
        if self.mode != 1:
            return None
        try:
            return _decoded(self.text[self.string[0] + 1 :])
        except ValueError:
            return None

    def array_start(self, end: int) -> int:
        """Return where the innermost open array begins, one of whose items ends before offset `end`."""
        after = self.text[end] if end < len(self.text) else 0
        if after in b"]}":
            return self.closed[0]  # a number ends with the bracket that closes its array, or with a wrong one
        around = self.open.outer if after in b"{[" and self.open is not None else self.open
        assert around is not None
        return around.start

    def outside(self, end: int) -> OpenBracket | None:
        """Return the bracket open around the one that `array_start` found."""
        after = self.text[end] if end < len(self.text) else 0
        if after in b"]}":
            return self.open
        around = self.open.outer if after in b"{[" and self.open is not None else self.open
        assert around is not None
        return around.outer

    def items(self, end: int) -> list[Any]:
        """Return the items of the innermost open array, the last one ending before offset `end`."""
        items: list[Any] = json.loads(bytes(self.text[self.array_start(end) : end]) + b"]")
        return items

    def last_item(self, end: int) -> Any:
        """Return the item of the innermost open array that ends before offset `end`."""
        start = self.array_start(end)
        return self.array_items(start).last(bytes(self.text[start:end]))

    def array_items(self, start: int) -> ArrayItems:
        """Return the record of items of the array that begins at `start`."""
        found = self._arrays.get(start)
        if found is None:
            if len(self._arrays) >= _ARRAYS_KEPT:
                self._arrays.clear()
            found = self._arrays[start] = ArrayItems()
        return found


class PlainTape(Tape):
    """Of a text that is no JSON: it is kept, nothing is followed."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__()
        self.mode = 1

    @property
    def off(self) -> bool:
        return True

    def push(self, byte: int) -> None:
        self.text.append(byte)

    def push_all(self, word: bytes) -> None:
        self.text += word


def _decoded(body: bytearray) -> str:
    """Return the string whose spelling between the quotes is `body`. Raises `ValueError` where it breaks off inside a
    character."""
    if 0x5C not in body:
        return body.decode()
    text: str = json.loads(b'"' + body + b'"')
    return text
