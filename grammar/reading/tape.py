"""The text so far, and how its brackets nest: what guards look back at.

All readings of a text share its bytes, so one tape per matcher is enough; readings hold no text and can be shared.
"""

from __future__ import annotations

import json
from typing import Any

from sluicegate.grammar.reading.array_items import ArrayItems
from sluicegate.grammar.reading.given_names import GivenNames

NO_NAMES = GivenNames()
_ARRAYS_KEPT = 16
"""Most arrays of unique items that are tracked: nested ones, and a few that were closed."""


class OpenBracket:
    """An open bracket: where it stands, and the decoded property names of its object so far. Immutable."""

    __slots__ = ("keys", "outer", "start")

    def __init__(self, start: int, keys: GivenNames, outer: OpenBracket | None) -> None:
        self.start = start
        self.keys = keys
        self.outer = outer


class Standing:
    """What a tape knows beside its text. Immutable: all places between two quotes, brackets or colons share one."""

    __slots__ = ("bracket", "closed", "mode", "since", "string")

    def __init__(
        self, mode: int, bracket: OpenBracket | None, string: tuple[int, int], closed: tuple[int, int], since: int
    ) -> None:
        self.mode = mode
        self.bracket = bracket
        self.string = string
        self.closed = closed
        self.since = since


def is_inert(word: bytes) -> bool:
    """Return whether `word` holds nothing that is followed inside a string."""
    return 0x22 not in word and 0x5C not in word  # asked for `b'"'`, Python first makes an error, in 0.3 us


Checkpoint = tuple[int, Standing]
"""The size of a tape's text, and what else it knows there: going back is an assignment."""


class Tape:
    """Mutable; one per matcher. `text` holds every accepted byte."""

    __slots__ = ("_arrays", "_standing", "closed", "mode", "open", "since", "string", "text")

    def __init__(self) -> None:
        self.text = bytearray()
        self.mode = 0
        """0 = outside strings, 1 = inside one, 2 = after a backslash."""
        self.open: OpenBracket | None = None
        self.string = (0, 0)
        """Start and end of the last string, quotes included; the end is meaningless while it is open."""
        self.closed = (0, 0)
        """Start and end of the last object or array that was closed."""
        self.since = 0
        """Start of the current JSON value, or of the free text around one (structural tags)."""
        self._standing: Standing | None = None
        """The present one, where it was asked for: whatever changes one of the five sets this to None."""
        self._arrays: dict[int, ArrayItems] = {}

    @property
    def off(self) -> bool:
        """Return whether the text being written is not JSON."""
        return False

    def standing(self) -> Standing:
        found = self._standing
        if found is None:
            found = self._standing = Standing(self.mode, self.open, self.string, self.closed, self.since)
        return found

    def checkpoint(self) -> Checkpoint:
        return len(self.text), self.standing()

    def restore(self, checkpoint: Checkpoint) -> None:
        size, standing = checkpoint
        self.go_back(size, standing)

    def go_back(self, size: int, standing: Standing) -> None:
        """Do `restore` where both are at hand."""
        self._standing = standing
        self.mode = standing.mode
        self.open = standing.bracket
        self.string = standing.string
        self.closed = standing.closed
        self.since = standing.since
        del self.text[size:]

    def copy(self) -> Tape:
        other = type(self)()
        other.text[:] = self.text
        other.restore(self.checkpoint())
        return other

    def push(self, byte: int) -> None:
        at = len(self.text)
        self.text.append(byte)
        self._follow(byte, at)

    def push_all(self, word: bytes) -> None:
        at = len(self.text)
        self.text += word
        if self.mode == 1 and is_inert(word):
            return
        for byte in word:
            self._follow(byte, at)
            at += 1

    def _follow(self, byte: int, at: int) -> None:
        """Follow `byte`, which stands at offset `at` of the text already."""
        if self.mode:
            self._in_string(byte, at)
        elif byte == 0x22:
            self.mode, self.string, self._standing = 1, (at, at), None
        elif byte == 0x2C or byte <= 0x20:  # what is most frequent
            return
        elif byte == 0x3A:
            bracket = self.open
            if bracket is not None:
                names = bracket.keys.plus(self.last_string())
                self.open, self._standing = OpenBracket(bracket.start, names, bracket.outer), None
        elif byte == 0x7B or byte == 0x5B:
            self.open, self._standing = OpenBracket(at, NO_NAMES, self.open), None
        elif byte == 0x7D or byte == 0x5D:
            bracket = self.open
            if bracket is not None:
                self.closed, self.open, self._standing = (bracket.start, at + 1), bracket.outer, None

    def _in_string(self, byte: int, at: int) -> None:
        if self.mode == 2:
            self.mode, self._standing = 1, None
        elif byte == 0x5C:
            self.mode, self._standing = 2, None
        elif byte == 0x22:
            self.mode, self.string, self._standing = 0, (self.string[0], at + 1), None

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
