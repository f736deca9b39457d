"""Say where in a grammar as it was written a mistake is, also one that Lark found in what was made of it."""

from __future__ import annotations

import re
from typing import NoReturn

from sluicegate.plugins.errors import GrammarError, GrammarLimit

_NAMED = (
    r"TerminalDef\('(\w+)'",
    r"Terminals? \{?'(\w+)'",
    r"not defined: (\w+)",
    r"'(\w+)'",
    r"[Rr]ule (\w+)",
    r"(\d+\.\.\d+)",
    r"(\"\")",
)
_AT = re.compile(r"(?:, )?\bat line (\d+) column (\d+)(?: in <string>)?")


class SourceMap:
    """`written`: the grammar as its author wrote it; `text`: what Lark reads. `new_names`: names in `text` of those
    that are called otherwise there; `cuts`: offsets in `text` and in `written` where parts begin."""

    def __init__(self, written: str) -> None:
        self.written = self.text = written
        self.new_names: dict[str, str] = {}
        self.cuts: list[tuple[int, int]] = [(0, 0)]

    def line(self, at: int) -> tuple[int, int]:
        """Return line and column of an offset in `written`."""
        return self.written.count("\n", 0, at) + 1, at - self.written.rfind("\n", 0, at)

    def placed(self, reason: str, at: int) -> str:
        line, column = self.line(at)
        return f"line {line}, column {column}: {reason}"

    def refuse(self, kind: type[GrammarError], reason: str, at: int) -> NoReturn:
        raise kind(self.placed(reason, at))

    def too_much(self, name: str, reason: str) -> NoReturn:
        """Raise `GrammarLimit` for a rule or terminal."""
        self.refuse(GrammarLimit, reason, self.find(name))

    def find(self, name: str) -> int:
        """Return where `name` is defined, else where it is first written."""
        name = next((old for old, new in self.new_names.items() if new == name), name)
        word = re.escape(name)
        for pattern in (rf"^[?!]*({word})\s*(?:\.-?\d+)?\s*(?:\{{[^}}]*\}}\s*)?:", rf"(?<![\w'\"])({word})(?!\w)"):
            found = re.search(pattern, self.written, re.MULTILINE)
            if found:
                return found.start(1)
        return max(self.written.find(name), 0)

    def of_lark(self, error: Exception) -> str:
        """Describe an error of Lark's, with its place in the original grammar."""
        pattern = getattr(error, "pattern", None)
        if isinstance(pattern, str) and pattern in self.written:
            return self.placed(f"not a regular expression: {error}", self.written.find(pattern))
        what = str(error).split("\n", 1)[0][:300]
        place = _AT.search(what)
        if place:
            line, column = int(place[1]), int(place[2])
            offset = sum(len(row) for row in self.text.splitlines(keepends=True)[: line - 1]) + column - 1
            return self.placed(f"Lark does not read this: {_AT.sub('', what).strip(' :')}", self._original(offset))
        found = (name for pattern in _NAMED for name in re.findall(pattern, what) if name in self.written)
        named = next(found, None)
        reason = f"Lark does not read this grammar: {what}"
        return reason if named is None else self.placed(reason, self.find(named))

    def _original(self, offset: int) -> int:
        cut, begin = max((pair for pair in self.cuts if pair[0] <= offset), default=(0, 0))
        return min(begin + offset - cut, len(self.written))
