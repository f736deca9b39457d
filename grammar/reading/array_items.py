"""Items of an array whose text grows: each is read once, however many tokens a mask tries behind it."""

from __future__ import annotations

from bisect import bisect_right
from decimal import Decimal
from json import JSONDecoder
from typing import Any

from sluicegate.grammar.budget.meter import charge
from sluicegate.grammar.schema.constants import canonical

NO_ITEM = object()
"""No item has begun after the last comma."""
_BLANKS = " \t\r\n"
_READ_A_CHARGE = 400
"""Characters of items that are read per unit charged."""
_decode = JSONDecoder(parse_float=Decimal).raw_decode
"""Exact: otherwise a number with enough digits would equal a shorter one, and nothing could follow."""


class ArrayItems:
    """The items of one array that are over: a comma follows them.

    Mutable. What it holds is compared with the text whenever it is asked, so that a tape may go back without a word."""

    __slots__ = ("_ends", "_item", "_rest", "_text", "_values", "places")

    def __init__(self) -> None:
        self.places: dict[Any, int] = {}
        """The first index of each item, by `canonical` form; without the last one of `read`."""
        self._values: list[Any] = []
        self._ends: list[int] = []
        """End of each item, after its comma, in bytes from the array's bracket."""
        self._text = b"["
        self._rest: bytes | None = None
        self._item: Any = NO_ITEM
        """What was read last behind the last comma, and as what."""

    def given(self, array: bytes) -> dict[Any, int]:
        """Return `places` for an array's text up to where its next item begins."""
        self.last(array)
        return self.places

    def read(self, array: bytes) -> Any:
        """Return `last` in `canonical` form. It is read once for all tokens of a mask that end it at the same place."""
        self._keep(array)
        if array[len(self._text) :] != self._rest:
            last = self.last(array)
            self._item = last if last is NO_ITEM else canonical(last)
            self._rest = array[len(self._text) :]
        return self._item

    def last(self, array: bytes) -> Any:
        """Return the last item of `array`, and keep those before it; `NO_ITEM` where it ends with a comma or the
        bracket. `array`: an array's text from its bracket, without the closing one. Takes as long as what was added
        since the last call; comparing what was there takes a microsecond for 30 kB."""
        self._keep(array)
        behind = len(self._text)
        rest = array[behind:].decode()
        charge(len(rest) / _READ_A_CHARGE)
        over = 0
        try:
            while (at := _behind_blanks(rest, over)) < len(rest):
                value, end = _decode(rest, at)
                comma = _behind_blanks(rest, end)
                if comma == len(rest):
                    return value
                behind += len(rest[over : comma + 1].encode())
                over = comma + 1
                self._add(canonical(value), behind)
            return NO_ITEM
        finally:
            self._text = array[:behind]

    def _add(self, value: Any, end: int) -> None:
        self.places.setdefault(value, len(self._values))
        self._values.append(value)
        self._ends.append(end)

    def _keep(self, array: bytes) -> None:
        """Forget the items that `array` does not begin with."""
        if array.startswith(self._text):
            return
        kept = bisect_right(self._ends, False, key=lambda end: not array.startswith(self._text[:end]))
        self._text = self._text[: self._ends[kept - 1] if kept else 1]
        while len(self._values) > kept:
            value = self._values.pop()
            if self.places[value] == len(self._values):
                del self.places[value]
        del self._ends[kept:]


def _behind_blanks(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at
