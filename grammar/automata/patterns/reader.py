"""A cursor over the text of a pattern, with errors that point at the offending place."""

from __future__ import annotations

from typing import NoReturn

from sluicegate.plugins.errors import GrammarLimit, InvalidGrammar, UnsupportedGrammar

_SHOWN = 60  # characters of a long pattern shown around the caret


class Cursor:
    """`next`, `peek` and `take` move through `text`; `invalid` and `unsupported` raise with a caret line."""

    __slots__ = ("position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0

    def more(self) -> bool:
        return self.position < len(self.text)

    def peek(self) -> str:
        return self.text[self.position]

    def peek_is(self, expected: str) -> bool:
        return self.text.startswith(expected, self.position)

    def next(self) -> str:
        self.position += 1
        return self.text[self.position - 1]

    def take(self, expected: str) -> bool:
        """Read `expected` if it is next."""
        if self.text.startswith(expected, self.position):
            self.position += len(expected)
            return True
        return False

    def digits(self) -> str:
        """Read ASCII digits."""
        start = self.position
        while self.more() and "0" <= self.peek() <= "9":
            self.position += 1
        return self.text[start : self.position]

    def hexadecimal(self, count: int) -> int | None:
        """Read exactly `count` hexadecimal digits, or nothing and return None."""
        digits = self.text[self.position : self.position + count]
        if len(digits) != count or any(d not in "0123456789abcdefABCDEF" for d in digits):
            return None
        self.position += count
        return int(digits, 16)

    def take_name(self) -> bool:
        """Read a group's name and its closing `>`."""
        end = self.text.find(">", self.position)
        name = self.text[self.position : end] if end > 0 else ""
        if not name.replace("$", "_").isidentifier():
            return False
        self.position = end + 1
        return True

    def skip_line(self) -> None:
        while self.more() and self.next() != "\n":
            pass

    def skip_to(self, end: str, opened_at: int) -> None:
        """Move to just before `end`."""
        found = self.text.find(end, self.position)
        if found < 0:
            self.invalid("this comment is never closed", at=opened_at)
        self.position = found

    def invalid(self, reason: str, at: int | None = None) -> NoReturn:
        raise InvalidGrammar(self.point(f"pattern: {reason}", at))

    def unsupported(self, what: str, at: int | None = None) -> NoReturn:
        raise UnsupportedGrammar(self.point(f"pattern: not supported: {what}", at))

    def limit(self, reason: str) -> NoReturn:
        raise GrammarLimit(self.point(f"pattern: {reason}", None))

    def point(self, reason: str, at: int | None) -> str:
        """Return the reason, the place, and the pattern with a caret under it."""
        position = self.position if at is None else at
        first = max(0, position - _SHOWN // 2)
        shown = self.text[first : first + _SHOWN]
        line = "".join(c if c.isprintable() else "?" for c in shown)
        return f"{reason} (position {position})\n  {line}\n  {' ' * (position - first)}^"
